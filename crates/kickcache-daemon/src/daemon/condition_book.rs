//! The conditions of a running daemon.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::conditions::Surroundings;
use crate::conditions::state_probe::StateProbe;
use crate::conditions::watch::ConditionWatch;
use crate::control::condition::Health;
use crate::control::host_report::HostReport;
use crate::control::report::Report;
use crate::plan::ServePlan;
use crate::serve::config::StatePlace;
use crate::shell_command::DaemonCommands;
use crate::whole_path::whole_path;

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);

pub(crate) struct ConditionBook {
    watch: Mutex<ConditionWatch>,
    probe: Option<StateProbe>,
    host: HostReport,
    pub(crate) commands: DaemonCommands,
}

impl ConditionBook {
    pub(crate) fn new(plan: &ServePlan, state: Option<PathBuf>) -> ConditionBook {
        let place = state.clone().map_or(StatePlace::NotKept, StatePlace::Directory);
        let commands = DaemonCommands::new(place, Some(whole_path(&plan.control)));
        ConditionBook {
            watch: Mutex::default(),
            probe: state.map(StateProbe::new),
            host: HostReport::own(&commands),
            commands,
        }
    }

    /// Completes a report; `silent` are the cache devices with a server that did not answer, or has ended.
    pub(crate) fn complete(&self, report: &mut Report, silent: &[String]) {
        let failure = self.probe.as_ref().and_then(|probe| probe.poll(Instant::now()));
        let around = Surroundings { silent, state_failure: failure.as_deref(), commands: &self.commands };
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).complete(report, &around);
        report.host = self.host.clone();
    }

    pub(crate) fn health(&self) -> Health {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).health().clone()
    }
}

pub(crate) trait Look: Send + Sync + 'static {
    /// Finds the conditions; none while the daemon starts or stops.
    fn look(&self);
}

/// A thread that finds the conditions of a daemon at intervals, until dropped.
pub(crate) struct ConditionThread {
    ending: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ConditionThread {
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn start(target: Arc<dyn Look>) -> io::Result<ConditionThread> {
        let (ending, ended) = mpsc::channel();
        let follow = move || {
            target.look();
            while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                target.look();
            }
        };
        let thread = thread::Builder::new().name("conditions".into()).spawn(follow)?;
        Ok(ConditionThread { ending: Some(ending), thread: Some(thread) })
    }
}

impl Drop for ConditionThread {
    fn drop(&mut self) {
        self.ending = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
