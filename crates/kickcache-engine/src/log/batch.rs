//! Batches in memory.

use alloc::vec::Vec;

use crate::device::Memory;
use crate::ids::RequestSlot;
use crate::queue::Queue;
use crate::request::Durability;
use crate::task::Task;
use crate::time::Instant;
use crate::units::{BlockKey, Checksum, Location, PageIndex, SegmentIndex, Sequence};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// `None` if the block died before the batch was submitted.
    pub(crate) key: Option<BlockKey>,
    pub(crate) memory: Memory,
    pub(crate) checksum: Checksum,
    pub(crate) dirty: bool,
    /// The page of the data, if the log must release it.
    pub(crate) page: Option<PageIndex>,
    /// The superseded copy, which is pinned.
    pub(crate) older: Option<Location>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Batch {
    pub(crate) queue: Queue,
    pub(crate) segment: SegmentIndex,
    /// The block of the segment for the header.
    pub(crate) start: u32,
    pub(crate) entries: Vec<Entry>,
    pub(crate) waiters: Vec<RequestSlot>,
    /// Reads that continue when the batch has landed or failed.
    pub(crate) reads: Vec<Task>,
    pub(crate) durability: Durability,
    pub(super) begun: Instant,
    /// Assigned when the batch is submitted.
    pub(crate) sequence: Option<Sequence>,
}

impl Batch {
    /// Adopts the requirements of a new entry; returns whether a waiter was added.
    pub(super) fn join(&mut self, append: &Append) -> bool {
        if append.durability == Durability::Durable {
            self.durability = Durability::Durable;
        }
        match append.waiter {
            Some(waiter) if self.waiters.last() != Some(&waiter) => {
                self.waiters.push(waiter);
                true
            }
            Some(_) | None => false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Append {
    pub(crate) queue: Queue,
    pub(crate) entry: Entry,
    pub(crate) waiter: Option<RequestSlot>,
    pub(crate) durability: Durability,
}
