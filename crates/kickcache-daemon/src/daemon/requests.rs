//! The requests of the control socket.

use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use crate::conditions::unlinked::check_linked;
use crate::control::report::Report;
use crate::control::wire::{self, Reply, Request};
use crate::control::{Answer, ControlError, RequestHandler};
use crate::daemon::running_daemon::{Daemon, Depth, StartPhase};
use crate::metrics::scrape::Scrape;
use crate::operations::control_error::control_error;
use crate::operations::grow::{check_growth, grow};
use crate::operations::leave_out::{LeaveOutOperation, tell_left_out, tell_not_left_out};
use crate::operations::new_device::{NewDevice, ordered_before};
use crate::operations::remove::RemoveOperation;
use crate::operations::resize::resize;
use crate::operations::take_in::{self, is_left_out};
use crate::plan::removal::{Clients, DirtyFate};
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;
use crate::serve::server::{RecordingBegun, ServerHandle};
use crate::serve::verbs::growth::{CacheGrown, Growth};
use crate::start::servers::PlannedServer;
use crate::start::unserved_volumes::server_of;
use crate::whole_path::shown_path;
use crate::words::ModeWord;

impl RequestHandler for Daemon {
    fn handle(&self, request: &Request) -> Result<Answer, ControlError> {
        let reply = match request {
            Request::Status {} => Reply::Status(Box::new(self.status()?)),
            Request::Mode { volume, mode } => self.set_mode(volume, *mode).map(done)?,
            Request::Drain { volume } => self.on_volume(volume, |handle| handle.drain(volume)).map(done)?,
            Request::PauseCaching { volume, seconds } => {
                let span = Duration::from_secs(*seconds);
                self.on_volume(volume, |handle| handle.pause_caching(volume, span)).map(done)?
            }
            Request::Resize { volume } => Reply::Resized(self.resize(volume)?),
            Request::Grow { device, size_bytes, dry_run: false } => Reply::Growing(
                self.grow(device.as_deref(), |handle| grow(&self.growths, handle, *size_bytes))?,
            ),
            Request::Grow { device, size_bytes, dry_run: true } => {
                Reply::Growing(self.grow(device.as_deref(), |handle| check_growth(handle, *size_bytes))?)
            }
            Request::Replace(order) => Reply::Replacing(self.replace(order)?),
            Request::LeaveOut(order) => Reply::LeftOut(self.leave_out(order)?),
            Request::Record { volume } => return self.record(volume),
            Request::Add(volume) => Reply::Added(wire::AddedVolume { hint: self.add(volume)? }),
            Request::Remove(order) => Reply::Removed(self.remove(order)?),
            Request::Reload { dry_run: false } => Reply::Reloaded(self.reload_all()?),
            Request::Reload { dry_run: true } => Reply::Reloaded(self.check_reload()?),
            Request::Stop { lose_unlinked } => {
                if !lose_unlinked && !self.is_stopping.load(Ordering::Acquire) {
                    self.check_linked()?;
                }
                self.stop()
            }
            Request::AwaitEnd {} | Request::Ping {} => unreachable!("the control socket answers it"),
        };
        Ok(reply.into())
    }
}

impl Daemon {
    fn status(&self) -> Result<Report, ControlError> {
        let Scrape { report, .. } = self.report(&self.served()?, Depth::Status);
        if report.caches.is_empty() {
            return Err(ControlError::Stopped);
        }
        Ok(report)
    }

    fn set_mode(&self, volume: &str, mode: ModeWord) -> Result<(), ControlError> {
        self.changes.under_way().check_stays(volume)?;
        self.on_volume(volume, |handle| handle.set_mode(volume, mode.into()))
    }

    fn on_volume<T>(
        &self,
        volume: &str,
        verb: impl FnOnce(&ServerHandle) -> Result<T, ServeError>,
    ) -> Result<T, ControlError> {
        verb(&server_of(&self.served()?, volume)?.handle).map_err(control_error)
    }

    fn resize(&self, volume: &str) -> Result<wire::Resized, ControlError> {
        let resized = self.on_volume(volume, |handle| resize(&self.resizes, handle, volume))?;
        Ok(wire::Resized { size_bytes: resized.size, is_unchanged: resized.growth == Growth::Unchanged })
    }

    fn grow(
        &self,
        device: Option<&str>,
        grow: impl FnOnce(&ServerHandle) -> Result<CacheGrown, ServeError>,
    ) -> Result<wire::Growing, ControlError> {
        let served = self.served()?.server_with(device)?;
        let device = self.changes.under_way().check_device_stays(named_in_status(&served)?)?;
        let grown = grow(&served.handle).map_err(control_error)?;
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

    fn record(&self, volume: &str) -> Result<Answer, ControlError> {
        let RecordingBegun { recorded, recording } =
            self.on_volume(volume, |handle| handle.record(volume))?;
        let started = recorded.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let title = wire::RecordingTitle {
            volume: volume.into(),
            volume_bytes: recorded.volume_bytes,
            started_nanos: u64::try_from(started).unwrap_or_default(),
        };
        Ok(Answer::Feed(title, recording))
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

    fn check_reload(&self) -> Result<wire::Reloaded, ControlError> {
        let reloaded = self.changes.compare(&mut self.served()?)?.reloaded;
        if reloaded.changes.is_empty() {
            return Ok(reloaded);
        }
        self.change("a check of the configuration file", |turn, started| turn.check_reload(started))
    }

    fn stop(&self) -> Reply {
        self.is_stopping.store(true, Ordering::Release);
        self.begin_stop();
        Reply::Done
    }

    /// Refuses a stop that would lose the data of a removed file.
    fn check_linked(&self) -> Result<(), ControlError> {
        let StartPhase::Serving(started) = self.lock().clone() else { return Ok(()) };
        let Scrape { report, .. } = self.report(&started.looked_at(), Depth::Vitals);
        check_linked(&report, &self.conditions.commands)
    }
}

fn done(_: ()) -> Reply {
    Reply::Done
}

/// The cache device of a server, as the status names it.
fn named_in_status(served: &PlannedServer) -> Result<String, ControlError> {
    let status = served.handle.status().map_err(control_error)?;
    Ok(shown_path(&status.cache))
}
