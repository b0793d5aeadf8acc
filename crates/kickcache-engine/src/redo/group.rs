//! A committed group, and its progress to the origins.

use alloc::vec::Vec;

use crate::format::redo::RedoBlock;
use crate::redo::recovery::FoundGroup;
use crate::units::{BlockKey, VolumeId};

/// The blocks of a chunk, ascending.
pub(crate) type ChunkBlocks = Vec<RedoBlock>;

/// A committed group.
#[derive(Debug)]
pub(crate) struct RedoGroup {
    pub(crate) number: u64,
    /// The instant of the cut, in nanoseconds since 1970.
    pub(crate) instant: u64,
    /// Position of the first chunk, and the position after the commit.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Ascending.
    pub(crate) chunks: Vec<ChunkBlocks>,
}

impl RedoGroup {
    /// A group that an earlier process committed.
    pub(crate) fn found(found: FoundGroup) -> RedoGroup {
        let FoundGroup { number, instant, start, chunks } = found;
        let end = start + chunks.len() as u64 + 1;
        RedoGroup { number, instant, start, end, chunks }
    }

    /// Whether the group has a block.
    pub(crate) fn has(&self, key: BlockKey) -> bool {
        has_block(&self.chunks, key)
    }

    /// The volumes with blocks in the group, ascending.
    fn volumes(&self) -> Vec<VolumeId> {
        let mut volumes: Vec<VolumeId> =
            self.chunks.iter().flatten().map(|block| block.key.volume()).collect();
        volumes.dedup();
        volumes
    }
}

/// Whether one of the chunks, which are ascending, has a block.
pub(crate) fn has_block(chunks: &[ChunkBlocks], key: BlockKey) -> bool {
    let after = chunks.partition_point(|blocks| blocks[0].key <= key);
    let blocks = after.checked_sub(1).map(|at| &chunks[at]);
    blocks.is_some_and(|blocks| blocks.binary_search_by_key(&key, |block| block.key).is_ok())
}

/// The flush of an origin after the writes of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OriginFlushed {
    No,
    InFlight,
    Yes,
}

/// The progress of a group at one origin.
#[derive(Debug)]
pub(crate) struct VolumeApply {
    pub(crate) volume: VolumeId,
    /// The next chunk to read.
    pub(crate) next: usize,
    /// Reads of the journal, and writes and flushes of the origin, in flight or queued.
    pub(crate) in_flight: u32,
    /// An operation failed, or the origin may have lost writes: all chunks are applied again.
    pub(crate) must_restart: bool,
    pub(crate) flushed: OriginFlushed,
}

/// The progress of the oldest group.
#[derive(Debug)]
pub(crate) struct Applying {
    pub(crate) volumes: Vec<VolumeApply>,
    /// The chunks whose blocks are clean.
    pub(crate) released: usize,
    /// The new tail is being written.
    pub(crate) is_ending: bool,
}

impl Applying {
    pub(crate) fn new(group: &RedoGroup) -> Applying {
        let apply = |volume| VolumeApply {
            volume,
            next: 0,
            in_flight: 0,
            must_restart: false,
            flushed: OriginFlushed::No,
        };
        Applying { volumes: group.volumes().into_iter().map(apply).collect(), released: 0, is_ending: false }
    }

    /// Whether all origins have the data of the group, durably.
    pub(crate) fn is_durable(&self) -> bool {
        let is_flushed = |apply: &VolumeApply| apply.flushed == OriginFlushed::Yes;
        self.volumes.iter().all(is_flushed)
            || mutant!(ReleaseAfterOneFlush)
                && self.volumes.iter().any(is_flushed)
                && self.volumes.iter().all(|apply| apply.in_flight == 0)
    }

    pub(crate) fn of(&mut self, volume: VolumeId) -> Option<&mut VolumeApply> {
        self.volumes.iter_mut().find(|apply| apply.volume == volume)
    }
}
