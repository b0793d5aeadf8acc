//! Errors and damaged blocks need a cause among the faults of the run.

use std::collections::BTreeSet;

use kickcache_engine::request::{Operation, RequestId};
use kickcache_engine::stats::{CacheHealth, Status};
use kickcache_engine::units::{BLOCK_SIZE, BlockIndex};

use crate::host::Host;
use crate::plan::Plan;
use crate::plan::faults::Rates;
use crate::run::{Outstanding, Simulation};
use crate::run_records::WatchedDiscard;
use crate::subject::Subject;
use crate::workload::Ask;

impl Simulation {
    /// Notes, once in a run, that a cache device is not in good health.
    pub(super) fn note_health<E: Subject>(&mut self, host: &Host<E>) -> Result<(), String> {
        if self.watched.was_out || host.engine.health() == CacheHealth::Good {
            return Ok(());
        }
        self.watched.was_out = true;
        let Plan { faults, leaving_permille, abandoned, .. } = &self.plan;
        let needs_cause = faults.are_of_takeovers() && *leaving_permille == 0 && abandoned.is_none();
        if needs_cause && !host.takeover_errors().reached_engine() {
            return Err("the cache device is out of service without a cause".to_owned());
        }
        Ok(())
    }

    /// Checks the cause of a failed request.
    pub(super) fn check_cause<E: Subject>(
        &mut self,
        host: &Host<E>,
        id: RequestId,
        ask: &Ask,
    ) -> Result<(), String> {
        let faults = &self.plan.faults;
        let may_fail_reads = faults.origin.read + faults.outage_permille > 0 || faults.long.is_some();
        let is_sound = !may_fail_reads && !faults.may_hide_cached();
        if ask.operation == Operation::Read && is_sound && !self.may_restore_blocks() {
            return Err("reads of this run cannot fail".to_owned());
        }
        if self.watched.was_out {
            return self.check_restored(host, id, ask);
        }
        self.watched.failed_changes += u64::from(!ask.changes_nothing());
        let faults = &self.plan.faults;
        if faults.are_of_writes_to_origins() && self.watched.failed_changes > self.summary.injected.errors {
            return Err("more writes failed than the origins refused".to_owned());
        }
        if faults.are_of_takeovers() && !host.takeover_errors().reached_engine() {
            return Err("no device reported an error to the engine".to_owned());
        }
        Ok(())
    }

    /// Whether the engine may have restored removed blocks as unreadable.
    fn may_restore_blocks(&self) -> bool {
        self.watched.was_out && self.plan.faults.note > 0
    }

    /// Notes the dirty blocks of a discard that [`Simulation::check_restored`] can judge.
    pub(super) fn watch_discard<E: Subject>(&mut self, host: &Host<E>, id: RequestId, ask: &Ask) {
        let faults = &self.plan.faults;
        let has_long = faults.long.is_some_and(|long| !long.is_cache) || faults.outage_permille > 0;
        let is_sound = self.plan.restart_after.is_none() && faults.origin == Rates::default() && !has_long;
        let is_other = |other: &Outstanding| other.ask.volume != ask.volume || other.ask.changes_nothing();
        let is_alone = self.outstanding.iter().all(|(other, request)| *other == id || is_other(request));
        if !self.watched.was_out || !is_sound || !is_alone || ask.operation != Operation::Discard {
            return;
        }
        let is_covered = |block: &BlockIndex| {
            let start = block.byte_offset();
            start >= ask.extent.start && start + BLOCK_SIZE <= ask.extent.end()
        };
        let dirty = host.engine.dirty_blocks(ask.volume).into_iter().filter(is_covered).collect();
        let changes = self.watched.changes(ask.volume);
        self.watched.discards.insert(id, WatchedDiscard { dirty, changes });
    }

    /// Checks that a failed discard left the dirty blocks that [`Simulation::watch_discard`] recorded for it in the
    /// cache, unless another change of the volume has succeeded since.
    fn check_restored<E: Subject>(&mut self, host: &Host<E>, id: RequestId, ask: &Ask) -> Result<(), String> {
        let Some(WatchedDiscard { dirty, changes }) = self.watched.discards.remove(&id) else {
            return Ok(());
        };
        if dirty.is_empty() || changes != self.watched.changes(ask.volume) {
            return Ok(());
        }
        let clean = host.engine.clean_blocks().into_iter();
        let clean = clean.filter(|(volume, ..)| *volume == ask.volume).map(|(_, block, _)| block);
        let cached: BTreeSet<BlockIndex> = clean.chain(host.engine.dirty_blocks(ask.volume)).collect();
        match dirty.iter().find(|block| !cached.contains(block)) {
            None => Ok(()),
            Some(block) => Err(format!("the cache lost block {:#x}", block.get())),
        }
    }

    /// Checks that a successful flush past a cache device out of service left no block that the origin lacks.
    /// Not checked in plans with faults or restarts, or while a change of the volume is in flight.
    pub(super) fn check_flush<E: Subject>(&self, host: &Host<E>, ended: &Outstanding) -> Result<(), String> {
        let Ask { volume, operation, .. } = ended.ask;
        let is_meant = operation == Operation::Flush && ended.is_past_cache && E::GROWS;
        let is_sound = self.plan.restart_after.is_none() && !self.plan.faults.any();
        let is_other = |other: &Outstanding| other.ask.volume != volume || other.ask.changes_nothing();
        let is_alone = || self.outstanding.values().all(is_other);
        if !(is_meant && is_sound && is_alone()) {
            return Ok(());
        }
        match host.engine.not_clean_blocks(volume) {
            0 => Ok(()),
            count => Err(format!("a flush succeeded while the origin lacks {count} blocks")),
        }
    }

    /// Checks that a sound cache device has no damaged blocks.
    pub(super) fn check_found(&self, status: &Status) -> Result<(), String> {
        if self.may_restore_blocks() || self.plan.faults.may_hide_cached() {
            return Ok(());
        }
        let wrong = status.volumes.iter().map(|volume| {
            volume.damaged_blocks + volume.counters.damaged_blocks + volume.counters.healed_blocks
        });
        match wrong.sum::<u64>() {
            0 => Ok(()),
            count => Err(format!("{count} damaged blocks on a sound cache device")),
        }
    }
}
