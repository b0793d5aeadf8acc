//! The search for the members of a cut: which segments it has still to examine.

use alloc::vec;
use alloc::vec::Vec;

use crate::units::{BlockKey, Location, SegmentIndex, VolumeSet};

/// The end of a segment that is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentEnd {
    pub(crate) segment: SegmentIndex,
    /// Blocks of the segment that batches have taken.
    pub(crate) end: u32,
}

/// A copy that belongs to a cut. Its segment is pinned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct CutMember {
    pub(crate) key: BlockKey,
    pub(crate) location: Location,
}

/// A cut whose segments are being examined.
#[derive(Debug)]
pub(super) struct CutSearch {
    pub(super) volumes: VolumeSet,
    /// One bit for each segment of the instant that was not examined, and that was not opened since.
    unexamined: Vec<u64>,
    /// All segments before this one were examined.
    next: u32,
    /// The segments that were open at the instant.
    pub(super) open: Vec<SegmentEnd>,
    /// Members that died before their segment was examined.
    pub(super) died: Vec<CutMember>,
}

impl CutSearch {
    pub(super) fn new(segment_count: u32, volumes: VolumeSet, open: Vec<SegmentEnd>) -> CutSearch {
        let mut unexamined = vec![u64::MAX; segment_count.div_ceil(64) as usize];
        if let Some(last) = unexamined.last_mut() {
            *last >>= unexamined_rest(segment_count);
        }
        CutSearch { volumes, unexamined, next: 0, open, died: Vec::new() }
    }

    pub(super) fn holds(&self, segment: SegmentIndex) -> bool {
        let word = self.unexamined.get(segment.get() as usize / 64).copied().unwrap_or(0);
        word >> (segment.get() % 64) & 1 == 1
    }

    /// The segment was examined, or is opened: new blocks in it do not belong to the cut.
    pub(super) fn leave_out(&mut self, segment: SegmentIndex) {
        if let Some(word) = self.unexamined.get_mut(segment.get() as usize / 64) {
            *word &= !(1 << (segment.get() % 64));
        }
    }

    /// Blocks of a segment that had a location at the instant, counted from its start.
    pub(super) fn end_of(&self, segment: SegmentIndex) -> u32 {
        let open = self.open.iter().find(|open| open.segment == segment && !mutant!(CutHasLater));
        open.map_or(u32::MAX, |open| open.end)
    }

    /// The next segment to examine.
    pub(super) fn next_segment(&mut self) -> Option<SegmentIndex> {
        let mut word = self.next as usize / 64;
        let mut bits = self.unexamined.get(word)? & (u64::MAX << (self.next % 64));
        while bits == 0 {
            word += 1;
            bits = *self.unexamined.get(word)?;
        }
        let segment = u32::try_from(word * 64).expect("segments have 32 bits") + bits.trailing_zeros();
        self.next = segment;
        Some(SegmentIndex::new(segment))
    }
}

/// Bits of the last word that belong to no segment.
const fn unexamined_rest(segment_count: u32) -> u32 {
    (64 - segment_count % 64) % 64
}
