//! The writes through the log to an origin that it has not ended: what they put into the log, and where that is.

use crate::cache::{BlockCopy, Cache};
use crate::inflight::requests::{IfRefused, Pending, Requests, Stage, Writing, Written};
use crate::units::{Location, VolumeId};

/// The write that goes through the log, if the request is one.
fn through_write(pending: &Pending) -> Option<&Writing> {
    match &pending.stage {
        Stage::Write(writing) if writing.is_through_log() => Some(writing),
        Stage::Simple | Stage::Write(_) | Stage::Cursor { .. } => None,
    }
}

impl Requests {
    /// Whether a write through the log that is not acknowledged put a copy there, and has its place among the accesses
    /// to the origin.
    pub(crate) fn is_on_its_way(&self, cache: &Cache, volume: VolumeId, location: Location) -> bool {
        self.iter().any(|pending| match &pending.stage {
            Stage::Write(writing) if pending.volume == volume => {
                let is_it =
                    |written: &Written| written.copy.location == location && cache.is_alive(written.copy);
                writing.has_place() && writing.written.iter().any(is_it)
            }
            Stage::Simple | Stage::Write(_) | Stage::Cursor { .. } => false,
        })
    }

    /// What becomes of a copy if the origin refuses it, if a write through the log put it there that waits for the origin.
    pub(crate) fn written_through(&self, cache: &Cache, copy: BlockCopy) -> Option<IfRefused> {
        if !cache.slots().is_in_sweep(copy.location) {
            return None;
        }
        let mut written = self.iter().filter_map(through_write).flat_map(|writing| &writing.written);
        written.find(|written| written.copy == copy).map(|written| written.if_refused)
    }

    /// Reclaim carried a block to another place. If a write through the log put it there, and waits for the origin, its
    /// copy is the new one: it is no more writeback's than before.
    pub(crate) fn follow_copy(&mut self, cache: &mut Cache, before: BlockCopy, place: Location) {
        if !cache.slots().is_in_sweep(before.location) {
            return;
        }
        let now = cache.copy_at(before.key, place);
        for pending in self.iter_mut() {
            let Stage::Write(writing) = &mut pending.stage else { continue };
            // A write that is acknowledged by the log alone leaves its blocks to writeback, and nobody would give this back.
            let is_through = writing.is_through_log();
            for written in writing.written.iter_mut().filter(|written| written.copy == before) {
                written.copy = now;
                if is_through {
                    cache.enter_sweep(place);
                }
            }
            writing.earlier.iter_mut().filter(|copy| **copy == before).for_each(|copy| *copy = now);
        }
    }

    /// Whether the writes through the log are counted right.
    ///
    /// # Panics
    /// If they are not.
    pub(crate) fn check_through_count(&self) {
        let count = self.iter().filter_map(through_write).count();
        assert_eq!(count, self.through_count as usize, "writes through the log");
    }
}
