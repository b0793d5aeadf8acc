//! The smallest block that a device reads, writes and zeroes as a whole.

use kickcache_engine::units::{ByteExtent, SECTOR_SIZE};

/// The length in bytes of a device's smallest block: a power of two, at least 512.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct MinimumBlock(u64);

/// An extent by the blocks of a device: a part of its first block, whole blocks, and a part of its last
/// block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockParts {
    pub(crate) head: ByteExtent,
    pub(crate) middle: ByteExtent,
    pub(crate) tail: ByteExtent,
}

impl MinimumBlock {
    /// A sector, the unit of the engine's requests.
    pub(crate) const SECTOR: MinimumBlock = MinimumBlock(SECTOR_SIZE);

    /// A block of this many bytes, or of a sector if that is more; `None` if `bytes` is above a sector and no power of two.
    pub(crate) const fn new(bytes: u64) -> Option<MinimumBlock> {
        match bytes {
            0..=SECTOR_SIZE => Some(MinimumBlock::SECTOR),
            _ if bytes.is_power_of_two() => Some(MinimumBlock(bytes)),
            _ => None,
        }
    }

    pub(crate) const fn bytes(self) -> u64 {
        self.0
    }

    /// The smallest extent of whole blocks that contains `extent`.
    pub(crate) const fn widened(self, extent: ByteExtent) -> ByteExtent {
        let start = extent.start / self.0 * self.0;
        ByteExtent { start, length: extent.end().next_multiple_of(self.0) - start }
    }

    pub(crate) const fn is_aligned(self, extent: ByteExtent) -> bool {
        extent.start.is_multiple_of(self.0) && extent.length.is_multiple_of(self.0)
    }

    pub(crate) fn parts(self, extent: ByteExtent) -> BlockParts {
        let (start, end) = (extent.start, extent.end());
        let first = start.next_multiple_of(self.0).min(end);
        let last = (end / self.0 * self.0).max(first);
        let between = |start, end| ByteExtent { start, length: end - start };
        BlockParts { head: between(start, first), middle: between(first, last), tail: between(last, end) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: MinimumBlock = MinimumBlock::new(4096).unwrap();

    #[test]
    fn an_extent_has_a_head_whole_blocks_and_a_tail() {
        for (extent, parts) in [
            ([0, 8192], [[0, 0], [0, 8192], [8192, 0]]),
            ([512, 512], [[512, 512], [1024, 0], [1024, 0]]),
            ([3584, 1024], [[3584, 512], [4096, 0], [4096, 512]]),
            ([512, 12288], [[512, 3584], [4096, 8192], [12288, 512]]),
            ([4096, 4608], [[4096, 0], [4096, 4096], [8192, 512]]),
            ([4608, 3584], [[4608, 3584], [8192, 0], [8192, 0]]),
        ] {
            let [start, length] = extent;
            let BlockParts { head, middle, tail } = BLOCK.parts(ByteExtent { start, length });
            assert_eq!([head, middle, tail].map(|part| [part.start, part.length]), parts, "{extent:?}");
        }
    }

    #[test]
    fn blocks_are_powers_of_two_of_a_sector_or_more() {
        assert_eq!([0, 1, 512].map(MinimumBlock::new), [Some(MinimumBlock::SECTOR); 3]);
        assert_eq!([513, 3072, 4097].map(MinimumBlock::new), [None; 3]);
        assert_eq!(MinimumBlock::new(65536).map(MinimumBlock::bytes), Some(65536));
    }

    #[test]
    fn widened_extents_have_whole_blocks() {
        let extent = ByteExtent { start: 3584, length: 1024 };
        assert_eq!(BLOCK.widened(extent), ByteExtent { start: 0, length: 8192 });
        assert!(BLOCK.is_aligned(BLOCK.widened(extent)) && !BLOCK.is_aligned(extent));
    }
}
