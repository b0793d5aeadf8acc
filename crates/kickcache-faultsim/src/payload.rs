//! Stretches of bytes, kept block by block.

use kickcache_engine::units::{BLOCK_BYTES, BLOCK_SIZE, ByteExtent, Checksum, VolumeId};

use crate::content::{Block, Version};
use crate::index::index;

/// Copies bytes between runs of blocks, from a byte of one to a byte of the other.
pub fn copy(from: (&[Block], usize), to: (&mut [Block], usize), mut length: usize) {
    let ((source, mut from), (target, mut to)) = (from, to);
    while length > 0 {
        let (skip, into) = (from % BLOCK_BYTES, to % BLOCK_BYTES);
        let part = length.min(BLOCK_BYTES - skip.max(into));
        let (block, slot) = (&source[from / BLOCK_BYTES], &mut target[to / BLOCK_BYTES]);
        if part == BLOCK_BYTES {
            slot.clone_from(block);
        } else {
            slot.overlay(into, block, skip, part);
        }
        (from, to, length) = (from + part, to + part, length - part);
    }
}

/// Bytes that begin somewhere in their first block.
#[derive(Clone, Debug)]
pub struct Payload {
    /// Where the bytes begin in the first block.
    pub skip: usize,
    pub length: usize,
    /// The blocks of the bytes; the content outside of the bytes has no meaning.
    pub blocks: Vec<Block>,
}

impl Payload {
    /// The bytes of `extent` on a device or volume, in blocks that `make` returns by number.
    pub fn new(extent: ByteExtent, make: impl FnMut(u64) -> Block) -> Payload {
        let first = extent.start / BLOCK_SIZE;
        let blocks = (first..extent.end().div_ceil(BLOCK_SIZE)).map(make).collect();
        Payload { skip: index(extent.start % BLOCK_SIZE), length: index(extent.length), blocks }
    }

    pub fn stamped(volume: VolumeId, extent: ByteExtent, version: Version) -> Payload {
        Payload::new(extent, |block| Block::stamp(volume, block, version))
    }

    pub fn empty() -> Payload {
        Payload { skip: 0, length: 0, blocks: Vec::new() }
    }

    /// The checksums of the blocks that the bytes cover completely.
    pub fn checksums(&self) -> Vec<Checksum> {
        let first = self.skip.div_ceil(BLOCK_BYTES);
        let end = (self.skip + self.length) / BLOCK_BYTES;
        self.blocks.get(first..end).unwrap_or_default().iter().map(Block::checksum).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_keep_bytes_wherever_they_begin() {
        let volume = VolumeId::new(1);
        let from: Vec<Block> = (0..4).map(|block| Block::stamp(volume, block, 9)).collect();
        let bytes: Vec<u8> = from.iter().flat_map(Block::to_bytes).collect();
        for (start, into, length) in [(0, 0, 8192), (512, 4608, 5000), (100, 7, 9000), (4096, 1, 1)] {
            let mut to = vec![Block::Zeroes; 4];
            copy((&from, start), (&mut to, into), length);
            let found: Vec<u8> = to.iter().flat_map(Block::to_bytes).collect();
            assert_eq!(found[into..into + length], bytes[start..start + length]);
            assert!(found[..into].iter().chain(&found[into + length..]).all(|byte| *byte == 0));
        }
    }

    #[test]
    fn only_whole_blocks_have_checksums() {
        let count = |start, length| {
            Payload::stamped(VolumeId::new(0), ByteExtent { start, length }, 1).checksums().len()
        };
        assert_eq!([count(0, 8192), count(512, 8192), count(512, 100), count(4096, 4095)], [2, 1, 0, 0]);
    }
}
