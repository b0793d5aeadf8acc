//! Newtypes for addresses, ids and checksums; extents, and sets of volumes.

/// Bytes in a sector, the unit of offsets and lengths on an origin.
pub const SECTOR_SIZE: u64 = 512;
/// Bytes in a block, the unit of caching.
pub const BLOCK_SIZE: u64 = 4096;
/// [`BLOCK_SIZE`] as `usize`.
pub const BLOCK_BYTES: usize = 4096;
/// [`BLOCK_SIZE`] as `u32`.
pub const BLOCK_LENGTH: u32 = 4096;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name($inner);

        impl $name {
            /// Wraps a raw number.
            pub const fn new(raw: $inner) -> $name {
                $name(raw)
            }

            /// The raw number.
            pub const fn get(self) -> $inner {
                self.0
            }
        }
    };
}

number! {
    /// A 4 KiB block of a volume, counted from the volume's start.
    BlockIndex(u64)
}
number! {
    /// A volume of a cache device.
    VolumeId(u8)
}
number! {
    /// A segment of the cache device.
    SegmentIndex(u32)
}
number! {
    /// A 4 KiB place in the segment area of the cache device, counted from the first segment.
    Location(u32)
}
number! {
    /// The global order of batches and journal records; 0 is "none yet".
    Sequence(u64)
}
number! {
    /// The generation of a segment: one more with each opening.
    Generation(u32)
}
number! {
    /// CRC32C (Castagnoli) of one 4 KiB block, or of a structure of the format.
    Checksum(u32)
}
number! {
    /// A 4 KiB page of the engine's memory.
    PageIndex(u32)
}

impl BlockIndex {
    /// Its offset on its volume, in bytes.
    pub const fn byte_offset(self) -> u64 {
        self.0 * BLOCK_SIZE
    }

    /// The block that contains a byte.
    pub const fn containing(byte_offset: u64) -> BlockIndex {
        BlockIndex(byte_offset / BLOCK_SIZE)
    }

    /// The block `count` after this one.
    pub const fn plus(self, count: u64) -> BlockIndex {
        BlockIndex(self.0 + count)
    }
}

impl Location {
    /// The place `count` after this one.
    pub const fn plus(self, count: u32) -> Location {
        Location(self.0 + count)
    }
}

impl PageIndex {
    /// Its offset in the pool, in bytes.
    pub const fn byte_offset(self) -> u64 {
        self.0 as u64 * BLOCK_SIZE
    }
}

impl Sequence {
    /// The next sequence number.
    pub const fn next(self) -> Sequence {
        Sequence(self.0 + 1)
    }
}

/// Sequence numbers, numbers of journal blocks, and the superblock's epoch and count of starts stay below this: a
/// structure with another number is not valid.
pub const SEQUENCE_LIMIT: u64 = 1 << 62;

/// Block numbers stay below this: 2^40 blocks, 4 PiB.
pub const BLOCK_INDEX_LIMIT: u64 = 1 << 40;

/// A volume and a block in one 48-bit number: the volume in the upper 8 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockKey(u64);

impl BlockKey {
    /// Joins volume and block.
    ///
    /// # Panics
    /// If the block number is not below [`BLOCK_INDEX_LIMIT`].
    pub const fn new(volume: VolumeId, block: BlockIndex) -> BlockKey {
        assert!(block.0 < BLOCK_INDEX_LIMIT);
        BlockKey(((volume.0 as u64) << 40) | block.0)
    }

    /// The key from its 48-bit number; higher bits are dropped.
    pub const fn from_bits(bits: u64) -> BlockKey {
        BlockKey(bits & ((1 << 48) - 1))
    }

    /// The 48-bit number.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The finisher of MurmurHash3 (64 bits), after an addition.
    pub(crate) const fn hash(self) -> u64 {
        let mut bits = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        bits = (bits ^ (bits >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        bits ^ (bits >> 33)
    }

    /// The volume.
    pub const fn volume(self) -> VolumeId {
        #[expect(clippy::cast_possible_truncation, reason = "8 bits are left of 48")]
        VolumeId((self.0 >> 40) as u8)
    }

    /// The block of the volume.
    pub const fn block(self) -> BlockIndex {
        BlockIndex(self.0 & (BLOCK_INDEX_LIMIT - 1))
    }
}

/// A set of volumes of one cache device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct VolumeSet(u16);

impl VolumeSet {
    /// All possible volumes.
    pub const ALL: VolumeSet = VolumeSet(u16::MAX);

    /// The set from its 16 bits, the lowest for the volume 0.
    pub const fn from_bits(bits: u16) -> VolumeSet {
        VolumeSet(bits)
    }

    /// One bit a volume.
    pub const fn bits(self) -> u16 {
        self.0
    }

    const fn bit(volume: VolumeId) -> u16 {
        1 << (volume.0 % 16)
    }

    /// Whether the set contains a volume.
    pub const fn contains(self, volume: VolumeId) -> bool {
        self.0 & VolumeSet::bit(volume) != 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds a volume.
    pub fn insert(&mut self, volume: VolumeId) {
        self.0 |= VolumeSet::bit(volume);
    }

    /// Removes a volume.
    pub fn remove(&mut self, volume: VolumeId) {
        self.0 &= !VolumeSet::bit(volume);
    }

    /// The volumes in both sets.
    #[must_use]
    pub const fn intersection(self, other: VolumeSet) -> VolumeSet {
        VolumeSet(self.0 & other.0)
    }

    /// The volumes, ascending.
    pub fn iter(self) -> impl Iterator<Item = VolumeId> + use<> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let rest = left & left.checked_sub(1)?;
            #[expect(clippy::cast_possible_truncation, reason = "one of 16 bits is set")]
            let volume = VolumeId(left.trailing_zeros() as u8);
            left = rest;
            Some(volume)
        })
    }
}

impl FromIterator<VolumeId> for VolumeSet {
    fn from_iter<T: IntoIterator<Item = VolumeId>>(volumes: T) -> VolumeSet {
        let mut set = VolumeSet::default();
        volumes.into_iter().for_each(|volume| set.insert(volume));
        set
    }
}

/// A start and a length in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ByteExtent {
    /// First byte.
    pub start: u64,
    /// Number of bytes.
    pub length: u64,
}

impl ByteExtent {
    /// The first byte after the extent.
    ///
    /// # Panics
    /// On overflow in debug builds.
    pub const fn end(self) -> u64 {
        self.start + self.length
    }

    /// Whether two extents that are not empty have a byte in common.
    pub const fn overlaps(self, other: ByteExtent) -> bool {
        self.start < other.end() && other.start < self.end()
    }

    /// Whether `other` is within this extent.
    pub const fn contains(self, other: ByteExtent) -> bool {
        self.start <= other.start && other.end() <= self.end()
    }

    /// The smallest extent of whole blocks around this one.
    pub const fn widened_to_blocks(self) -> ByteExtent {
        let start = self.start / BLOCK_SIZE * BLOCK_SIZE;
        let end = self.end().div_ceil(BLOCK_SIZE) * BLOCK_SIZE;
        ByteExtent { start, length: end - start }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_keeps_volume_and_block_apart() {
        let key = BlockKey::new(VolumeId::new(255), BlockIndex::new(BLOCK_INDEX_LIMIT - 1));
        assert_eq!(key.volume().get(), 255);
        assert_eq!(key.block().get(), BLOCK_INDEX_LIMIT - 1);
        assert_eq!(BlockKey::from_bits(key.bits()), key);
    }

    #[test]
    fn widening_rounds_outwards() {
        let extent = ByteExtent { start: 4095, length: 2 };
        assert_eq!(extent.widened_to_blocks(), ByteExtent { start: 0, length: 8192 });
    }
}
