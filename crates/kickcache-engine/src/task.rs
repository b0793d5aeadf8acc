//! The agenda: work that is left for a path, and begins after the present step.

use crate::ids::RequestSlot;
use crate::order::DurableWaiter;
use crate::units::{BlockKey, ByteExtent, PageIndex, VolumeId};

/// Work that is left for a path, and begins after the present step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// A request begins, begins again after a wait, or begins its next part.
    Begin(RequestSlot),
    /// A write's partial blocks are to be completed.
    Merge(RequestSlot),
    /// Writes that wait for space in the log may continue.
    Append,
    /// A part of a read must be read from the origin, without the rest of a fill that failed.
    ReadOrigin(RequestSlot, ByteExtent),
    /// A part of a read must be looked up again, in the cache or at the origin.
    ReadAgain(RequestSlot, ByteExtent),
    /// The rest of a partial block must be looked up again; the page is reserved for it.
    MergeAgain(RequestSlot, BlockKey, PageIndex),
    /// A write, write-zeroes, discard or promote has no pending operation.
    NothingPending(RequestSlot),
    /// The search of a request ended, or was not necessary.
    Searched(RequestSlot),
    /// Write out the blocks that gather in the log, and notify the waiter when all batches and records so far are
    /// durable, or cannot become durable.
    Barrier(DurableWaiter),
    /// The data that a waiter waited for is durable on the cache device.
    Durable(DurableWaiter),
    /// The data cannot be made durable: the flush failed, or the cache device is out of service.
    NotDurable(DurableWaiter),
    /// Segments may be needed, or reclaim may be able to continue.
    Reclaim,
    /// A volume's writeback may go on.
    Writeback(VolumeId),
    /// A checkpoint may begin, if one is due and none is in progress.
    Checkpoint,
    /// The record that the cache device is out of service may have to be made or updated.
    Mark,
    /// The record that the cache device is out of service exists: a request may bypass the device.
    PastCache(RequestSlot),
    /// The record that the cache device is out of service cannot be made for now: a request must not bypass the device.
    NotPastCache(RequestSlot),
    /// The cut, or the oldest group of the redo journal, may continue.
    Redo,
}
