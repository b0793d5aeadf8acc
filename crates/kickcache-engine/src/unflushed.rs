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
        if self.device.journal.has_room() {
            self.device.record(Fact::Clean(key));
        } else {
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
