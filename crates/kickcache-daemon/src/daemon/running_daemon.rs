//! A running daemon.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::control::condition::Health;
use crate::control::host_report::HostReport;
use crate::control::report::{Report, UnservedReport};
use crate::control::{ControlError, wire};
use crate::daemon::cache_report::{cache_report, sample_report, with_leaving};
use crate::daemon::condition_book::{ConditionBook, Look};
use crate::daemon::service_manager::{self, DevicePulse, Pulses};
use crate::daemon::status_report::StatusParts;
use crate::driver::rights::separation::has_monitor_ended;
use crate::metrics::scrape::{MetricsTarget, Scrape};
use crate::operations::changes::{Changes, Turn};
use crate::operations::control_error::starting;
use crate::operations::grow::Growths;
use crate::operations::reload_result;
use crate::operations::resize::Resizes;
use crate::plan::ServePlan;
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;
use crate::serve::server::ServerSample;
use crate::serve::stop_wish::StopWish;
use crate::signals::{self, Wish};
use crate::start::servers::{PlannedServer, StartResult};
use crate::whole_path::{shown_path, whole_path};

/// How long a request waits for a daemon that is starting.
const START_MAX: Duration = Duration::from_secs(8);

fn state_directory(plan: &ServePlan) -> Option<PathBuf> {
    match StatePlace::named(plan.state.as_deref()) {
        StatePlace::Directory(directory) => Some(whole_path(&directory)),
        StatePlace::NotKept | StatePlace::Missing => None,
    }
}

pub(super) struct Daemon {
    began: Instant,
    pub(super) state: Option<PathBuf>,
    pub(super) changes: Changes,
    pub(super) conditions: ConditionBook,
    pub(super) resizes: Arc<Resizes>,
    pub(super) growths: Arc<Growths>,
    /// Whether a signal or a command requested a stop.
    pub(super) is_stopping: AtomicBool,
    /// Ends waits for the server of an origin.
    pub(super) stop_wish: StopWish,
    stage: Mutex<StartPhase>,
    changed: Condvar,
}

#[derive(Clone)]
pub(super) enum StartPhase {
    Starting,
    /// A stop was requested before the start was complete.
    Unwanted,
    Serving(StartResult),
}

impl Daemon {
    pub(super) fn new(changes: Changes) -> Daemon {
        let state = state_directory(changes.plan());
        Daemon {
            began: Instant::now(),
            conditions: ConditionBook::new(changes.plan(), state.clone()),
            state,
            changes,
            resizes: Arc::default(),
            growths: Arc::default(),
            is_stopping: AtomicBool::new(false),
            stop_wish: StopWish::default(),
            stage: Mutex::new(StartPhase::Starting),
            changed: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, StartPhase> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn started(&self, started: StartResult) {
        let mut stage = self.lock();
        if matches!(*stage, StartPhase::Unwanted) {
            started.servers.iter().for_each(|served| served.handle.stop());
        }
        *stage = StartPhase::Serving(started);
        self.changed.notify_all();
    }

    pub(super) fn begin_stop(&self) {
        service_manager::tell_stop();
        // Ends a change that waits for a server, too.
        self.stop_wish.raise();
        let mut stage = self.lock();
        match &*stage {
            StartPhase::Serving(started) => started.servers.iter().for_each(|served| served.handle.stop()),
            StartPhase::Starting | StartPhase::Unwanted => {
                *stage = StartPhase::Unwanted;
            }
        }
    }

    /// A start that ended because of a stop request has not failed.
    pub(super) fn judge_failed_start(&self, error: anyhow::Error) -> anyhow::Result<()> {
        let is_stopped = matches!(error.downcast_ref(), Some(ServeError::Stopped));
        if is_stopped && self.stop_wish.is_raised() {
            tracing::info!(event = "start_stopped", "the start was cancelled by a stop request");
            return Ok(());
        }
        Err(error)
    }

    pub(super) fn handle_signal(self: &Arc<Self>, wish: Wish) {
        match wish {
            Wish::Stop => self.handle_stop_signal(),
            Wish::Reload if self.changes.has_file() => self.reload_aside(),
            Wish::Reload => signals::tell_ignored("SIGHUP"),
        }
    }

    /// No client waits for the result; it is logged.
    fn reload_aside(self: &Arc<Self>) {
        tracing::info!(event = "signal_reload", "SIGHUP: reading the configuration file again");
        let daemon = Arc::clone(self);
        let reload = move || drop(daemon.reload_all());
        if let Err(error) = std::thread::Builder::new().name("reload".into()).spawn(reload) {
            tracing::error!(event = "reload_refused", "the configuration file cannot be read again: {error}");
        }
    }

    pub(super) fn reload_all(&self) -> Result<wire::Reloaded, ControlError> {
        service_manager::tell_reload();
        let reloaded =
            self.change("a reload of the configuration file", |turn, started| turn.reload(started));
        service_manager::tell_reloaded();
        reload_result::tell(&reloaded);
        reloaded.map_err(|failed| failed.for_client())
    }

    /// Changes the served volumes, when no other change is in progress.
    pub(super) fn change<T, E: From<ControlError>>(
        &self,
        what: &str,
        change: impl FnOnce(&Turn<'_>, &mut StartResult) -> Result<T, E>,
    ) -> Result<T, E> {
        let turn = self.changes.turn(what)?;
        let mut started = self.served()?;
        let changed = change(&turn, &mut started);
        // If a step fails, the earlier steps are stored too.
        *self.lock() = StartPhase::Serving(started);
        changed
    }

    /// Requests a stop; if a signal or a command has requested it already, insists on it.
    fn handle_stop_signal(&self) {
        if !self.is_stopping.swap(true, Ordering::AcqRel) {
            return self.begin_stop();
        }
        if let StartPhase::Serving(started) = &*self.lock() {
            started.servers.iter().for_each(|served| served.handle.insist());
        }
    }

    /// The served volumes; waits for a limited time if the daemon is starting.
    pub(super) fn served(&self) -> Result<StartResult, ControlError> {
        let is_starting = |stage: &mut StartPhase| !matches!(stage, StartPhase::Serving(_));
        let waited = self.changed.wait_timeout_while(self.lock(), START_MAX, is_starting);
        let (stage, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &*stage {
            StartPhase::Serving(started) => Ok(started.clone().looked_at()),
            StartPhase::Starting | StartPhase::Unwanted => Err(starting()),
        }
    }

    pub(super) fn report(&self, started: &StartResult, depth: Depth) -> Scrape {
        let plan = self.changes.plan();
        let gathered = self.gather(started, depth);
        let memory = gathered.memory(plan.memory_limit);
        let StatusParts { caches, orphans, tls_failure, silent, .. } = gathered;
        let unserved = started.unserved.iter().cloned().map(UnservedReport::from).chain(orphans);
        let mut report = Report {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_seconds: self.began.elapsed().as_secs_f64(),
            io_engine: plan.io_engine.as_str().into(),
            state_directory: self.state.clone(),
            caches,
            unserved: unserved.collect(),
            monitor_ended: has_monitor_ended(),
            memory,
            tls_failure,
            health: Health::default(),
            conditions: Vec::new(),
            host: HostReport::default(),
        };
        // During a stop, a server without an answer is no condition.
        let silent = if self.is_stopping.load(Ordering::Acquire) { Vec::new() } else { silent };
        self.conditions.complete(&mut report, &silent);
        Scrape { report, silent }
    }

    fn gather(&self, started: &StartResult, depth: Depth) -> StatusParts {
        let mut gathered = StatusParts::default();
        for served in &started.servers {
            let sample = match depth {
                Depth::Status => served.handle.status().map(ServerSample::whole),
                Depth::Vitals => served.handle.vitals().map(ServerSample::whole),
                Depth::Metrics => served.handle.sample(),
            };
            match sample {
                Ok(sample) => {
                    gathered.take(started, served, &sample.status, &self.conditions.commands);
                    let report = match depth {
                        Depth::Status | Depth::Vitals => cache_report(sample.status, &served.cache),
                        Depth::Metrics => sample_report(sample, &served.cache),
                    };
                    let bytes = self.changes.under_way().leaving_out(&report.device);
                    gathered.caches.push(with_leaving(report, bytes));
                }
                Err(_) => gathered.silent.push(shown_path(&served.cache.device)),
            }
        }
        gathered
    }
}

/// How much of the servers' state a report has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Depth {
    Status,
    /// All but the curves of other cache sizes.
    Vitals,
    /// As [`ServerHandle::sample`], for metrics.
    ///
    /// [`ServerHandle::sample`]: crate::serve::server::ServerHandle::sample
    Metrics,
}

impl Pulses for Daemon {
    fn health(&self) -> Health {
        self.conditions.health()
    }

    fn pulses(&self) -> Vec<DevicePulse> {
        let StartPhase::Serving(started) = self.lock().clone() else { return Vec::new() };
        let started = started.looked_at();
        let pulse = |served: &PlannedServer| DevicePulse {
            device: shown_path(&served.cache.device),
            pulse: served.handle.pulse(),
        };
        started.servers.iter().map(pulse).collect()
    }
}

impl MetricsTarget for Daemon {
    fn scrape(&self) -> Result<Scrape, ControlError> {
        let StartPhase::Serving(started) = self.lock().clone() else { return Err(starting()) };
        Ok(self.report(&started.looked_at(), Depth::Metrics))
    }
}

impl Look for Daemon {
    fn look(&self) {
        let StartPhase::Serving(started) = self.lock().clone() else { return };
        if !self.is_stopping.load(Ordering::Acquire) {
            self.report(&started.looked_at(), Depth::Vitals);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::plan_source::PlanSource;
    use crate::control::RequestHandler;
    use crate::control::wire::Request;

    fn changes() -> Changes {
        let text = "[[cache]]\ndevice = \"/dev/fast\"\n[[cache.volume]]\nname = \"a\"\norigin = \"/dev/a\"\n";
        Changes::new(PlanSource::FLAGS, crate::config::parse(Path::new("t.toml"), text).unwrap())
    }

    #[test]
    fn a_daemon_remembers_a_stop_during_its_start() {
        let daemon = Daemon::new(changes());
        daemon.handle(&Request::Stop { lose_unlinked: false }).unwrap();
        assert!(matches!(*daemon.lock(), StartPhase::Unwanted));
    }

    #[test]
    fn an_unknown_volume_is_refused() {
        let daemon = Daemon::new(changes());
        daemon.started(StartResult { servers: Vec::new(), unserved: Vec::new(), added: Default::default() });
        let drained = daemon.handle(&Request::Drain { volume: "x".into() });
        assert!(matches!(drained, Err(ControlError::NoVolume { .. })));
    }
}
