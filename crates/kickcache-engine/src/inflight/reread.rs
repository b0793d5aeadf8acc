//! Extents of the cache device that recovery could not read in one operation: each is read again, block by block.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::config::FAILED_READS_MAX;
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, ByteExtent, SegmentIndex};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Blocks of the journal.
    Journal,
    /// The batches of a segment.
    Segment(SegmentIndex),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Journal => write!(f, "a read of its journal"),
            Part::Segment(segment) => write!(f, "a read of segment {}", segment.get()),
        }
    }
}

/// An extent with the bytes that the cache device can read.
#[derive(Debug)]
pub(crate) struct Stretch {
    pub(crate) part: Part,
    pub(crate) extent: ByteExtent,
    /// Zeroes for unreadable blocks.
    pub(crate) bytes: Vec<u8>,
    pub(crate) unreadable: BTreeSet<u32>,
    next: u32,
    /// Blocks with a read in flight or due.
    left: u32,
}

impl Stretch {
    fn new(part: Part, extent: ByteExtent) -> Stretch {
        let blocks = u32::try_from(extent.length / BLOCK_SIZE).expect("a segment has at most 1024 blocks");
        let bytes = vec![0; blocks as usize * BLOCK_BYTES];
        Stretch { part, extent, bytes, unreadable: BTreeSet::new(), next: 0, left: blocks }
    }

    fn block(&self, number: u32) -> ByteExtent {
        ByteExtent { start: self.extent.start + u64::from(number) * BLOCK_SIZE, length: BLOCK_SIZE }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LoneBlock {
    /// The number of the block in the extent.
    pub(crate) number: u32,
    pub(crate) extent: ByteExtent,
}

#[derive(Debug, Default)]
pub(crate) struct Rereads {
    waiting: VecDeque<(Part, ByteExtent)>,
    current: Option<Stretch>,
    /// Failed reads of any length.
    failed: u32,
}

impl Rereads {
    /// Counts a failed read; `false` if there are too many.
    pub(crate) fn count_failed(&mut self) -> bool {
        self.failed += 1;
        self.failed <= FAILED_READS_MAX
    }

    pub(crate) fn add(&mut self, part: Part, extent: ByteExtent) {
        self.waiting.push_back((part, extent));
    }

    /// The next block to be read alone.
    pub(crate) fn next_block(&mut self) -> Option<LoneBlock> {
        if self.current.is_none() {
            let (part, extent) = self.waiting.pop_front()?;
            self.current = Some(Stretch::new(part, extent));
        }
        let stretch = self.current.as_mut()?;
        let number = stretch.next;
        let extent = stretch.block(number);
        (extent.start < stretch.extent.end()).then(|| {
            stretch.next += 1;
            LoneBlock { number, extent }
        })
    }

    pub(crate) fn part(&self) -> Option<Part> {
        self.current.as_ref().map(|stretch| stretch.part)
    }

    /// Returns the extent after its last block.
    pub(crate) fn end_block(&mut self, number: u32, bytes: Option<&[u8]>) -> Option<Stretch> {
        let stretch = self.current.as_mut().expect("blocks are read of a stretch");
        match bytes {
            Some(bytes) => {
                let at = number as usize * BLOCK_BYTES;
                stretch.bytes[at..at + BLOCK_BYTES].copy_from_slice(bytes);
            }
            None => _ = stretch.unreadable.insert(number),
        }
        stretch.left -= 1;
        if stretch.left == 0 { self.current.take() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_ends_with_its_last_block_and_zeroes() {
        let mut rereads = Rereads::default();
        rereads.add(Part::Journal, ByteExtent { start: 8192, length: 2 * BLOCK_SIZE });
        rereads.add(Part::Segment(SegmentIndex::new(3)), ByteExtent { start: 0, length: BLOCK_SIZE });
        let starts: Vec<_> =
            core::iter::from_fn(|| rereads.next_block()).map(|block| block.extent.start).collect();
        assert_eq!(
            (starts, rereads.part()),
            (vec![8192, 12288], Some(Part::Journal)),
            "one stretch at a time"
        );
        assert!(rereads.end_block(1, None).is_none());
        let stretch = rereads.end_block(0, Some(&[7; BLOCK_BYTES])).unwrap();
        assert_eq!(stretch.bytes, [[7; BLOCK_BYTES], [0; BLOCK_BYTES]].concat());
        assert_eq!(stretch.unreadable, BTreeSet::from([1]));
        assert_eq!(rereads.next_block().map(|block| block.extent.start), Some(0), "the next one begins");
    }

    #[test]
    fn too_many_failed_reads_are_more_than_a_bad_spot() {
        let mut rereads = Rereads::default();
        assert!((0..FAILED_READS_MAX).all(|_| rereads.count_failed()));
        assert!(!rereads.count_failed());
    }
}
