//! Runs a plan: one server for each cache device, and the control socket.
//!
//! Over 500 lines because all requests to a daemon meet here, each in a few lines.

pub mod cache_report;
mod condition_book;
mod exit;
mod greeting;
mod other_user;
mod service_manager;
mod status_report;

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::Context;
use kickcache_units::counted;
use tracing_subscriber::fmt::MakeWriter;

use crate::conditions::unlinked::check_linked;
use crate::config::plan_source::PlanSource;
use crate::control::condition::Health;
use crate::control::host_report::HostReport;
use crate::control::report::{Report, UnservedReport};
use crate::control::server::ControlServer;
use crate::control::{ChangeExtent, ControlError, ControlTarget, ReloadExtent, TitledRecording, wire};
use crate::daemon::cache_report::{cache_report, sample_report, with_leaving};
use crate::daemon::condition_book::{ConditionBook, ConditionThread, Look};
use crate::daemon::exit::{end_of, worst};
use crate::daemon::greeting::{Greeting, greet};
use crate::daemon::other_user::{become_user, watch};
use crate::daemon::service_manager::{DevicePulse, Pulses, ServiceManager};
use crate::daemon::status_report::StatusParts;
use crate::driver::inherited_sockets::inherited_sockets;
use crate::driver::rights::separation::has_monitor_ended;
use crate::log::outlet::Outlet;
use crate::log::start_log;
use crate::metrics::scrape::{MetricsTarget, Scrape};
use crate::metrics::server::MetricsServer;
use crate::operations::changes::{Changes, Turn};
use crate::operations::control_error::{control_error, starting};
use crate::operations::leave_out::{LeaveOutOperation, tell_left_out, tell_not_left_out};
use crate::operations::new_device::{NewDevice, ordered_before};
use crate::operations::reload_result;
use crate::operations::remove::RemoveOperation;
use crate::operations::take_in::{self, is_left_out};
use crate::plan::ServePlan;
use crate::plan::removal::{Clients, DirtyFate, UnlinkedFate};
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;
use crate::serve::server::{Growth, RecordingBegun, ServerSample};
use crate::serve::stop_wish::StopWish;
use crate::signals::{self, Wish};
use crate::start::folders::{MissingFolders, make_runtime_dir};
use crate::start::servers::{PlannedServer, StartResult, go_on_replacing, start_servers};
use crate::start::skipped_volumes::{tell_again, tell_orphans};
use crate::start::socket_activation::ActivationSockets;
use crate::start::unserved_volumes::{orphans, server_of};
use crate::whole_path::{shown_path, whole_path};
use crate::words::ModeWord;

/// How long a request at the control socket waits for a daemon that is starting.
const START_MAX: Duration = Duration::from_secs(8);

/// Serves a plan until it is stopped.
pub fn run(plan: ServePlan, source: PlanSource, out: &mut dyn Write) -> anyhow::Result<()> {
    let separated = become_user(&plan, &source)?;
    let log = start_log(plan.log).context("cannot start a thread for the log")?;
    let served = watch(separated).and_then(|()| serve(plan, source, out, &log));
    if let Err(error) = &served
        && !log.is_text()
    {
        // The caller prints the error as text, which a reader of a log in another format does not get.
        tracing::error!(event = "failed", "{error:#}");
    }
    log.end();
    served
}

fn serve(mut plan: ServePlan, source: PlanSource, out: &mut dyn Write, log: &Outlet) -> anyhow::Result<()> {
    let activated = ActivationSockets::take(inherited_sockets(), &mut plan)?;
    let before = MissingFolders::of(&plan);
    make_runtime_dir(&plan)?;
    let (tls, state) = (plan.tls.tls, StatePlace::named(plan.state.as_deref()));
    let daemon = Arc::new(Daemon::new(Changes::new(source, plan.clone())));
    service_manager::tell_start();
    let told = Arc::clone(&daemon);
    // Signals have no effect after the servers have ended: the remaining work takes little time.
    let _signals = signals::catch(move |wish| told.handle_signal(wish)).context("cannot catch signals")?;
    // The control socket listens before the volumes do: clients of a volume can then reach its daemon.
    let control = ControlServer::start(&plan.control, daemon.clone())?;
    let status = start_status_socket(&plan, &daemon)?;
    let started = start_metrics(&plan, &daemon)
        .and_then(|metrics| Ok((metrics, start_servers(plan, activated, &daemon.stop_wish)?)));
    let (metrics, started) = match started {
        Ok(started) => started,
        Err(error) => {
            drop((control, status));
            before.remove_again();
            return daemon.judge_failed_start(error);
        }
    };
    let StartResult { servers, unserved, .. } = started.clone();
    // A service manager that passes sockets has their addresses, and may parse standard output as the output
    // of another program.
    let greeting = Greeting {
        control: control.path(),
        state: &state,
        metrics: metrics.as_ref(),
        servers: &servers,
        tls,
    };
    match std::env::var_os("LISTEN_FDS") {
        Some(_) if log.is_text() => greet(&mut log.make_writer(), &greeting),
        Some(_) => {}
        None => greet(out, &greeting),
    }
    let volumes: usize = servers.iter().map(|served| served.cache.volumes.len()).sum();
    tracing::info!(
        event = "started",
        "kickcache {} serves {}",
        env!("CARGO_PKG_VERSION"),
        counted(volumes as u64, "volume")
    );
    tell_orphans(&orphans(&started));
    daemon.started(started.clone());
    go_on_replacing(&servers);
    let conditions =
        ConditionThread::start(daemon.clone()).context("cannot start a thread for conditions")?;
    let service_manager = ServiceManager::tell_ready(daemon).context("cannot start a thread for systemd")?;
    let (mut left, mut errors) = (Vec::new(), Vec::new());
    for served in &servers {
        served.wait(&state).map_or_else(|error| errors.push(error), |blocks| left.extend(blocks));
    }
    drop((service_manager, conditions, status));
    tell_again(&unserved);
    control.end(end_of(left, &errors));
    worst(errors)
}

/// Opens the socket that only reports the status, if the plan has one.
fn start_status_socket(plan: &ServePlan, daemon: &Arc<Daemon>) -> anyhow::Result<Option<ControlServer>> {
    let start = |path| ControlServer::start_status(path, daemon.clone());
    Ok(plan.status_socket.as_deref().map(start).transpose()?)
}

/// Serves metrics, if the plan gives an address.
fn start_metrics(plan: &ServePlan, daemon: &Arc<Daemon>) -> anyhow::Result<Option<MetricsServer>> {
    let start = |address| MetricsServer::start(address, plan.exposure, daemon.clone());
    plan.metrics.as_ref().map(start).transpose().context("cannot serve metrics")
}

/// The state directory of a plan, from the root; `None` if there is none.
fn state_directory(plan: &ServePlan) -> Option<PathBuf> {
    match StatePlace::named(plan.state.as_deref()) {
        StatePlace::Directory(directory) => Some(whole_path(&directory)),
        StatePlace::NotKept | StatePlace::Missing => None,
    }
}

/// The running daemon: the target of its sockets, of signals, of metrics and of the service manager's
/// notifications.
struct Daemon {
    began: Instant,
    state: Option<PathBuf>,
    changes: Changes,
    conditions: ConditionBook,
    /// Whether a signal or a command requested a stop.
    is_stopping: AtomicBool,
    /// Ends a start or a change that waits for a server.
    stop_wish: StopWish,
    stage: Mutex<StartPhase>,
    changed: Condvar,
}

#[derive(Clone)]
enum StartPhase {
    Starting,
    /// A stop was requested before the start was complete.
    Unwanted,
    Serving(StartResult),
}

impl Daemon {
    fn new(changes: Changes) -> Daemon {
        let state = state_directory(changes.plan());
        Daemon {
            began: Instant::now(),
            conditions: ConditionBook::new(changes.plan(), state.clone()),
            state,
            changes,
            is_stopping: AtomicBool::new(false),
            stop_wish: StopWish::default(),
            stage: Mutex::new(StartPhase::Starting),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, StartPhase> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn started(&self, started: StartResult) {
        let mut stage = self.lock();
        if matches!(*stage, StartPhase::Unwanted) {
            started.servers.iter().for_each(|served| served.handle.stop());
        }
        *stage = StartPhase::Serving(started);
        self.changed.notify_all();
    }

    fn begin_stop(&self) {
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
    fn judge_failed_start(&self, error: anyhow::Error) -> anyhow::Result<()> {
        let is_stopped = matches!(error.downcast_ref(), Some(ServeError::Stopped));
        if is_stopped && self.stop_wish.is_raised() {
            tracing::info!(event = "start_stopped", "the start was cancelled by a stop request");
            return Ok(());
        }
        Err(error)
    }

    fn handle_signal(self: &Arc<Self>, wish: Wish) {
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

    fn reload_all(&self) -> Result<wire::Reloaded, ControlError> {
        service_manager::tell_reload();
        let reloaded =
            self.change("a reload of the configuration file", |turn, started| turn.reload(started));
        service_manager::tell_reloaded();
        reload_result::tell(&reloaded);
        reloaded.map_err(|failed| failed.for_client())
    }

    /// Changes the served volumes once no other change is in progress; an error if that takes too long.
    fn change<T, E: From<ControlError>>(
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

    /// Takes a cache device in, where volumes are served without one; a dry run only checks this.
    fn take_in(
        &self,
        served: &PlannedServer,
        device: &str,
        order: &wire::ReplacementOrder,
        new: &NewDevice,
    ) -> Result<wire::Replacing, ControlError> {
        new.check_unused().map_err(control_error)?;
        let with = shown_path(&order.with);
        let taken_in = wire::Replacing {
            device: device.to_owned(),
            with: with.clone(),
            bytes: 0,
            stage: wire::ReplacementStage::Begun,
            destroyed: None,
        };
        if order.dry_run {
            let state = StatePlace::named(self.changes.plan().state.as_deref());
            take_in::check(served, order, &state)?;
            return Ok(wire::Replacing { destroyed: new.destroyed(), ..taken_in });
        }
        let _kept = self.changes.under_way().leave_all(served.cache.names())?;
        let what = format!("the cache device {with} is put into use");
        self.change(&what, |turn, started| turn.take_in(started, &served.cache.device, order))?;
        take_in::tell(&with, device);
        Ok(taken_in)
    }

    /// Requests a stop; if a signal or a command has requested it already, forces it, provided that the servers
    /// run.
    fn handle_stop_signal(&self) {
        if !self.is_stopping.swap(true, Ordering::AcqRel) {
            return self.begin_stop();
        }
        if let StartPhase::Serving(started) = &*self.lock() {
            started.servers.iter().for_each(|served| served.handle.insist());
        }
    }

    /// The served volumes; waits for a limited time if the daemon is starting.
    fn served(&self) -> Result<StartResult, ControlError> {
        let is_starting = |stage: &mut StartPhase| !matches!(stage, StartPhase::Serving(_));
        let waited = self.changed.wait_timeout_while(self.lock(), START_MAX, is_starting);
        let (stage, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &*stage {
            StartPhase::Serving(started) => Ok(started.clone().looked_at()),
            StartPhase::Starting | StartPhase::Unwanted => Err(starting()),
        }
    }

    /// The status of all servers that answer, with the conditions found in it.
    fn report(&self, started: &StartResult, depth: Depth) -> Scrape {
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
        // During a stop, servers without an answer count as stopped.
        let silent = if self.is_stopping.load(Ordering::Acquire) { Vec::new() } else { silent };
        self.conditions.complete(&mut report, &silent);
        Scrape { report, silent }
    }

    /// Refuses a stop that would lose the data of a removed file. A start in progress is not checked: its volumes
    /// are not served yet.
    fn check_linked(&self) -> Result<(), ControlError> {
        let StartPhase::Serving(started) = self.lock().clone() else { return Ok(()) };
        let Scrape { report, .. } = self.report(&started.looked_at(), Depth::Vitals);
        check_linked(&report, &self.conditions.commands)
    }

    /// The answers of the servers.
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
                // The reason of a server that ended by itself is in the log.
                Err(_) => gathered.silent.push(shown_path(&served.cache.device)),
            }
        }
        gathered
    }
}

/// How much of the servers' state a report has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Depth {
    /// The whole status.
    Status,
    /// All but the curves of other cache sizes.
    Vitals,
    /// As [`ServerHandle::sample`], for metrics.
    ///
    /// [`ServerHandle::sample`]: crate::serve::server::ServerHandle::sample
    Metrics,
}

impl ControlTarget for Daemon {
    fn status(&self) -> Result<Report, ControlError> {
        let Scrape { report, .. } = self.report(&self.served()?, Depth::Status);
        if report.caches.is_empty() {
            return Err(ControlError::Stopped);
        }
        Ok(report)
    }

    fn set_mode(&self, volume: &str, mode: ModeWord) -> Result<(), ControlError> {
        self.changes.under_way().check_stays(volume)?;
        server_of(&self.served()?, volume)?.handle.set_mode(volume, mode.into()).map_err(control_error)
    }

    fn drain(&self, volume: &str) -> Result<(), ControlError> {
        server_of(&self.served()?, volume)?.handle.drain(volume).map_err(control_error)
    }

    fn pause_caching(&self, volume: &str, span: Duration) -> Result<(), ControlError> {
        server_of(&self.served()?, volume)?.handle.pause_caching(volume, span).map_err(control_error)
    }

    fn resize(&self, volume: &str) -> Result<wire::Resized, ControlError> {
        let resized = server_of(&self.served()?, volume)?.handle.resize(volume).map_err(control_error)?;
        Ok(wire::Resized { size_bytes: resized.size, is_unchanged: resized.growth == Growth::Unchanged })
    }

    fn grow(
        &self,
        device: Option<&str>,
        size_bytes: Option<u64>,
        extent: ChangeExtent,
    ) -> Result<wire::Growing, ControlError> {
        let served = self.served()?.server_with(device)?;
        let device = self.changes.under_way().check_device_stays(named_in_status(&served)?)?;
        let grown = match extent {
            ChangeExtent::All => served.handle.grow(size_bytes),
            ChangeExtent::CheckOnly => served.handle.check_growth(size_bytes),
        };
        let grown = grown.map_err(control_error)?;
        Ok(wire::Growing { device, before_bytes: grown.before, size_bytes: grown.size })
    }

    fn replace(&self, order: &wire::ReplacementOrder) -> Result<wire::Replacing, ControlError> {
        let started = self.served()?;
        let served = started.server_with(order.device.as_deref())?;
        let plan = self.changes.plan();
        let new = NewDevice::new(order, StatePlace::named(plan.state.as_deref()), plan, &started);
        let status = served.handle.status().map_err(control_error)?;
        let device = self.changes.under_way().check_device_stays(shown_path(&status.cache))?;
        if let Some(replacing) = ordered_before(order, &status) {
            return Ok(replacing);
        }
        match is_left_out(&served) {
            true => self.take_in(&served, &device, order, &new),
            false => new.replace(&served, device, order),
        }
    }

    fn leave_out(&self, order: &wire::LeaveOutOrder) -> Result<wire::LeftOut, ControlError> {
        let served = self.served()?.server_with(order.device.as_deref())?;
        let device = named_in_status(&served)?;
        let fate = if order.abandon_dirty { DirtyFate::Abandoned } else { DirtyFate::WrittenBack };
        let leaving_out = LeaveOutOperation::check(&served, fate)?;
        let dirty = leaving_out.dirty()?;
        if order.dry_run {
            return Ok(wire::LeftOut { device, dirty, lost: Vec::new() });
        }
        let under_way = self.changes.under_way();
        let _kept = under_way.leave_all(served.cache.names())?;
        let _told = under_way.leave_out(&device, dirty.iter().map(|volume| volume.bytes).sum());
        tracing::info!(
            event = "cache_leaving_out",
            device,
            "the cache device {device} is to be taken out of use: its dirty blocks are written back first"
        );
        let what = format!("the cache device {device} is left out");
        let lost = leaving_out.drain().and_then(|()| {
            self.change(&what, |turn, started| turn.leave_out(started, &served.cache.device, &leaving_out))
        });
        let lost = lost.inspect_err(|error| {
            tell_not_left_out(&device, error);
            leaving_out.restore_modes();
        })?;
        tell_left_out(&device, &lost);
        Ok(wire::LeftOut { device, dirty, lost })
    }

    fn record(&self, volume: &str) -> Result<TitledRecording, ControlError> {
        let begun = server_of(&self.served()?, volume)?.handle.record(volume).map_err(control_error)?;
        let RecordingBegun { recorded, recording } = begun;
        let started = recorded.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let title = wire::RecordingTitle {
            volume: volume.into(),
            volume_bytes: recorded.volume_bytes,
            started_nanos: u64::try_from(started).unwrap_or_default(),
        };
        Ok(TitledRecording { title, recording })
    }

    fn add(&self, volume: &wire::VolumeToAdd) -> Result<Option<String>, ControlError> {
        self.change("a volume is added", |turn, started| turn.add(started, volume))?;
        let name = volume.volume["name"].as_str().unwrap_or_default();
        Ok(if volume.dry_run { None } else { self.changes.hint_of_added(name) })
    }

    fn remove(&self, order: &wire::RemoveOrder) -> Result<wire::Removed, ControlError> {
        let clients = if order.disconnect { Clients::Disconnected } else { Clients::Respected };
        let dirty = if order.abandon_dirty { DirtyFate::Abandoned } else { DirtyFate::WrittenBack };
        let volume = order.volume.as_str();
        let served = server_of(&self.served()?, volume)?;
        served.check_others(volume)?;
        let _leaving = self.changes.under_way().leave(volume)?;
        let removal = RemoveOperation::check(&served, volume, clients, dirty)?;
        if order.dry_run {
            return removal.forecast();
        }
        let drained = removal.drain();
        let what = format!("volume {volume} is removed");
        let removed =
            drained.and_then(|()| self.change(&what, |turn, started| turn.remove(started, &removal)));
        removed.inspect_err(|_| removal.restore_mode())
    }

    fn reload(&self, extent: ReloadExtent) -> Result<wire::Reloaded, ControlError> {
        match extent {
            ReloadExtent::All => self.reload_all(),
            ReloadExtent::DifferenceOnly => {
                let reloaded = self.changes.compare(&mut self.served()?)?.reloaded;
                if reloaded.changes.is_empty() {
                    return Ok(reloaded);
                }
                self.change("a check of the configuration file", |turn, started| turn.check_reload(started))
            }
        }
    }

    fn stop(&self, unlinked: UnlinkedFate) -> Result<(), ControlError> {
        if unlinked == UnlinkedFate::Kept && !self.is_stopping.load(Ordering::Acquire) {
            self.check_linked()?;
        }
        self.is_stopping.store(true, Ordering::Release);
        self.begin_stop();
        Ok(())
    }
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

/// The cache device of a server, as the status names it.
fn named_in_status(served: &PlannedServer) -> Result<String, ControlError> {
    let status = served.handle.status().map_err(control_error)?;
    Ok(shown_path(&status.cache))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn changes() -> Changes {
        let text = "[[cache]]\ndevice = \"/dev/fast\"\n[[cache.volume]]\nname = \"a\"\norigin = \"/dev/a\"\n";
        Changes::new(PlanSource::FLAGS, crate::config::parse(Path::new("t.toml"), text).unwrap())
    }

    #[test]
    fn a_daemon_remembers_a_stop_during_its_start() {
        let daemon = Daemon::new(changes());
        daemon.stop(UnlinkedFate::Kept).unwrap();
        assert!(matches!(*daemon.lock(), StartPhase::Unwanted));
    }

    #[test]
    fn an_unknown_volume_is_refused() {
        let daemon = Daemon::new(changes());
        daemon.started(StartResult { servers: Vec::new(), unserved: Vec::new(), added: Default::default() });
        assert!(matches!(daemon.drain("x"), Err(ControlError::NoVolume { .. })));
    }
}
