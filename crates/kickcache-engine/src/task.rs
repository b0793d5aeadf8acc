//! The agenda: what one path leaves for another, or for later.

use crate::ids::RequestSlot;
use crate::order::DurableWaiter;
use crate::units::{BlockKey, ByteExtent, PageIndex, VolumeId};

/// Something that one path leaves for another, or for later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// A request begins, or begins again after a wait.
    Begin(RequestSlot),
    /// A write's partial blocks are to be completed.
    Merge(RequestSlot),
    /// Writes that wait for room in the log may go on.
    Append,
    /// A part of a read must be read from the origin alone.
    ReadOrigin(RequestSlot, ByteExtent),
    /// A part of a read is to be looked for once more, in the cache or at the origin.
    ReadAgain(RequestSlot, ByteExtent),
    /// The same for the rest of a partial block, which a page waits for.
    MergeAgain(RequestSlot, BlockKey, PageIndex),
    /// Nothing is pending for a request with a stage of its own.
    NothingPending(RequestSlot),
    /// The search of a request ended.
    Searched(RequestSlot),
    /// Write out what gathers in the log; then call the waiter when all of it is durable.
    Barrier(DurableWaiter),
    /// What a waiter waited for is durable on the cache device.
    Durable(DurableWaiter),
    /// It will never be: the flush failed.
    NotDurable(DurableWaiter),
    /// Segments may be needed, or a reader left one that is being emptied.
    Reclaim,
    /// A volume's writeback may go on.
    Writeback(VolumeId),
    /// A checkpoint may begin or go on.
    Checkpoint,
    /// The record that the cache device is out of service should be looked at.
    Mark,
    /// It is on record: a request may go past the cache device.
    PastCache(RequestSlot),
    /// It cannot be put on record for now.
    NotPastCache(RequestSlot),
}
