//! A cache device that grows: the progress of its superblock.

use kickcache_engine::format::superblock::Superblock;

use crate::device::{FlushTicket, WriteTicket};

#[derive(Debug)]
pub(crate) struct Growing {
    pub(crate) superblock: Superblock,
    pub(crate) step: Step,
    /// Where the copies of the superblock are still to be written, the next one last.
    pub(crate) left: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Preparing,
    Writing(WriteTicket),
    Flushing(FlushTicket),
}
