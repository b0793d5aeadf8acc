//! Blocks as extents.

use kickcache_engine::units::{BLOCK_SIZE, BlockIndex, ByteExtent};
use serde::{Deserialize, Serialize};

/// The most extents of a volume in a line of the daemon's log, or in the reason for a refusal.
pub const EXTENTS_LOGGED: usize = 64;

/// An extent of a volume, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Extent {
    pub start: u64,
    pub length: u64,
}

impl From<&ByteExtent> for Extent {
    fn from(extent: &ByteExtent) -> Extent {
        Extent { start: extent.start, length: extent.length }
    }
}

impl From<&Extent> for ByteExtent {
    fn from(extent: &Extent) -> ByteExtent {
        ByteExtent { start: extent.start, length: extent.length }
    }
}

/// Joins neighbouring blocks; `blocks` must be in ascending order.
pub(crate) fn extents(blocks: &[BlockIndex]) -> Vec<ByteExtent> {
    let mut extents: Vec<ByteExtent> = Vec::new();
    for block in blocks {
        let start = block.byte_offset();
        match extents.last_mut().filter(|last| last.end() == start) {
            Some(last) => last.length += BLOCK_SIZE,
            None => extents.push(ByteExtent { start, length: BLOCK_SIZE }),
        }
    }
    extents
}

/// The first extents, at most `most`, as byte offset + length.
pub fn show_extents(extents: &[ByteExtent], most: usize) -> String {
    let shown = extents.iter().take(most).map(|extent| format!("{} + {}", extent.start, extent.length));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match extents.len().saturating_sub(most) {
        0 => format!("byte offset + length: {shown}"),
        more => format!("byte offset + length: {shown}, and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_extent_and_the_rest_is_counted() {
        let blocks = [1, 2, 3, 5, 9].map(BlockIndex::new);
        let extents = extents(&blocks);
        assert_eq!(
            show_extents(&extents, 3),
            "byte offset + length: 4096 + 12288, 20480 + 4096, 36864 + 4096"
        );
        assert_eq!(show_extents(&extents, 1), "byte offset + length: 4096 + 12288, and 2 more");
        assert_eq!(extents.len(), 3);
    }
}
