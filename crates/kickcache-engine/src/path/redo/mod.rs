//! Point-in-time write-back: dirty blocks of a group of volumes go to the redo journal as cuts, and from there to the
//! origins.
//!
//! 1. A *cut* is the dirty blocks of one instant ([`cut`]).
//! 2. Its blocks are written to the journal, and committed ([`journal`]).
//! 3. The oldest committed group is written to all origins, which are flushed ([`apply`]).
//! 4. Its blocks become clean, and its slots of the ring are free ([`release`]).
//!
//! Invariants:
//! * P-1: a group is committed only when its blocks are durable on the cache device and on the journal.
//! * P-2: an origin receives blocks of committed groups only, in the order of the groups.
//! * A dirty copy that is marked as in writeback has the version of the newest group with its block, also after
//!   reclaim has moved it.
//! * P-3: a block stays dirty until its group is on all origins, durably.

pub(crate) mod apply;
pub(crate) mod cut;
pub(crate) mod journal;
pub(crate) mod release;
#[cfg(test)]
mod tests;

use crate::cache::BlockCopy;
use crate::cache::slots::SlotState;
use crate::redo::Redo;
use crate::state::State;
use crate::task::Task;
use crate::time::{Instant, earlier};
use crate::units::{BlockKey, VolumeId};

impl State {
    /// The redo journal.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn redo(&mut self) -> &mut Redo {
        self.redo.as_deref_mut().expect("there is a redo journal")
    }

    /// No group has the present copy of a block any more; returns the copy if a group had it and it is dirty.
    pub(crate) fn end_group_of(&mut self, key: BlockKey) -> Option<BlockCopy> {
        let location =
            self.cache.find(key).filter(|location| self.cache.slots().is_in_writeback(*location))?;
        self.cache.end_writeback(location);
        let is_dirty = self.cache.slots().state(location) == SlotState::Dirty;
        is_dirty.then(|| self.cache.copy_at(key, location))
    }

    /// Whether cuts begin and groups go on: an engine that stops continues them only for requests that may wait for
    /// them.
    pub(crate) fn may_go_on_with_groups(&self) -> bool {
        !self.is_ending || !self.requests.is_empty()
    }

    /// Whether a volume is written back in cuts.
    pub(crate) fn is_point_in_time(&self, volume: VolumeId) -> bool {
        self.redo.as_ref().is_some_and(|redo| redo.volumes.contains(volume))
    }

    /// Dirty blocks of the volumes that are written back in cuts.
    pub(crate) fn all_dirty_in_group(&self) -> u64 {
        let volumes = self.redo.as_ref().map(|redo| redo.volumes).unwrap_or_default();
        volumes.iter().map(|volume| self.cache.volume(volume).dirty).sum()
    }

    /// Whether a block must not become dirty now: the ring would not have room for all dirty blocks. A cut is urgent
    /// then.
    pub(crate) fn is_group_full(&mut self, key: BlockKey) -> bool {
        if !self.is_point_in_time(key.volume()) || self.cache.state_of(key) == Some(SlotState::Dirty) {
            return false;
        }
        let is_full = self.all_dirty_in_group() >= self.redo().all_dirty_max();
        if is_full {
            self.redo().is_awaited = true;
            self.agenda.push_back(Task::Redo);
        }
        is_full
    }

    /// About the dirty blocks that a cut would have now: a damaged block of a group counts twice.
    pub(crate) fn dirty_in_group(&self) -> u64 {
        let Some(redo) = &self.redo else { return 0 };
        let dirty = |volume| {
            let blocks = self.cache.volume(volume);
            blocks.dirty.saturating_sub(blocks.damaged + blocks.in_writeback)
        };
        redo.volumes.iter().map(dirty).sum()
    }
}

/// Continues the cut and the oldest group.
pub(crate) fn go_on(state: &mut State) {
    if state.redo.is_none() {
        return;
    }
    if cut::due_at(state).is_some_and(|at| state.now >= at) {
        cut::begin(state);
    }
    cut::go_on(state);
    apply::go_on(state);
    release::go_on(state);
}

/// When [`go_on`] must be called, if no operation of the journal ends before.
pub(crate) fn poll_timeout(state: &State) -> Option<Instant> {
    let redo = state.redo.as_ref()?;
    let searches = redo.cut.as_ref().is_some_and(|cut| !cut.is_searched && !cut.is_abandoned);
    let releases = release::is_due(state);
    let slice = (searches || releases).then_some(redo.next_slice);
    earlier(earlier(slice, cut::due_at(state)), earlier(apply::retry_at(state), cut::patience_end(state)))
}
