//! Drains: when a drain has ended, no crash makes the blocks of its volume dirty again.

use kickcache_engine::stats::CacheHealth;

use crate::host::Host;
use crate::run::{Simulation, volume_id};
use crate::subject::Subject;

impl Simulation {
    /// Notes the drains that have ended.
    pub(super) fn note_drains<E: Subject>(&mut self, host: &Host<E>) {
        let asked: Vec<usize> = self.drained.asked().collect();
        if asked.is_empty() || host.engine.health() != CacheHealth::Good {
            return;
        }
        let status = host.engine.status();
        for number in asked {
            let volume = volume_id(number);
            if status.volumes.iter().any(|found| found.volume == volume && found.is_draining) {
                continue;
            }
            self.note(|| format!("the drain of volume {number} has ended"));
            if host.engine.not_clean_blocks(volume) == 0 {
                self.drained.end(volume, self.outstanding.values().map(|outstanding| &outstanding.ask));
            } else {
                self.drained.end_unseen(volume);
            }
        }
    }

    /// The drains that were requested end when no client writes any more, without another request.
    pub(super) fn await_drains<E: Subject>(&mut self, host: &mut Host<E>) -> Result<(), String> {
        if self.plan.faults.any() {
            // Damaged blocks never leave the log.
            return Ok(());
        }
        let is_out = |host: &Host<E>| host.engine.health() != CacheHealth::Good;
        self.run(host, None, |life, host| is_out(host) || life.drained.asked().next().is_none())
            .map(drop)
            .map_err(|error| format!("a drain does not end: {error}"))
    }

    /// Checks after recovery that no block is dirty that was clean at the end of a drain, and that no request has
    /// changed since. A cache device that fails writes, or loses or changes data, promises less: a failed batch is
    /// written again after the record that its blocks are clean, and calls them dirty.
    pub(super) fn check_dirty<E: Subject>(&self, host: &Host<E>) -> Result<(), String> {
        let faults = &self.plan.faults;
        if self.watched.was_out || !faults.are_of_origins() || faults.may_deceive() {
            return Ok(());
        }
        for number in 0..self.volumes.len() {
            let volume = volume_id(number);
            let dirty = host.engine.dirty_blocks(volume);
            if let Some(block) = self.drained.find_clean(volume, &dirty) {
                return Err(format!("block {:#x} of volume {number} is dirty after its drain", block.get()));
            }
        }
        Ok(())
    }
}
