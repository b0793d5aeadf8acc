//! The content of a block: a symbol (zeroes, noise, or a whole block of one version), or its bytes.
//!
//! A symbol represents exact bytes, and its checksum is the CRC32C of those bytes: the engine cannot distinguish a
//! symbol from its bytes. Every 32 bytes of data that clients write contain the version of their write and their place;
//! written zeroes contain neither.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::LazyLock;

use crc_fast::CrcAlgorithm;
use kickcache_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Checksum, VolumeId};

use crate::index::index;

/// Bytes with one stamp; client extents are multiples of this length.
pub const UNIT: usize = 32;
pub const UNIT_SIZE: u64 = 32;
pub const UNITS_PER_BLOCK: u64 = BLOCK_SIZE / UNIT_SIZE;

/// Names a write of a client, or the content before the run (version 1); zeroes are read as version 0.
pub type Version = u64;

pub const ZERO: Version = 0;

const SEAL: u64 = 0x9E37_79B9_7F4A_7C15;
const UNIT_BITS: u32 = 7;
const VOLUME_SHIFT: u32 = 28;
const VERSION_SHIFT: u32 = 32;
const PLACE_MASK: u64 = (1 << VERSION_SHIFT) - 1;
const _: () = assert!(1 << UNIT_BITS == UNITS_PER_BLOCK);

pub type Bytes = [u8; BLOCK_BYTES];

static ZEROES: Bytes = [0; BLOCK_BYTES];

/// Version and place of a whole block; the lowest bits are free for the number of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp(u64);

#[derive(Clone, Debug)]
pub enum Block {
    Zeroes,
    /// Bytes that no client wrote, made from a number.
    Noise(u64),
    /// A whole block of one version, with its place on a volume.
    Stamp(Stamp),
    /// Any other bytes, also those of noise.
    Bytes(Rc<Bytes>),
}

pub fn checksum(bytes: &[u8]) -> Checksum {
    let wide = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes);
    Checksum::new(u32::try_from(wide).expect("a 32-bit checksum"))
}

fn word(bytes: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(bytes[index * 8..index * 8 + 8].try_into().expect("eight bytes"))
}

const fn seal(word: u64) -> u64 {
    word.rotate_left(23) ^ SEAL
}

impl Stamp {
    fn new(volume: VolumeId, block: u64, version: Version) -> Stamp {
        assert!(
            volume.get() < 16 && block < 1 << 21 && version > 0 && version >> 32 == 0,
            "a test device is small"
        );
        Stamp(version << VERSION_SHIFT | u64::from(volume.get()) << VOLUME_SHIFT | block << UNIT_BITS)
    }

    const fn version(self) -> Version {
        self.0 >> VERSION_SHIFT
    }

    fn to_bytes(self) -> Bytes {
        let mut bytes = [0; BLOCK_BYTES];
        self.lay(&mut bytes);
        bytes
    }

    fn lay(self, zeroes: &mut [u8]) {
        for (unit, chunk) in (0..).zip(zeroes.as_chunks_mut::<UNIT>().0) {
            let word = self.0 | unit;
            chunk[..8].copy_from_slice(&word.to_le_bytes());
            chunk[8..16].copy_from_slice(&seal(word).to_le_bytes());
        }
    }

    /// CRC32C is linear: the checksum of a stamp is that of stamp 0 changed by a table entry for each of its bytes.
    fn checksum(self) -> Checksum {
        static TABLES: LazyLock<Box<([[u32; 256]; 8], u32)>> = LazyLock::new(Stamp::tables);
        let (tables, empty) = &**TABLES;
        let bytes = tables.iter().zip(self.0.to_le_bytes());
        Checksum::new(bytes.fold(*empty, |sum, (table, byte)| sum ^ table[usize::from(byte)]))
    }

    fn tables() -> Box<([[u32; 256]; 8], u32)> {
        let sum = |stamp: u64| {
            let mut bytes = [0; BLOCK_BYTES];
            // The number of the unit is combined by XOR, so that the lowest bits of the stamp may have any value.
            for (unit, chunk) in (0..).zip(bytes.chunks_exact_mut(UNIT)) {
                let word: u64 = stamp ^ unit;
                chunk[..8].copy_from_slice(&word.to_le_bytes());
                chunk[8..16].copy_from_slice(&seal(word).to_le_bytes());
            }
            checksum(&bytes).get()
        };
        let empty = sum(0);
        let mut tables = [[0; 256]; 8];
        for (byte, table) in tables.iter_mut().enumerate() {
            for bit in 0..8 {
                let change = sum(1 << (byte * 8 + bit)) ^ empty;
                (0..256).filter(|index| index >> bit & 1 == 1).for_each(|index| table[index] ^= change);
            }
        }
        Box::new((tables, empty))
    }
}

/// One of 64 runs of the same random bytes.
fn noise(number: u64) -> &'static Bytes {
    static STORE: LazyLock<Box<[u8; 2 * BLOCK_BYTES]>> = LazyLock::new(|| {
        let (mut bytes, mut state) = ([0; 2 * BLOCK_BYTES], SEAL);
        for chunk in bytes.as_chunks_mut::<8>().0 {
            state = state.wrapping_mul(0xD134_2543_DE82_EF95).wrapping_add(SEAL);
            *chunk = (state ^ state >> 29).to_le_bytes();
        }
        Box::new(bytes)
    });
    let start = index(number % 64) * 64;
    STORE[start..].first_chunk().expect("the store is longer than a block")
}

/// The stamp of a unit with its number in the lowest bits; `None` for zeroes and for bytes that no client wrote.
fn unit_of(bytes: &[u8]) -> Option<u64> {
    let found = word(bytes, 0);
    let is_whole = found >> VERSION_SHIFT > 0 && word(bytes, 1) == seal(found);
    (is_whole && word(bytes, 2) == 0 && word(bytes, 3) == 0).then_some(found)
}

/// The version in a unit of a volume ([`ZERO`] for zeroes), or a sentence that names the error in its bytes.
fn version_of(volume: VolumeId, unit: u64, bytes: &[u8]) -> Result<Version, String> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(ZERO);
    }
    let Some(found) = unit_of(bytes) else {
        return Err(format!("bytes that no client wrote: {:02x?}", &bytes[..16]));
    };
    let place = found & PLACE_MASK;
    if place != u64::from(volume.get()) << VOLUME_SHIFT | unit {
        return Err(misplaced(found));
    }
    Ok(found >> VERSION_SHIFT)
}

fn misplaced(found: u64) -> String {
    let place = found & PLACE_MASK;
    let (volume, unit) = (place >> VOLUME_SHIFT, place & ((1 << VOLUME_SHIFT) - 1));
    format!("data of volume {volume} offset {:#x} (version {})", unit * UNIT_SIZE, found >> VERSION_SHIFT)
}

fn shared(bytes: &Bytes) -> Rc<Bytes> {
    Rc::<[u8]>::from(bytes.as_slice()).try_into().expect("the bytes of a block")
}

impl Block {
    pub fn stamp(volume: VolumeId, block: u64, version: Version) -> Block {
        Block::Stamp(Stamp::new(volume, block, version))
    }

    pub fn from_bytes(bytes: &Bytes) -> Block {
        Block::symbol(bytes).unwrap_or_else(|| Block::Bytes(shared(bytes)))
    }

    /// The symbol for these bytes, if they are zeroes or a whole block of one version; `None` also for noise.
    fn symbol(bytes: &Bytes) -> Option<Block> {
        if *bytes == ZEROES {
            return Some(Block::Zeroes);
        }
        let stamp = unit_of(&bytes[..UNIT]).filter(|first| first & (UNITS_PER_BLOCK - 1) == 0)?;
        let mut units = (stamp..).zip(bytes.chunks_exact(UNIT));
        let is_whole = units.all(|(word, chunk)| unit_of(chunk) == Some(word));
        is_whole.then_some(Block::Stamp(Stamp(stamp)))
    }

    pub fn bytes(&self) -> Cow<'_, Bytes> {
        match self {
            Block::Zeroes => Cow::Borrowed(&ZEROES),
            Block::Noise(number) => Cow::Borrowed(noise(*number)),
            Block::Stamp(stamp) => Cow::Owned(stamp.to_bytes()),
            Block::Bytes(stored) => Cow::Borrowed(stored),
        }
    }

    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        match self {
            Block::Stamp(stamp) => {
                let start = bytes.len();
                bytes.extend_from_slice(&ZEROES);
                stamp.lay(&mut bytes[start..]);
            }
            Block::Zeroes | Block::Noise(_) | Block::Bytes(_) => bytes.extend_from_slice(&self.bytes()[..]),
        }
    }

    pub fn to_bytes(&self) -> Bytes {
        self.bytes().into_owned()
    }

    pub fn checksum(&self) -> Checksum {
        static OF_ZEROES: LazyLock<Checksum> = LazyLock::new(|| checksum(&ZEROES));
        match self {
            Block::Zeroes => *OF_ZEROES,
            Block::Stamp(stamp) => stamp.checksum(),
            Block::Noise(_) | Block::Bytes(_) => checksum(&self.bytes()[..]),
        }
    }

    /// Replaces a part of the bytes, from byte `at` on, by a part of another block.
    pub fn overlay(&mut self, at: usize, source: &Block, from: usize, length: usize) {
        self.change(|bytes| bytes[at..at + length].copy_from_slice(&source.bytes()[from..from + length]));
    }

    fn change(&mut self, change: impl FnOnce(&mut Bytes)) {
        if !matches!(self, Block::Bytes(_)) {
            *self = Block::Bytes(shared(&self.bytes()));
        }
        let Block::Bytes(stored) = self else { unreachable!("they are bytes now") };
        let bytes = Rc::make_mut(stored);
        change(bytes);
        if let Some(symbol) = Block::symbol(bytes) {
            *self = symbol;
        }
    }

    pub fn flip(&mut self, byte: usize, bit: u64) {
        self.change(|bytes| bytes[byte] ^= 1 << bit);
    }

    /// The version of the whole block, as block `block` of a volume; `None` if it has several versions, data of another
    /// place, or bytes that no client wrote.
    pub fn version(&self, volume: VolumeId, block: u64) -> Option<Version> {
        match self {
            Block::Zeroes => Some(ZERO),
            Block::Stamp(stamp) => {
                (*stamp == Stamp::new(volume, block, stamp.version())).then(|| stamp.version())
            }
            Block::Noise(_) | Block::Bytes(_) => None,
        }
    }

    /// The single version of units, which are counted from the start of the volume.
    ///
    /// # Errors
    /// A sentence, if the range is empty, or the units have several versions, data of another place, or bytes that no
    /// client wrote.
    pub fn version_of_units(&self, volume: VolumeId, units: std::ops::Range<u64>) -> Result<Version, String> {
        let bytes = self.bytes();
        let mut versions = units.map(|unit| {
            let at = usize::try_from(unit % UNITS_PER_BLOCK).expect("below 128") * UNIT;
            version_of(volume, unit, &bytes[at..at + UNIT])
        });
        let first = versions.next().ok_or_else(|| "no bytes".to_owned())??;
        for version in versions {
            let version = version?;
            if version != first {
                return Err(format!("a sector of both version {first} and version {version}"));
            }
        }
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: VolumeId = VolumeId::new(3);

    #[test]
    fn stamps_name_version_and_place() {
        let block = Block::stamp(VOLUME, 5, 77);
        let units = 5 * UNITS_PER_BLOCK..5 * UNITS_PER_BLOCK + 16;
        assert_eq!(block.version(VOLUME, 5), Some(77));
        assert_eq!(block.version_of_units(VOLUME, units.clone()), Ok(77));
        assert_eq!((block.version(VOLUME, 6), block.version(VolumeId::new(2), 5)), (None, None));
        assert!(block.version_of_units(VOLUME, 0..16).unwrap_err().contains("volume 3 offset 0x5000"));
        let mut damaged = block.clone();
        damaged.flip(100, 3);
        assert!(damaged.version_of_units(VOLUME, units.clone()).unwrap_err().contains("no client"));
        let mut mixed = block;
        mixed.overlay(64, &Block::Zeroes, 64, 64);
        assert!(mixed.version_of_units(VOLUME, units).unwrap_err().contains("both"));
    }

    #[test]
    fn symbols_are_their_bytes() {
        for block in [
            Block::Zeroes,
            Block::Noise(9),
            Block::stamp(VOLUME, 0x1F_FFFF, 0xFFFF_FFFF),
            Block::stamp(VOLUME, 0, 1),
        ] {
            let bytes = block.to_bytes();
            assert_eq!(block.checksum(), checksum(&bytes), "{block:?}");
            let again = Block::from_bytes(&bytes);
            assert_eq!(again.to_bytes(), bytes);
            assert_eq!(matches!(again, Block::Bytes(_)), matches!(block, Block::Noise(_)), "{again:?}");
        }
    }

    #[test]
    fn a_block_overwritten_part_by_part_becomes_a_symbol_again() {
        let (mut block, new) = (Block::stamp(VOLUME, 5, 77), Block::stamp(VOLUME, 5, 78));
        block.overlay(512, &new, 512, 3584);
        assert!(matches!(block, Block::Bytes(_)));
        block.overlay(0, &new, 0, 512);
        assert_eq!(block.version(VOLUME, 5), Some(78));
    }
}
