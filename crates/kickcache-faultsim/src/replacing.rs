//! The replacement of a cache device by a successor: its progress.

use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::mirror::side::Side;
use kickcache_engine::units::ByteExtent;

use crate::device::{FlushTicket, WriteTicket};
use crate::payload::Payload;

#[derive(Debug)]
pub(crate) struct Replacing {
    pub(crate) step: Step,
    /// The superblocks that are still to be written, the next one last.
    pub(crate) left: Vec<Copy>,
}

#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) on: Side,
    pub(crate) offset: u64,
    pub(crate) superblock: Superblock,
}

#[derive(Debug)]
pub(crate) enum Step {
    /// The next part is to be copied, once it may.
    Copying,
    /// A part was read, and is to be written.
    Read(ByteExtent, Payload),
    Written(WriteTicket),
    Flushing(FlushTicket),
    Noting(Side, WriteTicket),
    Noted(Side, FlushTicket),
    /// Wait until no submission to either device is in flight.
    Parting,
    /// The successor is abandoned; wait until no submission to it is in flight.
    GivenUp,
}
