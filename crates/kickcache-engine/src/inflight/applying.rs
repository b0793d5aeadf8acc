//! Blocks of a committed group between the redo journal and an origin.

use alloc::vec::Vec;

use crate::ids::Ticket;
use crate::units::{PageIndex, VolumeId};

/// A part of a chunk: the blocks of one volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ChunkPart {
    pub(crate) volume: VolumeId,
    pub(crate) chunk: usize,
    /// The first block of the part, counted from the start of the chunk.
    pub(crate) first: usize,
    pub(crate) pages: Vec<PageIndex>,
}

/// A write of adjacent blocks to an origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ApplyWrite {
    pub(crate) volume: VolumeId,
    pub(crate) ticket: Ticket,
    pub(crate) pages: Vec<PageIndex>,
}
