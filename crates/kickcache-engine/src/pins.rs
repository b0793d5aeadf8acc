//! Segments are pinned while something refers to what stands in them (I-4): reads, writebacks, and copies that were
//! superseded by one that has not landed. Should that one be lost, the older copy is the block again.

use crate::cache::segments::SegmentState;
use crate::ids::BatchSlot;
use crate::log::Batch;
use crate::state::State;
use crate::task::Task;
use crate::units::{BlockKey, Location};

impl State {
    /// A read from a segment begins; the segment stays until it ends.
    pub(crate) fn pin(&mut self, location: Location) {
        let segment = self.cache.segment_of(location);
        self.cache.segment_mut(segment).pins += 1;
    }

    /// A read from a segment ended.
    #[inline]
    pub(crate) fn unpin(&mut self, location: Location) {
        let segment = self.cache.segment_of(location);
        let found = self.cache.segment_mut(segment);
        found.pins -= 1;
        if found.pins == 0 && found.state == SegmentState::Reclaiming {
            self.agenda.push_back(Task::Reclaim);
        }
    }

    /// A block that the origin holds waits for the origin's flush.
    pub(crate) fn await_flush(&mut self, key: BlockKey, location: Location) {
        let (now, copy) = (self.now, self.cache.copy_at(key, location));
        self.volumes.get_mut(key.volume()).flush.add(copy, now);
    }

    /// A place, if what stands there must stay until what supersedes it landed.
    pub(crate) fn older_copy(&self, found: Option<Location>) -> Option<Location> {
        found.filter(|location| self.cache.slots().state(*location).is_not_clean())
    }

    /// The copies that a batch superseded need no pin any more: it landed, or others have them pinned.
    pub(crate) fn release_older(&mut self, batch: &Batch) {
        batch.entries.iter().filter_map(|entry| entry.older).for_each(|older| self.unpin(older));
    }

    /// A superseded copy was lost before it landed: what superseded it holds the one before, if there is one. Gives the
    /// batch that must land in the place of the lost one.
    pub(crate) fn pass_on_older(&mut self, lost: Location, older: Option<Location>) -> Option<BatchSlot> {
        let heir = self.device.log.pass_on(lost, older)?;
        older.into_iter().for_each(|older| self.pin(older));
        self.unpin(lost);
        Some(heir)
    }

    /// A dirty block was forgotten, and a restart may find it again or not: until then nobody may read what the origin
    /// has in its place.
    pub(crate) fn bring_back(&mut self, key: BlockKey, location: Location) {
        if self.cache.find(key).is_none() {
            self.cache.restore(key, location);
            self.mark_damaged(key, location);
        }
    }

    /// The newest copy of a block is lost, and the one before is the block again.
    pub(crate) fn revive(&mut self, key: BlockKey, older: Location) {
        self.cache.revive(key, older);
        self.cache.enter_sweep(older);
        if self.requests.written_through(&self.cache, self.cache.copy_at(key, older)).is_none() {
            // Whoever put it there is done with it, and would not give it back to writeback.
            self.cache.leave_sweep(older);
        }
        let segment = self.cache.segment_of(older);
        if self.cache.segments().get(segment).state == SegmentState::Reclaiming {
            self.reclaim.postponed.push(older);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Mode;
    use crate::device::DeviceError;
    use crate::request::{Errno, Operation};
    use crate::scene::Scene;
    use crate::time::Duration;

    #[test]
    fn a_discard_without_a_record_restores_its_blocks_as_unreadable() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, 8192).0.unwrap();
        scene.flush().0.unwrap();
        scene.fail("", DeviceError::Io);
        scene.begin(Operation::Discard, 0, 4096);
        scene.pass(Duration::from_millis(10_000));
        assert_eq!(scene.take_reply(), Some(Err(Errno::Io)));
        scene.heal();
        assert!(scene.is_cached(0) && scene.is_cached(4096));
        let (result, seen) = scene.read(0, 4096);
        assert_eq!(result, Err(Errno::Io), "neither the origin nor a restart is certain: {seen:?}");
    }
}
