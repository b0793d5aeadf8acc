//! Blocks that the cache device cannot read. An error alone is no damage: a device may be missing for a while.

use alloc::vec::Vec;

use crate::cache::BlockCopy;
use crate::cache::segments::SegmentState;
use crate::cache::slots::SlotState;
use crate::config::{DAMAGED_NAMED_MAX, DOUBTFUL_MAX, UNREADABLE_TRIES};
use crate::device::{DeviceError, DeviceOperation};
use crate::format::superblock::{SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE};
use crate::inflight::purpose::Purpose;
use crate::inflight::unreadable::{Failing, Failures, PAUSE};
use crate::state::State;
use crate::task::Task;
use crate::time::{Duration, Instant};
use crate::units::{BlockKey, ByteExtent, Location};

/// The time after which an unreadable cache device is put out of service if clients wait for space.
const SILENCE_MAX: Duration = Duration::from_millis(30_000);

impl State {
    pub(crate) fn note_cache_read(&mut self, result: Result<(), DeviceError>) {
        let now = self.now;
        if result.is_err() {
            let failing = Failing { since: now, probe_at: now.plus(PAUSE) };
            self.unreadable.failing.get_or_insert(failing);
            self.probe();
            return;
        }
        self.unreadable.answered = now;
        if self.unreadable.failing.take().is_some() {
            self.agenda.extend(self.volumes.ids().map(Task::Writeback));
            self.agenda.push_back(Task::Reclaim);
        }
    }

    /// Reads the superblock of an unreadable cache device, if a probe is due.
    pub(crate) fn probe_if_due(&mut self) {
        let now = self.now;
        let is_wanted = !self.is_ending || self.waiters.want_room();
        if let Some(failing) = &mut self.unreadable.failing
            && now >= failing.probe_at
        {
            failing.probe_at = now.plus(PAUSE);
            if is_wanted {
                self.probe();
            }
        }
    }

    fn probe(&mut self) {
        if self.unreadable.is_probing {
            return;
        }
        self.unreadable.is_probing = true;
        let start = SUPERBLOCK_OFFSETS[self.unreadable.probes % SUPERBLOCK_OFFSETS.len()];
        self.unreadable.probes += 1;
        let extent = ByteExtent { start, length: SUPERBLOCK_SIZE as u64 };
        self.submit(Purpose::Probe, DeviceOperation::ReadMetadata { extent });
    }

    pub(crate) fn on_probed(&mut self, result: Result<(), DeviceError>) {
        self.device.counters.errors += u64::from(result.is_err());
        self.unreadable.is_probing = false;
        if result.is_ok() {
            self.note_cache_read(result);
        }
    }

    /// When [`State::probe_if_due`] must be called.
    pub(crate) fn probe_timeout(&self) -> Option<Instant> {
        let is_wanted = !self.is_ending || self.waiters.want_room();
        self.unreadable.rest_until().filter(|_| is_wanted)
    }

    /// Whether the cache device has been unreadable for [`SILENCE_MAX`].
    pub(crate) fn is_unreadable(&self) -> bool {
        let is_long = |failing: Failing| self.now >= failing.since.plus(SILENCE_MAX);
        self.unreadable.failing.is_some_and(is_long)
    }

    /// Whether the engine itself may read a block now.
    pub(crate) fn may_be_tried(&self, copy: BlockCopy) -> bool {
        if mutant!(UnreadableTriedAtOnce) {
            return true;
        }
        let has_rested = |failures: &Failures| failures.count == 0 || self.now >= failures.last.plus(PAUSE);
        self.unreadable.failing.is_none() && self.unreadable.doubtful.get(&copy).is_none_or(has_rested)
    }

    /// Whether the engine itself must read a block alone.
    pub(crate) fn is_doubtful(&self, copy: BlockCopy) -> bool {
        !self.unreadable.doubtful.is_empty() && self.unreadable.doubtful.contains_key(&copy)
    }

    pub(crate) fn clear_doubt(&mut self, copy: BlockCopy) {
        if !self.unreadable.doubtful.is_empty() {
            self.unreadable.doubtful.remove(&copy);
        }
    }

    /// Lists a block to be read alone. `false` if the list is full.
    pub(crate) fn doubt(&mut self, copy: BlockCopy) -> bool {
        if mutant!(UnreadableTriedAtOnce) || !self.cache.is_alive(copy) || self.is_doubtful(copy) {
            return true;
        }
        if self.unreadable.doubtful.len() >= DOUBTFUL_MAX {
            let cache = &self.cache;
            self.unreadable.doubtful.retain(|copy, _| cache.is_alive(*copy));
        }
        let has_room = self.unreadable.doubtful.len() < DOUBTFUL_MAX;
        if has_room {
            self.unreadable.doubtful.insert(copy, Failures::default());
        }
        has_room
    }

    /// A block could not be read alone. `false` if the list of such blocks is full.
    pub(crate) fn on_unreadable(&mut self, copy: BlockCopy) -> bool {
        if !self.doubt(copy) {
            return false;
        }
        let (now, answered) = (self.now, self.unreadable.answered);
        let Some(failures) = self.unreadable.doubtful.get_mut(&copy) else { return true };
        if failures.count > 0 && now < failures.last.plus(PAUSE) {
            return true;
        }
        // Later failures count only if the device has completed a read in between.
        if failures.count == 0 || answered > failures.last {
            failures.count += 1;
        }
        failures.last = now;
        let is_over = failures.count >= UNREADABLE_TRIES;
        self.unreadable.last_failure = now;
        if is_over && self.cache.slots().state(copy.location) == SlotState::Dirty {
            self.unreadable.doubtful.remove(&copy);
            self.mark_damaged(copy.key, copy.location);
            self.set_aside(copy.location);
        }
        true
    }

    /// The medium has failed in this segment: it is retired if it is sealed.
    fn set_aside(&mut self, location: Location) {
        let segment = self.cache.segment_of(location);
        if self.cache.segments().get(segment).state == SegmentState::Sealed {
            self.cache.unlink(segment, SegmentState::Retired);
        }
        self.agenda.push_back(Task::Reclaim);
    }

    /// The volume's next flush reports the loss.
    pub(crate) fn mark_damaged(&mut self, key: BlockKey, location: Location) {
        if self.cache.slots().is_damaged(location) {
            return;
        }
        self.cache.set_damaged(location);
        if self.unreadable.damaged.len() >= DAMAGED_NAMED_MAX {
            let cache = &self.cache;
            self.unreadable.damaged.retain(|key| cache.is_block_damaged(*key));
        }
        if self.unreadable.damaged.len() < DAMAGED_NAMED_MAX {
            self.unreadable.damaged.insert(key);
        }
        if self.volumes.find(key.volume()).is_some() {
            let found = self.volumes.get_mut(key.volume());
            found.counters.damaged_blocks += 1;
            found.flush.note_loss();
        }
    }

    /// Damaged blocks, ascending, at most [`DAMAGED_NAMED_MAX`].
    pub(crate) fn damaged_blocks(&self) -> Vec<BlockKey> {
        let found = self.unreadable.damaged.iter().filter(|key| self.cache.is_block_damaged(**key));
        found.copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Mode;
    use crate::request::Errno;
    use crate::scene::Scene;
    use crate::units::{BlockIndex, BlockKey, VolumeId};

    #[test]
    fn the_next_flush_reports_a_damaged_dirty_block() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, 4096).0.unwrap();
        scene.flush().0.unwrap();
        let key = BlockKey::new(VolumeId::new(0), BlockIndex::containing(0));
        let location = scene.location(0);
        scene.engine.state.mark_damaged(key, location);
        assert_eq!(scene.flush().0, Err(Errno::Io));
        scene.engine.state.mark_damaged(key, location);
        assert_eq!(scene.flush().0, Ok(()), "it is reported once");
    }
}
