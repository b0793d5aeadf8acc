//! Unflushed blocks: an origin has them, perhaps not flushed.
//!
//! Invariants:
//! * I-3: a block becomes clean only after a durable write of the origin, or after a flush that covers its write.

use crate::cache::BlockCopy;
use crate::cache::slots::SlotState;
use crate::config::UNFLUSHED_BLOCKS_MAX;
use crate::format::journal::Fact;
use crate::inflight::blocks::block_extent;
use crate::state::State;
use crate::task::Task;
use crate::units::VolumeId;

/// The limit of blocks that wait for a flush: one part in this many of the cache.
const UNFLUSHED_PART: usize = 16;

impl State {
    /// The number of blocks that wait for a flush of the origin and force it.
    pub(crate) fn unflushed_max(&self) -> usize {
        let capacity = usize::try_from(self.retention.capacity()).unwrap_or(usize::MAX);
        UNFLUSHED_BLOCKS_MAX.min(capacity / UNFLUSHED_PART)
    }

    /// An unflushed block becomes clean, or dirty again.
    pub(crate) fn end_unflushed(&mut self, copy: BlockCopy, state_now: SlotState) {
        if self.cache.is_alive(copy) && self.cache.slots().state(copy.location) == SlotState::Unflushed {
            self.record_state(copy, state_now);
        }
    }

    /// Records a new state of a living block. A full journal takes no *clean* record: the next checkpoint makes the
    /// state durable.
    pub(crate) fn record_state(&mut self, copy: BlockCopy, state_now: SlotState) {
        let BlockCopy { key, location, .. } = copy;
        // The origin is about to store a newer version of the block: if this copy were clean, a restart after a power
        // cut could serve it, although the origin has newer data.
        let is_replaced = self.waiters.is_replaced(key.volume(), block_extent(key.block()));
        let state_now =
            if is_replaced && !mutant!(ReplacedBecomesClean) { SlotState::Dirty } else { state_now };
        self.cache.set_state(location, state_now);
        if state_now != SlotState::Clean {
            return;
        }
        self.submit_pending(location);
        if self.device.journal.has_room() {
            self.device.record(Fact::Clean(key));
            let newest = self.device.order.newest();
            self.volumes.find_mut(key.volume()).into_iter().for_each(|found| found.newest_clean = newest);
        } else if !mutant!(FullJournalCleanForgotten) {
            self.device.has_untold_clean = true;
        }
    }

    /// Makes all unflushed blocks of an origin dirty again.
    pub(crate) fn write_again(&mut self, volume: VolumeId) {
        for copy in self.volumes.get_mut(volume).flush.restart() {
            self.end_unflushed(copy, SlotState::Dirty);
        }
        let afterwards = self.volumes.get_mut(volume).flush.take_afterwards();
        self.agenda.extend(afterwards);
        self.agenda.push_back(Task::Writeback(volume));
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Mode;
    use crate::request::Operation;
    use crate::scene::Scene;
    use crate::units::{BLOCK_SIZE, VolumeId};

    /// Recovery would treat the block as dirty: the entry in its batch would have a higher number than the record, and
    /// after a drain the block could reach an origin that another program has written.
    #[test]
    fn a_block_is_recorded_as_clean_after_its_batch() {
        let mut scene = Scene::new(Mode::WriteAround);
        scene.write(0, 4096).0.unwrap();
        scene.hold("origin flush");
        let volume = VolumeId::new(0);
        scene.engine.flush_soon(scene.now, volume);
        assert_eq!(scene.run(), ["origin flush"]);
        scene.begin(Operation::Promote, 0, 64 << 10);
        let last = scene.location(15 * BLOCK_SIZE);
        let is_pending = |scene: &Scene| scene.engine.state.device.log.pending_kind(last).is_some();
        assert!(scene.not_clean().1 > 0 && is_pending(&scene), "the last two blocks gather");
        scene.end_held();
        assert_eq!((scene.not_clean(), is_pending(&scene)), ((0, 0), false));
    }
}
