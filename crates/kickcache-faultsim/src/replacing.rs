//! A cache device that another one takes over from: how far that is.

use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::mirror::side::Side;
use kickcache_engine::units::ByteExtent;

use crate::device::{FlushTicket, WriteTicket};
use crate::payload::Payload;

/// A replacement under way.
#[derive(Debug)]
pub(crate) struct Replacing {
    pub(crate) step: Step,
    /// What is still to be written of superblocks, the next one last.
    pub(crate) left: Vec<Copy>,
}

/// A copy of a superblock on its way.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) on: Side,
    pub(crate) offset: u64,
    pub(crate) superblock: Superblock,
}

/// How far it is.
#[derive(Debug)]
pub(crate) enum Step {
    /// The next part is to be copied, once it may.
    Copying,
    /// A part was read, and is to be written.
    Read(ByteExtent, Payload),
    /// It is being written.
    Written(WriteTicket),
    /// The new device is flushed.
    Flushing(FlushTicket),
    /// A copy of a superblock is being written.
    Noting(Side, WriteTicket),
    /// It is flushed.
    Noted(Side, FlushTicket),
    /// Until nothing is in flight.
    Parting,
    /// The new device is let go of, once nothing is in flight there.
    GivenUp,
}
