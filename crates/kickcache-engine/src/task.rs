//! The agenda: tasks of one path for another path, or for later.

use crate::ids::RequestSlot;
use crate::order::DurableWaiter;
use crate::units::{BlockKey, ByteExtent, PageIndex, VolumeId};

/// A task of one path for another path, or for later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// A request begins, or begins again after a wait.
    Begin(RequestSlot),
    /// A write's partial blocks are to be completed.
    Merge(RequestSlot),
    /// Writes that wait for space in the log may continue.
    Append,
    /// A part of a read must be read from the origin alone.
    ReadOrigin(RequestSlot, ByteExtent),
    /// A part of a read must be looked up again, in the cache or at the origin.
    ReadAgain(RequestSlot, ByteExtent),
    /// The rest of a partial block must be looked up again; the page is reserved for it.
    MergeAgain(RequestSlot, BlockKey, PageIndex),
    /// A request with its own stage has no pending operation.
    NothingPending(RequestSlot),
    /// The search of a request ended.
    Searched(RequestSlot),
    /// Write out the blocks that gather in the log; then notify the waiter when all these are durable.
    Barrier(DurableWaiter),
    /// The data that a waiter waited for is durable on the cache device.
    Durable(DurableWaiter),
    /// The data cannot be made durable: the flush failed, or the cache device is out of service.
    NotDurable(DurableWaiter),
    /// Segments may be needed, or a read from a segment that is being emptied has ended.
    Reclaim,
    /// A volume's writeback may go on.
    Writeback(VolumeId),
    /// A checkpoint may begin or go on.
    Checkpoint,
    /// The record that the cache device is out of service should be updated.
    Mark,
    /// The record exists: a request may bypass the cache device.
    PastCache(RequestSlot),
    /// The record cannot be made for now.
    NotPastCache(RequestSlot),
}
