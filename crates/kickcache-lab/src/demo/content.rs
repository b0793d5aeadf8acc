//! The data of the demo's devices: each block encodes its place, so that every read can be checked.

use kickcache_engine::units::BLOCK_BYTES;

const WORD: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    SlowDisk,
    FastFile,
}

impl Content {
    fn tag(self) -> u64 {
        match self {
            Content::SlowDisk => 0x510_0000_0000_0000,
            Content::FastFile => 0xFA5_0000_0000_0000,
        }
    }

    /// One word of a block, by splitmix64.
    fn word(self, block: u64, index: usize) -> u64 {
        let index = u64::try_from(index).expect("a block has few words");
        let mut z = (self.tag() + block * 512 + index).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Fills memory that starts with a block's first byte.
    pub(crate) fn fill(self, first_block: u64, into: &mut [u8]) {
        for (block, bytes) in (first_block..).zip(into.chunks_mut(BLOCK_BYTES)) {
            for (index, word) in bytes.chunks_mut(WORD).enumerate() {
                word.copy_from_slice(&self.word(block, index).to_le_bytes()[..word.len()]);
            }
        }
    }

    /// Whether the bytes are a whole block, and its first and last words match the block.
    pub(crate) fn fits(self, block: u64, bytes: &[u8]) -> bool {
        let word = |index: usize| bytes.get(index * WORD..(index + 1) * WORD);
        let last = BLOCK_BYTES / WORD - 1;
        bytes.len() == BLOCK_BYTES
            && [0, last].iter().all(|&index| word(index) == Some(&self.word(block, index).to_le_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_fits_its_place_and_no_other() {
        let mut bytes = vec![0; 2 * BLOCK_BYTES];
        Content::SlowDisk.fill(7, &mut bytes);
        assert!(Content::SlowDisk.fits(7, &bytes[..BLOCK_BYTES]));
        assert!(Content::SlowDisk.fits(8, &bytes[BLOCK_BYTES..]));
        assert!(!Content::SlowDisk.fits(8, &bytes[..BLOCK_BYTES]));
        assert!(!Content::FastFile.fits(7, &bytes[..BLOCK_BYTES]));
        assert!(!Content::SlowDisk.fits(7, &bytes[..100]));
    }
}
