//! Little-endian numbers in byte buffers, and the checksum of a structure.

use alloc::vec;
use alloc::vec::Vec;

use crc_fast::{CrcAlgorithm, Digest};

use crate::units::{BlockKey, Checksum, SEQUENCE_LIMIT, Sequence};

/// Bytes of the head that all structures share: magic number and checksum.
pub const HEAD_BYTES: usize = 12;
const CHECKSUM_AT: core::ops::Range<usize> = 8..12;

/// CRC32C (Castagnoli) of bytes.
pub fn crc32c(bytes: &[u8]) -> Checksum {
    Checksum::new(crc_fast::crc32_iscsi(bytes))
}

/// Builds a structure front to back in a zeroed buffer of fixed size.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    at: usize,
}

impl Writer {
    /// A zeroed buffer of `length` bytes that starts with the magic number.
    pub fn new(magic: [u8; 8], length: usize) -> Writer {
        let mut writer = Writer { bytes: vec![0; length], at: 0 };
        writer.put(&magic);
        writer.put(&[0; 4]);
        writer
    }

    /// Appends bytes.
    ///
    /// # Panics
    /// If the buffer is full.
    pub fn put(&mut self, bytes: &[u8]) {
        let end = self.at.checked_add(bytes.len()).expect("structures are small");
        self.bytes.get_mut(self.at..end).expect("the structure fits its buffer").copy_from_slice(bytes);
        self.at = end;
    }

    /// Appends a byte.
    pub fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    /// Appends the lower 24 bits of a number.
    pub fn put_u24(&mut self, value: u32) {
        let [a, b, c, _] = value.to_le_bytes();
        self.put(&[a, b, c]);
    }

    /// Appends a 32-bit number.
    pub fn put_u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a 64-bit number.
    pub fn put_u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a key in six bytes.
    pub fn put_key(&mut self, key: BlockKey) {
        let [a, b, c, d, e, f, _, _] = key.bits().to_le_bytes();
        self.put(&[a, b, c, d, e, f]);
    }

    /// Moves on to byte `at`; the skipped bytes stay zero.
    pub fn skip_to(&mut self, at: usize) {
        self.at = at;
    }

    /// Puts the checksum in its place and gives the bytes.
    pub fn finish(mut self) -> Vec<u8> {
        let sum = crc32c(&self.bytes);
        self.at = CHECKSUM_AT.start;
        self.put_u32(sum.get());
        self.bytes
    }
}

/// Reads a structure front to back; `None` past the end.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Checks magic number and checksum of these bytes; the reader continues after the checksum.
    pub fn open(magic: [u8; 8], bytes: &'a [u8]) -> Option<Reader<'a>> {
        let mut reader = Reader { bytes };
        if reader.take(8)? != magic {
            return None;
        }
        let stored = Checksum::new(reader.take_u32()?);
        (stored == checksum_of(bytes)?).then_some(reader)
    }

    /// A reader over bare bytes.
    pub fn bare(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    /// The next byte.
    pub fn take_u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// The next 24-bit number.
    pub fn take_u24(&mut self) -> Option<u32> {
        let &[a, b, c] = self.take(3)? else { return None };
        Some(u32::from_le_bytes([a, b, c, 0]))
    }

    /// The next 32-bit number.
    pub fn take_u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// The next 64-bit number.
    pub fn take_u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// The next sequence number; `None` from 2^62 on.
    pub fn take_sequence(&mut self) -> Option<Sequence> {
        let number = self.take_u64()?;
        (number < SEQUENCE_LIMIT).then(|| Sequence::new(number))
    }

    /// The next key, six bytes.
    pub fn take_key(&mut self) -> Option<BlockKey> {
        let mut wide = [0; 8];
        wide.get_mut(..6)?.copy_from_slice(self.take(6)?);
        Some(BlockKey::from_bits(u64::from_le_bytes(wide)))
    }

    /// The next 16 bytes.
    pub fn take_uuid(&mut self) -> Option<[u8; 16]> {
        self.take(16)?.try_into().ok()
    }
}

fn checksum_of(bytes: &[u8]) -> Option<Checksum> {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(bytes.get(..CHECKSUM_AT.start)?);
    digest.update(&[0; 4]);
    digest.update(bytes.get(CHECKSUM_AT.end..)?);
    let sum = u32::try_from(digest.finalize()).expect("a CRC32C has 32 bits");
    Some(Checksum::new(sum))
}
