//! Replacing the serving engine by another one.
//!
//! The order is decisive when a cache device is taken out of use: first the origins have all data, flushed,
//! unless dirty blocks are abandoned; then it is on record that the device is out of service; only then the
//! old engine is replaced, and requests bypass the device.

use std::sync::mpsc::Sender;
use std::sync::{Arc, PoisonError};

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::engine::Phase;
use kickcache_engine::format::superblock::VolumeRecord;
use kickcache_engine::stats::{CacheHealth, Record};
use kickcache_engine::time::{Duration, Instant};
use kickcache_units::counted;

use super::EventLoop;
use crate::devices::origin_records::OriginRecords;
use crate::driver::device::BlockFile;
use crate::driver::executor::{Medium, NamedMedium};
use crate::driver::null_device::NullDevice;
use crate::plan::removal::DirtyFate;
use crate::serve::core::LoopPhase;
use crate::serve::engine_change::{
    CacheUse, CurrentEngine, EngineChange, EngineLease, EngineOrder, EngineStep, NewEngine, NewEngineKind,
    OldDevices, UncleanBlocks,
};
use crate::serve::error::ServeError;
use crate::serve::out_of_service::OutOfService;

impl<E: CacheEngine> EventLoop<E> {
    /// If the caller does not wait any more, the failed send is harmless.
    pub(super) fn take_engine_order(&mut self, now: Instant, order: EngineOrder) {
        match order {
            EngineOrder::Look(answer) => drop(answer.send(self.behind())),
            EngineOrder::Begin(answer) => {
                let behind = self.behind();
                if behind.is_ok() {
                    (self.is_leased, self.engine_lease) = (true, EngineLease::Prepared);
                }
                drop(answer.send(behind));
            }
            EngineOrder::Change(other, answer) => self.begin_engine_change(now, other, answer),
            EngineOrder::Stay(answer) => {
                self.end_engine_lease(now);
                let _ = answer.send(());
            }
        }
    }

    fn refuse_engine_change(&self, what: &str) -> ServeError {
        ServeError::Cache { path: self.cache.clone(), what: what.into() }
    }

    /// The present state; an error during a stop, a replacement, a growth, or another change that writes the
    /// superblock.
    fn behind(&self) -> Result<CurrentEngine, ServeError> {
        if self.core.stage != LoopPhase::Serving || self.core.engine.phase() != Phase::Running {
            return Err(self.refuse_engine_change("its server is stopping"));
        }
        if self.takeover.step.is_some() {
            return Err(self.refuse_engine_change("it is being replaced; wait for that"));
        }
        if self.growth.is_some() {
            return Err(self.refuse_engine_change("it is growing; wait for that"));
        }
        if self.is_storing_superblock() {
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

    pub(super) fn unclean(&self) -> Vec<UncleanBlocks> {
        let unclean = |VolumeRecord { id, name, .. }: &VolumeRecord| UncleanBlocks {
            volume: name.clone(),
            blocks: self.core.engine.not_clean_blocks(*id),
            is_served: self.core.volumes.iter().any(|volume| volume.info.id == *id),
        };
        self.superblock.volumes.iter().map(unclean).filter(|unclean| unclean.blocks > 0).collect()
    }

    fn begin_engine_change(
        &mut self,
        now: Instant,
        other: Box<NewEngine>,
        answer: Sender<Result<OldDevices, ServeError>>,
    ) {
        self.core.hold();
        self.engine_lease = EngineLease::Changing(EngineChange::begin(now, other, answer));
    }

    /// Continues a change of the engine.
    pub(super) fn advance_engine_change(&mut self, now: Instant) {
        let EngineLease::Changing(change) = &self.engine_lease else { return };
        if self.core.stage != LoopPhase::Serving {
            return self.keep_engine(now, "its server is stopping");
        }
        match (change.step, &change.other.kind) {
            (EngineStep::Quieting, NewEngineKind::WithoutCache(fate)) => self.quieten(now, *fate),
            (EngineStep::Recording, _) => self.await_record(now),
            (EngineStep::Quieting | EngineStep::Parting, _) => self.part_from_engine(now),
        }
        if self.engine_lease.change().is_some_and(|change| change.is_late(now)) {
            let what = format!("{} after 5 s; check that, then try again", self.unfinished(now));
            self.keep_engine(now, &what);
        }
    }

    /// The reason why a change of the engine takes too long.
    fn unfinished(&self, now: Instant) -> String {
        let is_draining = matches!(
            &self.engine_lease,
            EngineLease::Changing(EngineChange { step: EngineStep::Quieting, other, .. })
                if matches!(other.kind, NewEngineKind::WithoutCache(DirtyFate::WrittenBack))
        );
        let unclean = self.unclean();
        if !is_draining || unclean.is_empty() {
            return format!("client requests have not ended ({})", self.awaited(now));
        }
        let told =
            |unclean: &UncleanBlocks| format!("{} of {}", counted(unclean.blocks, "block"), unclean.volume);
        let told: Vec<String> = unclean.iter().map(told).collect();
        format!("{} cannot be written back", told.join(" and "))
    }

    fn quieten(&mut self, now: Instant, fate: DirtyFate) {
        let ids: Vec<_> = self.core.volumes.iter().map(|volume| volume.info.id).collect();
        let unclean = self.unclean();
        let is_done = match fate {
            DirtyFate::WrittenBack => {
                unclean.is_empty() && ids.iter().all(|id| self.core.engine.is_idle(*id))
            }
            DirtyFate::Abandoned => ids.iter().all(|id| self.core.engine.has_ended(*id)),
        };
        if !self.core.requests.is_empty() || !is_done {
            if fate == DirtyFate::WrittenBack {
                for id in ids {
                    self.core.engine.drain(now, id);
                    self.core.engine.flush_soon(now, id);
                }
                self.pump(now);
            }
            return;
        }
        if self.core.engine.health() == CacheHealth::Good {
            // The device is left out by order: the messages for a failed device are not logged.
            self.out_of_service = OutOfService::Told(Record::Pending);
            self.core.engine.leave_out(now);
            self.pump(now);
        }
        if let Some(change) = self.engine_lease.change() {
            let took = change.go_on(now, EngineStep::Recording);
            tell_turn("until the origins had all data", took);
        }
    }

    fn await_record(&mut self, now: Instant) {
        match self.core.engine.record() {
            // An engine without a cache device has no record to write.
            Some(Record::OnDevice | Record::WithHost | Record::ByOrder) | None => {
                if let Some(change) = self.engine_lease.change() {
                    let took = change.go_on(now, EngineStep::Parting);
                    tell_turn("until it was on record that the cache device is left out", took);
                }
            }
            Some(Record::Failed) => self.keep_engine(
                now,
                "that it is left out can be recorded neither on it nor in the state directory; it is out of service, and writes \
                 fail until that can be recorded",
            ),
            Some(Record::Pending) => {}
        }
    }

    fn part_from_engine(&mut self, now: Instant) {
        if self.core.requests.is_empty() && self.core.driver.is_at_rest() {
            self.change_engine(now);
        }
    }

    /// Puts the new engine in place of the old one, while no request is in flight.
    fn change_engine(&mut self, now: Instant) {
        let EngineLease::Changing(EngineChange { other, answer, begun, .. }) =
            std::mem::take(&mut self.engine_lease)
        else {
            return;
        };
        let NewEngine { engine, superblock, kind } = *other;
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
        // `is_done` was about the former cache device.
        self.takeover.is_done = false;
        self.end_engine_lease(now);
        tell_turn("in all, for another engine", now.since(begun));
        drop(answer.send(Ok(OldDevices { lost, _cache: cache })));
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

    /// Cancels the change, for this reason: the present engine stays.
    fn keep_engine(&mut self, now: Instant, why: &str) {
        let EngineLease::Changing(EngineChange { answer, .. }) = std::mem::take(&mut self.engine_lease)
        else {
            return;
        };
        self.end_engine_lease(now);
        drop(answer.send(Err(self.refuse_engine_change(why))));
    }

    fn end_engine_lease(&mut self, now: Instant) {
        (self.is_leased, self.engine_lease) = (false, EngineLease::None);
        self.core.let_go();
        // A new size of a volume may have waited for the lease.
        self.lease_to_resize();
        // Waiting requests are passed on at once: the loop may sleep next.
        self.pump(now);
    }
}

/// Logs how long new requests waited.
fn tell_turn(what: &str, span: Duration) {
    let micros = span.as_nanos() / 1_000;
    tracing::debug!(event = "engine_turn", "new requests waited {micros} us {what}");
}
