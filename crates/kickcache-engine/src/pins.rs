//! Pins: a segment stays while an operation refers to its blocks (I-4).

use crate::cache::segments::SegmentState;
use crate::ids::BatchSlot;
use crate::log::Batch;
use crate::state::State;
use crate::task::Task;
use crate::units::{BlockKey, Location};

impl State {
    pub(crate) fn pin(&mut self, location: Location) {
        let segment = self.cache.segment_of(location);
        self.cache.segment_mut(segment).pins += 1;
    }

    #[inline]
    pub(crate) fn unpin(&mut self, location: Location) {
        let segment = self.cache.segment_of(location);
        let found = self.cache.segment_mut(segment);
        found.pins -= 1;
        if found.pins == 0 && found.state == SegmentState::Reclaiming {
            self.agenda.push_back(Task::Reclaim);
        }
    }

    /// A block waits for the flush of its origin.
    pub(crate) fn await_flush(&mut self, key: BlockKey, location: Location) {
        let (now, copy) = (self.now, self.cache.copy_at(key, location));
        self.volumes.get_mut(key.volume()).flush.add(copy, now);
    }

    /// The location, if the copy there must stay until the superseding one has landed.
    pub(crate) fn older_copy(&self, found: Option<Location>) -> Option<Location> {
        found.filter(|location| self.cache.slots().state(*location).is_not_clean())
    }

    pub(crate) fn release_older(&mut self, batch: &Batch) {
        batch.entries.iter().filter_map(|entry| entry.older).for_each(|older| self.unpin(older));
    }

    /// The copy that superseded a lost one inherits the older copy; returns its batch.
    pub(crate) fn pass_on_older(&mut self, lost: Location, older: Option<Location>) -> Option<BatchSlot> {
        let heir = self.device.log.pass_on(lost, older)?;
        older.into_iter().for_each(|older| self.pin(older));
        self.unpin(lost);
        Some(heir)
    }

    /// The record of a dropped block failed, so that a restart may restore the block. Until a restart, reads must not
    /// return the older data of the origin.
    pub(crate) fn bring_back(&mut self, key: BlockKey, location: Location) {
        if self.cache.find(key).is_none() {
            self.cache.restore(key, location);
            self.mark_damaged(key, location);
        }
    }

    /// The newest copy of a block is lost: the previous one becomes current again.
    pub(crate) fn revive(&mut self, key: BlockKey, older: Location) {
        self.cache.revive(key, older);
        self.cache.enter_sweep(older);
        if self.requests.written_through(&self.cache, self.cache.copy_at(key, older)).is_none() {
            // The write that stored the copy has ended, so that it would not remove the copy from the sweep later.
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
