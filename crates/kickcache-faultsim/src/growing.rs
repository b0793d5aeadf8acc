//! A cache device that grows: the progress of its superblock.

use kickcache_engine::format::superblock::Superblock;

use crate::device::{FlushTicket, WriteTicket};

/// A cache device that grows.
#[derive(Debug)]
pub(crate) struct Growing {
    pub(crate) superblock: Superblock,
    pub(crate) step: Step,
    /// Where the copies of the superblock are still to be written, the next one last.
    pub(crate) left: Vec<u64>,
}

/// The progress of the superblock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The engine prepares.
    Preparing,
    /// A copy is being written.
    Writing(WriteTicket),
    /// The device is being flushed after the write of a copy.
    Flushing(FlushTicket),
}
