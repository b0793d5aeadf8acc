//! The device configuration space of virtio-blk: 60 bytes, little-endian.

use virtio_bindings::bindings::virtio_blk::{
    VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_RO, VIRTIO_BLK_F_WRITE_ZEROES,
};

use super::features::{
    QUEUE_COUNT_MAX, RANGE_SECTORS_MAX, RANGES_MAX, SEGMENT_BYTES_MAX, SEGMENTS_MAX, offered,
};

pub(super) const CONFIG_BYTES: usize = 60;
/// The offset of the write cache field, the only field that a guest may write.
pub(super) const WRITE_CACHE_AT: usize = 32;

const PHYSICAL_BYTES: u32 = 4096;
const OPTIMAL_BYTES: u32 = 64 << 10;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disk {
    /// The reply to GET_ID: the serial number and zeroes behind it.
    pub serial: [u8; 20],
    /// Bytes, a multiple of 512.
    pub size: u64,
    pub read_only: bool,
    /// Bytes of a logical block: 512 or 4096.
    pub block_size: u32,
}

/// Whether a guest may have to flush after an acknowledged write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WriteCache {
    On,
    /// The guest switched the cache off: a write is durable when it ends.
    Off,
}

impl WriteCache {
    pub(super) const fn from_byte(byte: u8) -> WriteCache {
        if byte == 0 { WriteCache::Off } else { WriteCache::On }
    }

    const fn byte(self) -> u8 {
        match self {
            WriteCache::Off => 0,
            WriteCache::On => 1,
        }
    }
}

impl Disk {
    pub(super) fn features(&self) -> u64 {
        let own = if self.read_only {
            1 << VIRTIO_BLK_F_RO
        } else {
            1 << VIRTIO_BLK_F_DISCARD | 1 << VIRTIO_BLK_F_WRITE_ZEROES
        };
        offered() | own
    }

    pub(super) fn config_space(&self, write_cache: WriteCache) -> [u8; CONFIG_BYTES] {
        let mut space = [0; CONFIG_BYTES];
        let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
        let in_blocks = |bytes: u32| bytes / self.block_size;
        put(0, &(self.size / 512).to_le_bytes());
        put(8, &SEGMENT_BYTES_MAX.to_le_bytes());
        put(12, &SEGMENTS_MAX.to_le_bytes());
        put(20, &self.block_size.to_le_bytes());
        let exponent = in_blocks(PHYSICAL_BYTES).trailing_zeros().to_le_bytes()[0];
        put(24, &[exponent, 0]);
        put(26, &in_blocks(PHYSICAL_BYTES).to_le_bytes()[..2]);
        put(28, &in_blocks(OPTIMAL_BYTES).to_le_bytes());
        put(WRITE_CACHE_AT, &[write_cache.byte()]);
        put(34, &QUEUE_COUNT_MAX.to_le_bytes());
        put(36, &RANGE_SECTORS_MAX.to_le_bytes());
        put(40, &RANGES_MAX.to_le_bytes());
        put(44, &(PHYSICAL_BYTES / 512).to_le_bytes());
        put(48, &RANGE_SECTORS_MAX.to_le_bytes());
        put(52, &RANGES_MAX.to_le_bytes());
        put(56, &[1]);
        space
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(block_size: u32) -> Disk {
        Disk { serial: [0; 20], size: 1 << 30, read_only: false, block_size }
    }

    #[test]
    fn the_fields_have_the_offsets_of_the_specification() {
        let space = disk(512).config_space(WriteCache::On);
        let u32_at = |at: usize| u32::from_le_bytes(space[at..at + 4].try_into().unwrap());
        let u16_at = |at: usize| u16::from_le_bytes(space[at..at + 2].try_into().unwrap());
        assert_eq!(u64::from_le_bytes(space[..8].try_into().unwrap()), 1 << 21);
        assert_eq!((u32_at(8), u32_at(12), u32_at(20)), (256 << 10, 126, 512));
        assert_eq!((space[24], space[25], u16_at(26), u32_at(28)), (3, 0, 8, 128));
        assert_eq!((space[32], u16_at(34)), (1, 16));
        assert_eq!((u32_at(36), u32_at(40), u32_at(44)), (1 << 21, 16, 8));
        assert_eq!((u32_at(48), u32_at(52), space[56]), (1 << 21, 16, 1));
    }

    #[test]
    fn large_blocks_are_as_large_as_the_physical_ones() {
        let space = disk(4096).config_space(WriteCache::Off);
        assert_eq!((space[21], space[24], space[26], space[28], space[32]), (16, 0, 1, 16, 0));
    }
}
