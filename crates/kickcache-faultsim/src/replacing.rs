//! The replacement of a cache device by a successor: its progress.

use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::mirror::side::Side;
use kickcache_engine::units::ByteExtent;

use crate::device::{FlushTicket, WriteTicket};
use crate::payload::Payload;

/// A replacement in progress.
#[derive(Debug)]
pub(crate) struct Replacing {
    pub(crate) step: Step,
    /// The superblocks that are still to be written, the next one last.
    pub(crate) left: Vec<Copy>,
}

/// A copy of a superblock that is being written.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) on: Side,
    pub(crate) offset: u64,
    pub(crate) superblock: Superblock,
}

/// The progress of the replacement.
#[derive(Debug)]
pub(crate) enum Step {
    /// The next part is to be copied, once it may.
    Copying,
    /// A part was read, and is to be written.
    Read(ByteExtent, Payload),
    /// The part is being written to the new device.
    Written(WriteTicket),
    /// The new device is being flushed after the last part.
    Flushing(FlushTicket),
    /// A copy of a superblock is being written.
    Noting(Side, WriteTicket),
    /// The device of the copy is being flushed.
    Noted(Side, FlushTicket),
    /// Wait until no submission to either device is in flight.
    Parting,
    /// The successor is abandoned; wait until no submission to it is in flight.
    GivenUp,
}
