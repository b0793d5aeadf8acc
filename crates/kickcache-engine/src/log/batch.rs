//! Batches in memory: blocks that are written together, and who waits for them.

use alloc::vec::Vec;

use crate::device::Memory;
use crate::ids::RequestSlot;
use crate::queue::Queue;
use crate::request::Durability;
use crate::task::Task;
use crate::time::Instant;
use crate::units::{BlockKey, Checksum, Location, PageIndex, SegmentIndex, Sequence};

/// A block of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// `None` once it died.
    pub(crate) key: Option<BlockKey>,
    pub(crate) memory: Memory,
    pub(crate) checksum: Checksum,
    pub(crate) dirty: bool,
    /// A page that is given back when the batch landed.
    pub(crate) page: Option<PageIndex>,
    /// The superseded copy, which must stay until this one landed: its segment is pinned, as by a read.
    pub(crate) older: Option<Location>,
}

/// Blocks that are written together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Batch {
    pub(crate) queue: Queue,
    pub(crate) segment: SegmentIndex,
    /// Block of the segment where the header stands.
    pub(crate) start: u32,
    pub(crate) entries: Vec<Entry>,
    pub(crate) waiters: Vec<RequestSlot>,
    /// Reads of blocks that clients write, which nobody may see before: they go on when it landed, or failed.
    pub(crate) reads: Vec<Task>,
    pub(crate) durability: Durability,
    pub(super) begun: Instant,
    /// Given when the batch is submitted.
    pub(crate) sequence: Option<Sequence>,
}

impl Batch {
    /// Takes over what a new entry asks of its batch; whether a waiter was added.
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

/// What a caller wants to append.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Append {
    pub(crate) queue: Queue,
    pub(crate) entry: Entry,
    pub(crate) waiter: Option<RequestSlot>,
    pub(crate) durability: Durability,
}
