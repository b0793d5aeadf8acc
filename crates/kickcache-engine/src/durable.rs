//! Records, and waiting for the durability of data on the cache device.

use crate::config::RECORDS_AFTER;
use crate::format::journal::RECORD_COUNT_MAX;
use crate::order::{DurableWaiter, Need};
use crate::state::State;
use crate::task::Task;
use crate::units::{Sequence, VolumeId};

impl State {
    pub(crate) fn flush_journal(&mut self) {
        self.write_records(1);
    }

    #[inline]
    pub(crate) fn write_full_records(&mut self) {
        if self.device.journal.gathered() >= RECORD_COUNT_MAX {
            self.write_records(RECORD_COUNT_MAX);
        }
    }

    fn write_records(&mut self, least: usize) {
        while let Some(next) = self.device.take_records(least) {
            self.submit(next.purpose, next.operation);
        }
    }

    /// If all blocks of a draining volume are clean, makes their *clean* records durable before the drain ends: a kill
    /// before that would make the blocks dirty again.
    pub(crate) fn end_drain_when_durable(&mut self, volume: VolumeId) {
        if !self.volumes.get(volume).draining || self.cache.volume(volume).not_clean() > 0 {
            return;
        }
        if self.device.is_clean_untold() {
            self.agenda.push_back(Task::Checkpoint);
        } else {
            self.agenda.push_back(Task::Barrier(DurableWaiter::Drained(volume)));
        }
    }

    pub(crate) fn end_drains_when_durable(&mut self) {
        for volume in self.volumes.ids() {
            self.end_drain_when_durable(volume);
        }
    }

    /// Whether a volume has a *clean* record that a kill could lose.
    fn is_clean_volatile(&self, volume: VolumeId) -> bool {
        let found = self.volumes.find(volume).filter(|_| !self.device.is_out_of_service());
        found.is_some_and(|found| !self.device.order.is_durable(found.newest_clean))
    }

    /// The data that a drain waited for is durable, or cannot be made durable: the drain ends, unless a block is not
    /// clean again, or a block became clean without a record. If a block became clean meanwhile, the drain waits for
    /// its record.
    pub(crate) fn end_drain(&mut self, volume: VolumeId) {
        if self.is_clean_volatile(volume) {
            return self.end_drain_when_durable(volume);
        }
        if self.cache.volume(volume).not_clean() == 0 && !self.device.is_clean_untold() {
            // A removed volume has no drain.
            if let Some(found) = self.volumes.find_mut(volume) {
                found.counters.drains += u64::from(core::mem::take(&mut found.draining));
                self.end_delay(volume);
            }
            self.prove_complete(volume);
        }
    }

    /// The wait for the record of a removed volume is over.
    pub(crate) fn end_forgetting(&mut self, volume: VolumeId) {
        self.volumes.find_mut(volume).into_iter().for_each(|found| found.is_forgotten = true);
    }

    pub(crate) fn await_old_records(&mut self) {
        if self.device.journal.gathered() > 0 {
            self.records_due = Some(self.now.plus(RECORDS_AFTER));
        }
    }

    pub(crate) fn write_old_records(&mut self) {
        if self.records_due.is_some_and(|due| due <= self.now) {
            self.records_due = None;
            self.agenda.push_back(Task::Barrier(DurableWaiter::Nobody));
        }
    }

    /// Notifies the waiter, by a task, when all batches and records with a sequence number so far are durable, or
    /// cannot become durable.
    pub(crate) fn wait_durable(&mut self, waiter: DurableWaiter) {
        self.wait_through(self.device.order.newest(), waiter);
    }

    /// Notifies the waiter, by a task, when the records of all blocks dropped so far are durable, or cannot become
    /// durable.
    pub(crate) fn wait_gone(&mut self, waiter: DurableWaiter) {
        self.wait_through(self.device.newest_gone(), waiter);
    }

    fn wait_through(&mut self, sequence: Sequence, waiter: DurableWaiter) {
        // A device out of service may still flush acknowledged writes: for writeback, and before a stop.
        let may_flush = matches!(waiter, DurableWaiter::Writeback | DurableWaiter::Stop);
        let is_hopeless = !may_flush || self.device.order.has_failed();
        if self.device.is_out_of_service() && is_hopeless {
            self.agenda.push_back(Task::NotDurable(waiter));
            return;
        }
        if self.device.order.is_durable(sequence) {
            self.agenda.push_back(Task::Durable(waiter));
            return;
        }
        self.flush_journal();
        self.device.order.wait(Need::Through(sequence), waiter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::slots::SlotState;
    use crate::config::Mode;
    use crate::scene::Scene;

    #[test]
    fn a_drain_lasts_until_clean_blocks_are_recorded() {
        let mut scene = Scene::new(Mode::WriteBack);
        let (state, volume) = (&mut scene.engine.state, VolumeId::new(0));
        state.volumes.get_mut(volume).draining = true;
        state.device.has_untold_clean = true;
        state.end_drain(volume);
        assert!(state.volumes.get(volume).draining);
        state.device.has_untold_clean = false;
        state.end_drain(volume);
        assert!(!state.volumes.get(volume).draining);
    }

    #[test]
    fn a_drain_lasts_until_later_records_are_durable() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, 4096).0.unwrap();
        let location = scene.location(0);
        let (state, volume) = (&mut scene.engine.state, VolumeId::new(0));
        state.volumes.get_mut(volume).draining = true;
        let copy = state.cache.copy_at(state.cache.slots().key(location), location);
        state.record_state(copy, SlotState::Clean);
        state.end_drain(volume);
        assert!(state.volumes.get(volume).draining, "an earlier record was awaited");
        scene.engine.handle_timeout(scene.now);
        assert_eq!(scene.run(), ["cache log 0", "cache flush"]);
        assert!(!scene.engine.state.volumes.get(volume).draining);
    }
}
