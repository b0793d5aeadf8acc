//! The searches of requests in progress.

use alloc::vec::Vec;

use crate::ids::RequestSlot;
use crate::time::{Duration, Instant};
use crate::units::{ByteExtent, VolumeId};

/// The least time from the start of a slice of work to the start of the next one.
const REST: Duration = Duration::from_micros(30);

/// The treatment of the blocks that a search finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Treatment {
    /// Found blocks are dropped.
    Forget,
    /// Found clean blocks are dropped.
    ForgetClean,
    /// Found unflushed blocks become dirty again.
    MakeDirty,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Search {
    pub(crate) slot: RequestSlot,
    pub(crate) volume: VolumeId,
    pub(crate) extent: ByteExtent,
    pub(crate) treatment: Treatment,
    /// Blocks of the volume that writeback had stored before the search began.
    pub(crate) written_back: u64,
}

#[derive(Debug)]
pub(crate) struct Searching {
    searches: Vec<Search>,
    slice: u32,
    /// Steps that are left in the current slice.
    pub(crate) left: u32,
    /// When the next slice may begin.
    pub(crate) next_slice: Instant,
}

impl Searching {
    pub(crate) fn new(slice: u32) -> Searching {
        let slice = slice.max(1);
        Searching { searches: Vec::new(), slice, left: slice, next_slice: Instant::ZERO }
    }

    pub(crate) fn begin_slice(&mut self, now: Instant) {
        if now >= self.next_slice {
            (self.left, self.next_slice) = (self.slice, now.plus(REST));
        }
    }

    pub(crate) fn add(&mut self, search: Search) {
        self.searches.push(search);
    }

    pub(crate) fn get(&self, slot: RequestSlot) -> Search {
        let found = self.searches.iter().find(|search| search.slot == slot);
        *found.expect("a search in progress belongs to a request")
    }

    pub(crate) fn remove(&mut self, slot: RequestSlot) -> Search {
        let at = self.searches.iter().position(|search| search.slot == slot);
        self.searches.swap_remove(at.expect("a search ends once"))
    }
}
