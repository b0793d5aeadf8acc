//! The searches for cached blocks in progress.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use crate::ids::RequestSlot;
use crate::units::{BlockIndex, BlockKey, SegmentIndex, VolumeId};

#[derive(Debug)]
pub(super) struct BlockSearch {
    pub(super) id: RequestSlot,
    pub(super) blocks: Range<u64>,
    pub(super) next: u64,
}

/// A search over the segments that hold blocks of the volume.
#[derive(Debug)]
pub(super) struct SegmentSearch {
    pub(super) id: RequestSlot,
    pub(super) blocks: Range<u64>,
    /// Segments that the search has still to examine.
    pub(super) left: u32,
}

/// The searches for blocks of one volume; their extents do not overlap.
#[derive(Debug)]
pub(super) struct VolumeSearches {
    volume: VolumeId,
    pub(super) by_block: VecDeque<BlockSearch>,
    /// In the order of their extents.
    pub(super) by_segment: Vec<SegmentSearch>,
    /// The current segment, and the next block in it.
    pub(super) segment: u32,
    pub(super) offset: u32,
    /// No block of the volume was found in the current segment, from its first slot on, or placed meanwhile.
    pub(super) is_unused: bool,
    /// Blocks of the extents that were inserted or moved, and are still to be looked up.
    pub(super) late: Vec<BlockKey>,
    pub(super) ended: Vec<RequestSlot>,
}

#[derive(Debug, Default)]
pub(crate) struct Searches(Vec<VolumeSearches>);

impl VolumeSearches {
    fn new(volume: VolumeId) -> VolumeSearches {
        VolumeSearches {
            volume,
            by_block: VecDeque::new(),
            by_segment: Vec::new(),
            segment: 0,
            offset: 0,
            is_unused: false,
            late: Vec::new(),
            ended: Vec::new(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.by_block.is_empty() && self.by_segment.is_empty() && self.ended.is_empty()
    }

    pub(super) fn block_count(&self) -> u64 {
        let by_block = self.by_block.iter().map(|search| &search.blocks);
        let all = by_block.chain(self.by_segment.iter().map(|search| &search.blocks));
        all.map(|blocks| blocks.end - blocks.start).sum()
    }

    /// The search over segments for an extent with this block.
    pub(super) fn segment_search_for(&self, block: BlockIndex) -> Option<RequestSlot> {
        let after = self.by_segment.partition_point(|search| search.blocks.start <= block.get());
        let search = self.by_segment[..after].last()?;
        search.blocks.contains(&block.get()).then_some(search.id)
    }

    /// The search for an extent with this block.
    pub(super) fn search_for(&self, block: BlockIndex) -> Option<RequestSlot> {
        let found = self.by_block.iter().find(|search| search.blocks.contains(&block.get()));
        found.map(|search| search.id).or_else(|| self.segment_search_for(block))
    }

    /// Ends one of the searches.
    pub(super) fn end_any(&mut self) -> Option<RequestSlot> {
        let by_block = self.by_block.pop_front().map(|search| search.id);
        by_block.or_else(|| self.by_segment.pop().map(|search| search.id))
    }

    /// Advances to the next of `count` segments; returns the previous one if it is known to contain no block of the
    /// volume.
    pub(super) fn end_segment(&mut self, count: u32) -> Option<SegmentIndex> {
        let unused = self.is_unused.then_some(SegmentIndex::new(self.segment));
        self.segment = if self.segment + 1 < count { self.segment + 1 } else { 0 };
        (self.offset, self.is_unused) = (0, true);
        self.by_segment.iter_mut().for_each(|search| search.left -= 1);
        let ended = self.by_segment.extract_if(.., |search| search.left == 0);
        self.ended.extend(ended.map(|search| search.id));
        unused
    }
}

impl Searches {
    pub(super) fn of(&mut self, volume: VolumeId) -> Option<&mut VolumeSearches> {
        self.0.iter_mut().find(|found| found.volume == volume)
    }

    pub(super) fn begin(&mut self, volume: VolumeId) -> &mut VolumeSearches {
        let at = self.0.iter().position(|found| found.volume == volume).unwrap_or_else(|| {
            self.0.push(VolumeSearches::new(volume));
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    pub(super) fn end(&mut self, volume: VolumeId) {
        self.0.retain(|found| found.volume != volume);
    }

    /// The volume that is due; it becomes the last one.
    pub(crate) fn next_volume(&mut self) -> Option<VolumeId> {
        let volume = self.0.first()?.volume;
        self.0.rotate_left(1);
        Some(volume)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub(super) fn note_placed(&mut self, key: BlockKey) {
        if !self.is_empty() {
            self.note_late(key);
        }
    }

    #[cold]
    fn note_late(&mut self, key: BlockKey) {
        let Some(found) = self.of(key.volume()) else { return };
        found.is_unused = false;
        if found.search_for(key.block()).is_some() && !mutant!(MovedBlockNotFound) {
            found.late.push(key);
        }
    }

    pub(super) fn on_growth(&mut self, more: u32) {
        let searches = self.0.iter_mut().flat_map(|found| &mut found.by_segment);
        searches.for_each(|search| search.left += more);
    }
}
