//! Replacing the serving engine by another one.
//!
//! The order is decisive when a cache device is taken out of use: first the origins have all data, flushed,
//! unless dirty blocks are abandoned; then it is on record that the device is out of service; only then the
//! old engine is replaced.

use std::sync::{Arc, PoisonError};

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::engine::Phase;
use kickcache_engine::format::superblock::VolumeRecord;
use kickcache_engine::stats::{CacheHealth, Record};
use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::VolumeId;
use kickcache_units::counted;

use super::EventLoop;
use crate::devices::origin_records::OriginRecords;
use crate::driver::device::BlockFile;
use crate::driver::executor::{Medium, NamedMedium};
use crate::driver::null_device::NullDevice;
use crate::plan::removal::DirtyFate;
use crate::serve::core::LoopPhase;
use crate::serve::error::ServeError;
use crate::serve::out_of_service::OutOfService;
use crate::serve::verbs::exchange::{
    AwaitedWork, CacheUse, CurrentEngine, ExchangeVerbs, Exchanged, NewEngine, NewEngineKind, OldDevices,
    RequestHold, StepState, UncleanBlocks,
};

/// The time after which held requests go on with the present engine.
const HELD_MAX: Duration = Duration::from_millis(5_000);

impl<E: CacheEngine> EventLoop<E> {
    fn refuse_engine_change(&self, what: &str) -> ServeError {
        ServeError::Cache { path: self.cache.clone(), what: what.into() }
    }

    pub(super) fn check_exchange(&self) -> Result<(), ServeError> {
        if self.core.stage != LoopPhase::Serving || self.core.engine.phase() != Phase::Running {
            return Err(self.refuse_engine_change("its server is stopping"));
        }
        if self.takeover.step.is_some() {
            return Err(self.refuse_engine_change("it is being replaced; wait for that"));
        }
        if self.growth.is_some() {
            return Err(self.refuse_engine_change("it is growing; wait for that"));
        }
        Ok(())
    }

    pub(super) fn unclean(&self) -> Vec<UncleanBlocks> {
        let unclean = |VolumeRecord { id, name, .. }: &VolumeRecord| UncleanBlocks {
            volume: name.clone(),
            blocks: self.core.engine.not_clean_blocks(*id),
            is_served: self.core.volumes.iter().any(|volume| volume.info.id == *id),
        };
        self.superblock.volumes.iter().map(unclean).filter(|unclean| unclean.blocks > 0).collect()
    }

    /// Refuses to continue an exchange if requests are not held back any more, or the server is stopping.
    fn check_held(&self) -> Result<(), ServeError> {
        if self.core.stage != LoopPhase::Serving {
            return Err(self.refuse_engine_change("its server is stopping"));
        }
        match &self.request_hold {
            RequestHold::Held { .. } => Ok(()),
            RequestHold::Expired(why) => Err(self.refuse_engine_change(why)),
            RequestHold::None => Err(ServeError::Stopped),
        }
    }

    pub(super) fn release_late_requests(&mut self, now: Instant) {
        let RequestHold::Held { begun, awaits } = self.request_hold else { return };
        if now >= begun.plus(HELD_MAX) {
            let why = self.unfinished(now, awaits);
            self.release_requests();
            self.request_hold = RequestHold::Expired(format!("{why} after 5 s; check that, then try again"));
        }
    }

    pub(super) fn release_requests(&mut self) {
        self.request_hold = RequestHold::None;
        self.core.let_go();
        // Waiting requests are passed on at once: the loop may sleep next.
        self.pump(self.core.now);
    }

    pub(super) fn hold_deadline(&self) -> Option<Instant> {
        match self.request_hold {
            RequestHold::Held { begun, .. } => Some(begun.plus(HELD_MAX)),
            RequestHold::None | RequestHold::Expired(_) => None,
        }
    }

    fn unfinished(&self, now: Instant, awaits: AwaitedWork) -> String {
        let unclean = self.unclean();
        if awaits == AwaitedWork::Requests || unclean.is_empty() {
            return format!("client requests have not ended ({})", self.awaited(now));
        }
        let told =
            |unclean: &UncleanBlocks| format!("{} of {}", counted(unclean.blocks, "block"), unclean.volume);
        let told: Vec<String> = unclean.iter().map(told).collect();
        format!("{} cannot be written back", told.join(" and "))
    }

    /// Whether requests have ended, and the origins have all data, flushed, or dirty blocks are abandoned.
    fn is_quiet(&self, ids: &[VolumeId], fate: DirtyFate) -> bool {
        let engine = &self.core.engine;
        let is_done = match fate {
            DirtyFate::WrittenBack => self.unclean().is_empty() && ids.iter().all(|id| engine.is_idle(*id)),
            DirtyFate::Abandoned => ids.iter().all(|id| engine.has_ended(*id)),
        };
        is_done && self.core.requests.is_empty()
    }

    /// Puts the new engine in place of the old one, while no request is in flight.
    fn exchange(&mut self, now: Instant, other: NewEngine) -> OldDevices {
        let NewEngine { engine, superblock, kind } = other;
        self.end_troubles_of_cache(now);
        let (lost, cache) = (self.unclean(), self.core.driver.remove(Device::Cache));
        let medium = match kind {
            NewEngineKind::WithoutCache(_) => {
                self.core.driver.keep_no_notes();
                self.notes = None;
                self.out_of_service = OutOfService::Told(Record::ByOrder);
                Medium::Queued(Box::new(NullDevice::default()))
            }
            NewEngineKind::WithCache(file, notes) => {
                self.use_cache(&file, notes);
                Medium::File(file)
            }
        };
        self.core.driver.add(NamedMedium { device: Device::Cache, medium });
        self.core.engine.give_way(engine);
        self.superblock = superblock;
        self.apply_write_budget(now);
        self.damaged.clear();
        self.core.times.end_recent(now);
        // `is_done` was about the former cache device.
        self.takeover.is_done = false;
        OldDevices { lost, _cache: cache }
    }

    fn use_cache(&mut self, file: &BlockFile, notes: Arc<OriginRecords>) {
        match notes.keeper() {
            Some(keeper) => self.core.driver.keep_notes(keeper),
            None => self.core.driver.keep_no_notes(),
        }
        self.notes = Some(notes);
        self.out_of_service = OutOfService::Untold;
        self.cache = file.path().into();
        *self.takeover.device.lock().unwrap_or_else(PoisonError::into_inner) = self.cache.clone();
    }
}

impl<E: CacheEngine> ExchangeVerbs for EventLoop<E> {
    fn current_engine(&self) -> Result<CurrentEngine, ServeError> {
        self.check_exchange()?;
        if self.is_storing_superblock() && !self.is_exchanging() {
            let what = "another change of it is in progress; try again".into();
            return Err(ServeError::Busy { path: self.cache.clone(), what });
        }
        let is_used = self.core.driver.shared_file(Device::Cache).is_some();
        let origins = self.core.volumes.iter().map(|volume| Device::Origin(volume.info.id));
        Ok(CurrentEngine {
            superblock: self.superblock.clone(),
            cache: if is_used { CacheUse::Used } else { CacheUse::None },
            clock: self.core.clock.clone(),
            io_engine: self.core.driver.io_engine(),
            volumes: self.core.volumes.iter().map(|volume| volume.info.clone()).collect(),
            unclean: self.unclean(),
            origins: origins.filter_map(|device| self.core.driver.shared_file(device)).collect(),
        })
    }

    fn hold_requests(&mut self, now: Instant) {
        self.core.hold();
        self.request_hold = RequestHold::Held { begun: now, awaits: AwaitedWork::Requests };
    }

    fn leave_out_if_quiet(&mut self, now: Instant, fate: DirtyFate) -> Result<StepState, ServeError> {
        self.check_held()?;
        let ids: Vec<_> = self.core.volumes.iter().map(|volume| volume.info.id).collect();
        let is_quiet = self.is_quiet(&ids, fate);
        if let RequestHold::Held { awaits, .. } = &mut self.request_hold {
            let writes_back = !is_quiet && fate == DirtyFate::WrittenBack;
            *awaits = if writes_back { AwaitedWork::Writeback } else { AwaitedWork::Requests };
        }
        if is_quiet {
            if self.core.engine.health() == CacheHealth::Good {
                // The device is left out by order: no failure is logged.
                self.out_of_service = OutOfService::Told(Record::Pending);
                self.core.engine.leave_out(now);
                self.pump(now);
            }
            return Ok(StepState::Done);
        }
        if fate == DirtyFate::WrittenBack {
            for id in ids {
                self.core.engine.drain(now, id);
                self.core.engine.flush_soon(now, id);
            }
            self.pump(now);
        }
        Ok(StepState::Waiting)
    }

    fn check_left_out(&self) -> Result<StepState, ServeError> {
        self.check_held()?;
        match self.core.engine.record() {
            // An engine without a cache device has no record to write.
            Some(Record::OnDevice | Record::WithHost | Record::ByOrder) | None => Ok(StepState::Done),
            Some(Record::Failed) => Err(self.refuse_engine_change(
                "that it is left out can be recorded neither on it nor in the state directory; it is out of service, and writes \
                 fail until that can be recorded",
            )),
            Some(Record::Pending) => Ok(StepState::Waiting),
        }
    }

    fn exchange_if_idle(&mut self, now: Instant, other: Box<NewEngine>) -> Result<Exchanged, ServeError> {
        self.check_held()?;
        if !self.core.requests.is_empty() || !self.core.driver.is_at_rest() {
            return Ok(Exchanged::NotYet(other));
        }
        let RequestHold::Held { begun, .. } = self.request_hold else { return Err(ServeError::Stopped) };
        let old = self.exchange(now, *other);
        self.release_requests();
        let micros = now.since(begun).as_nanos() / 1_000;
        tracing::debug!(event = "engine_turn", "new requests waited {micros} us for another engine");
        Ok(Exchanged::Done(old))
    }
}
