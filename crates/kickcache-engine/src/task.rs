//! The agenda: work that is left for a path.

use crate::ids::RequestSlot;
use crate::order::DurableWaiter;
use crate::units::{BlockKey, ByteExtent, PageIndex, VolumeId};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// A request begins or continues.
    Begin(RequestSlot),
    /// A write's partial blocks are to be completed.
    Merge(RequestSlot),
    /// Writes that wait for space in the log may continue.
    Append,
    /// A part of a read must be read from the origin.
    ReadOrigin(RequestSlot, ByteExtent),
    /// A part of a read must be looked up again.
    ReadAgain(RequestSlot, ByteExtent),
    /// The rest of a partial block must be looked up again.
    MergeAgain(RequestSlot, BlockKey, PageIndex),
    /// A request has no pending operation.
    NothingPending(RequestSlot),
    /// The search of a request is over.
    Searched(RequestSlot),
    /// All batches and records so far are to be made durable for a waiter.
    Barrier(DurableWaiter),
    /// The data of a waiter is durable.
    Durable(DurableWaiter),
    /// The data of a waiter cannot be made durable.
    NotDurable(DurableWaiter),
    /// Reclaim may be needed, or may continue.
    Reclaim,
    /// A volume's writeback may go on.
    Writeback(VolumeId),
    /// A checkpoint may begin.
    Checkpoint,
    /// The record that the cache device is out of service may have to be made or updated.
    Mark,
    /// A request may bypass the cache device.
    PastCache(RequestSlot),
    /// A request must not bypass the cache device.
    NotPastCache(RequestSlot),
    /// The cut, or the oldest group of the redo journal, may continue.
    Redo,
}
