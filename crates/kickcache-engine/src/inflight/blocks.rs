//! The blocks of an extent.

use crate::units::{BLOCK_SIZE, BlockIndex, ByteExtent};

/// The blocks that an extent touches.
pub(crate) fn blocks_of(
    extent: ByteExtent,
) -> impl DoubleEndedIterator<Item = BlockIndex> + ExactSizeIterator + Clone {
    let first = extent.start / BLOCK_SIZE;
    let count = extent.end().div_ceil(BLOCK_SIZE) - first;
    (0..usize::try_from(count).expect("fits the address space"))
        .map(move |offset| BlockIndex::new(first + offset as u64))
}

pub(crate) const fn block_extent(block: BlockIndex) -> ByteExtent {
    ByteExtent { start: block.byte_offset(), length: BLOCK_SIZE }
}

/// The intersection of two extents; its length is 0 if they have no byte in common.
pub(crate) fn intersection(one: ByteExtent, other: ByteExtent) -> ByteExtent {
    let start = one.start.max(other.start);
    let end = one.end().min(other.end());
    ByteExtent { start, length: end.saturating_sub(start) }
}
