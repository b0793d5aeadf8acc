//! Searches for the cached blocks of an extent that a request changes, in slices.
//!
//! A slice is a number of steps, as the engine reads no clock. A request takes its place among the accesses to the
//! origin before its search, so that fills of the extent read the origin after the request. It holds the lock of the
//! extent until the search ends, so that no write puts blocks into the extent meanwhile.

use alloc::vec::Vec;

use crate::cache::CachedBlock;
use crate::cache::search::SearchResult;
use crate::cache::slots::SlotState;
use crate::ids::RequestSlot;
use crate::inflight::searching::{Search, Treatment};
use crate::request::Errno;
use crate::state::State;
use crate::task::Task;
use crate::time::Instant;
use crate::units::{BlockKey, ByteExtent, Location, VolumeId};

/// The most locations of a cache device on which debug builds check the end of a search.
const CHECKED_MAX: u32 = 1 << 15;
/// Steps that dropping a block counts as.
const FORGET_STEPS: u32 = 32;

impl State {
    /// Searches for the cached blocks of an extent; calls back by [`Task::Searched`].
    pub(crate) fn search(&mut self, slot: RequestSlot, extent: ByteExtent, treatment: Treatment) {
        let volume = self.requests.get(slot).volume;
        if self.cache.volume(volume).cached == 0 {
            self.agenda.push_back(Task::Searched(slot));
            return;
        }
        self.cache.begin_search(slot, volume, extent);
        let written_back = self.volumes.get(volume).counters.writeback_blocks;
        self.searching.add(Search { slot, volume, extent, treatment, written_back });
        self.go_on_searching();
    }

    /// Continues the searches for the rest of a slice.
    pub(crate) fn go_on_searching(&mut self) {
        self.searching.begin_slice(self.now);
        while self.searching.left > 0
            && !self.device.is_journal_full()
            && let Some(volume) = self.cache.next_searched_volume()
        {
            self.search_in(volume);
        }
        if self.cache.is_searching() && self.device.is_journal_full() {
            self.agenda.push_back(Task::Checkpoint);
        }
    }

    fn search_in(&mut self, volume: VolumeId) {
        while !self.device.is_journal_full() {
            match self.cache.search(volume, &mut self.searching.left) {
                SearchResult::Block(slot, block) => self.treat(slot, block),
                SearchResult::End(slot) => {
                    let search = self.searching.remove(slot);
                    if cfg!(any(debug_assertions, feature = "mutants"))
                        && self.cache.slots().count() <= CHECKED_MAX
                    {
                        self.check_searched(search);
                    }
                    self.agenda.push_back(Task::Searched(slot));
                }
                SearchResult::Nothing => return,
            }
        }
    }

    /// When [`State::go_on_searching`] must be called.
    pub(crate) fn search_timeout(&self) -> Option<Instant> {
        let may_go_on = self.cache.is_searching() && !self.device.is_journal_full();
        may_go_on.then_some(self.searching.next_slice)
    }

    fn treat(&mut self, slot: RequestSlot, CachedBlock { key, location }: CachedBlock) {
        let is_wanted = |state| is_treated(self.searching.get(slot).treatment, state);
        if !is_wanted(self.cache.slots().state(location)) {
            return;
        }
        match self.searching.get(slot).treatment {
            Treatment::ForgetClean if mutant!(CleanNotForgotten) => {}
            Treatment::MakeDirty if mutant!(RefusedStaysUnflushed) => {}
            Treatment::Forget | Treatment::ForgetClean => {
                self.searching.left = self.searching.left.saturating_sub(FORGET_STEPS);
                self.forget_for(slot, key, location);
            }
            Treatment::MakeDirty => self.cache.set_state(location, SlotState::Dirty),
        }
    }

    /// F-1: the search has left no block. Writeback during a search for unflushed blocks may leave some.
    fn check_searched(&self, Search { volume, extent, treatment, written_back, .. }: Search) {
        let is_written_back = self.volumes.get(volume).counters.writeback_blocks > written_back;
        if treatment == Treatment::MakeDirty && is_written_back {
            return;
        }
        let is_left = |block: &CachedBlock| is_treated(treatment, self.cache.slots().state(block.location));
        let left = self.cache.cached_blocks_of(volume, extent).find(is_left);
        assert_eq!(left, None, "F-1: a block was not found");
    }

    /// A copy that is not clean stays pinned until [`State::end_forgotten`], because it may be restored.
    pub(crate) fn forget_for(&mut self, slot: RequestSlot, key: BlockKey, location: Location) {
        if self.cache.slots().state(location).is_not_clean() {
            self.pin(location);
            self.requests.get_mut(slot).forgotten.push(location);
        }
        self.forget(key);
    }

    /// The records of the blocks that a request dropped are durable, or failed.
    pub(crate) fn end_forgotten(&mut self, slot: RequestSlot, result: Result<(), Errno>) {
        let forgotten: Vec<Location> = core::mem::take(&mut self.requests.get_mut(slot).forgotten);
        for location in forgotten {
            if result.is_err() && !mutant!(DiscardedNotBroughtBack) {
                self.bring_back(self.cache.slots().key(location), location);
            }
            self.unpin(location);
        }
    }
}

fn is_treated(treatment: Treatment, state: SlotState) -> bool {
    match treatment {
        Treatment::Forget => true,
        Treatment::ForgetClean => state == SlotState::Clean,
        Treatment::MakeDirty => state == SlotState::Unflushed,
    }
}
