//! The conditions of a running daemon: found whenever it is looked at, and every few seconds for the log and the service
//! manager.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kickcache_daemon::conditions::Surroundings;
use kickcache_daemon::conditions::state_probe::StateProbe;
use kickcache_daemon::conditions::watch::ConditionWatch;
use kickcache_daemon::control::condition::Health;
use kickcache_daemon::control::host_report::HostReport;
use kickcache_daemon::control::report::Report;
use kickcache_daemon::plan::ServePlan;
use kickcache_daemon::serve::config::StatePlace;
use kickcache_daemon::shell_command::DaemonCommands;
use kickcache_daemon::whole_path::whole_path;

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The conditions found so far.
pub(super) struct ConditionBook {
    watch: Mutex<ConditionWatch>,
    probe: Option<StateProbe>,
    host: HostReport,
    /// The commands for this daemon.
    pub(super) commands: DaemonCommands,
}

impl ConditionBook {
    /// For a plan with this state directory.
    pub(super) fn new(plan: &ServePlan, state: Option<PathBuf>) -> ConditionBook {
        let place = state.clone().map_or(StatePlace::NotKept, StatePlace::Directory);
        let commands = DaemonCommands::new(place, Some(whole_path(&plan.control)));
        ConditionBook {
            watch: Mutex::default(),
            probe: state.map(StateProbe::new),
            host: HostReport::own(&commands),
            commands,
        }
    }

    /// Completes a report; `silent` are the cache devices whose servers did not answer.
    pub(super) fn complete(&self, report: &mut Report, silent: &[String]) {
        let failure = self.probe.as_ref().and_then(|probe| probe.poll(Instant::now()));
        let around = Surroundings { silent, state_failure: failure.as_deref(), commands: &self.commands };
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).complete(report, &around);
        report.host = self.host.clone();
    }

    /// The health at the last look.
    pub(super) fn health(&self) -> Health {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).health().clone()
    }
}

/// A daemon that can be looked at.
pub(super) trait Look: Send + Sync + 'static {
    /// Finds the conditions; a daemon that starts or stops has none.
    fn look(&self);
}

/// Looks at a daemon at intervals, until dropped.
pub(super) struct ConditionThread {
    ending: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ConditionThread {
    /// Begins.
    ///
    /// # Errors
    /// If there can be no thread for it.
    pub(super) fn start(target: Arc<dyn Look>) -> io::Result<ConditionThread> {
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
