//! Segments are pinned while something refers to what stands in them (I-4): reads, writebacks, and copies that were
//! superseded by one that has not landed. Should that one be lost, the older copy is the block again.

use crate::cache::segments::SegmentState;
use crate::ids::BatchSlot;
use crate::inflight::blocks::block_extent;
use crate::inflight::writing::IfRefused;
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

    /// Whether a block is what a write through the log put there, and will be forgotten if the origin refuses it. Who
    /// reads it meanwhile asks the origin, behind that write: it must not see what may never have been.
    #[inline]
    pub(crate) fn may_be_refused(&self, key: BlockKey, location: Location) -> bool {
        self.requests.through_count > 0
            && self.is_forgotten_if_refused(key, location)
            && !mutant!(RefusedRead)
    }

    #[cold]
    fn is_forgotten_if_refused(&self, key: BlockKey, location: Location) -> bool {
        self.requests.written_through(&self.cache, self.cache.copy_at(key, location))
            == Some(IfRefused::Forgotten)
    }

    /// The origin took a write of a block that later ones put into the log once more.
    pub(crate) fn keep_if_refused(&mut self, key: BlockKey) {
        let queue = &self.volumes.get(key.volume()).queue;
        let extent = block_extent(key.block());
        let last_read = queue.last_read(extent);
        self.requests.keep_if_refused(key, |ticket| last_read.is_some_and(|read| read > ticket));
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
    use super::*;
    use crate::config::Mode;
    use crate::request::{Durability, Operation};
    use crate::scene::Scene;
    use crate::units::{BlockIndex, VolumeId};

    #[test]
    fn a_copy_that_is_the_block_again_is_still_its_writes_and_may_be_refused() {
        let mut scene = Scene::new(Mode::WriteThrough);
        let write = Operation::Write(Durability::Volatile);
        scene.hold("origin write");
        scene.begin(write, 0, 4096);
        let older = scene.location(0);
        scene.begin(write, 0, 4096);
        let key = BlockKey::new(VolumeId::new(0), BlockIndex::new(0));
        scene.engine.state.revive(key, older);
        assert!(scene.engine.state.may_be_refused(key, older));
        scene.end_held();
        assert!(!scene.engine.state.may_be_refused(key, older));
        assert_eq!(scene.not_clean(), (0, 1));
    }
}
