//! The head of a block: how many records, how they are packed, and two checksums.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use crate::trace_file::format::recording::header::{checksum, long, word};

pub(crate) const MAGIC: [u8; 4] = *b"KBLK";
pub(crate) const HEAD_BYTES: usize = 44;
/// Most bytes of the records of a block, packed or not.
pub(crate) const BODY_BYTES_MAX: u32 = 1 << 20;
/// The offset of the head's checksum, which covers the bytes before it.
const CHECKED_BYTES: usize = 40;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) record_count: u32,
    pub(crate) plain_bytes: u32,
    pub(crate) packed_bytes: u32,
    /// Records that the recorder lost before the first one of this block.
    pub(crate) lost: u64,
    /// The time that the first record counts from, in nanoseconds.
    pub(crate) base: u64,
    pub(crate) packing: Packing,
    pub(crate) body_checksum: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Packing {
    /// Records as they are.
    Plain,
    /// Raw deflate (RFC 1951).
    Deflate,
}

impl Head {
    pub(crate) fn of_body(record_count: u32, lost: u64, base: u64, plain_bytes: usize, body: &Body) -> Head {
        let length = |bytes: usize| u32::try_from(bytes).expect("at most 1 MiB");
        Head {
            record_count,
            plain_bytes: length(plain_bytes),
            packed_bytes: length(body.bytes.len()),
            lost,
            base,
            packing: body.packing,
            body_checksum: checksum(&body.bytes),
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&MAGIC);
        put(&self.record_count.to_le_bytes());
        put(&self.plain_bytes.to_le_bytes());
        put(&self.packed_bytes.to_le_bytes());
        put(&self.lost.to_le_bytes());
        put(&self.base.to_le_bytes());
        let packing = match self.packing {
            Packing::Plain => 0_u32,
            Packing::Deflate => 1,
        };
        put(&packing.to_le_bytes());
        put(&self.body_checksum.to_le_bytes());
        let sum = checksum(&bytes[..CHECKED_BYTES]);
        bytes[CHECKED_BYTES..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(crate) fn of(bytes: &[u8]) -> Option<Head> {
        let bytes = bytes.get(..HEAD_BYTES)?;
        if !bytes.starts_with(&MAGIC) || word(bytes, CHECKED_BYTES) != checksum(&bytes[..CHECKED_BYTES]) {
            return None;
        }
        let packing = match word(bytes, 32) {
            0 => Packing::Plain,
            1 => Packing::Deflate,
            _ => return None,
        };
        let head = Head {
            record_count: word(bytes, 4),
            plain_bytes: word(bytes, 8),
            packed_bytes: word(bytes, 12),
            lost: long(bytes, 16),
            base: long(bytes, 24),
            packing,
            body_checksum: word(bytes, 36),
        };
        let is_sane = head.plain_bytes <= BODY_BYTES_MAX && head.packed_bytes <= BODY_BYTES_MAX;
        is_sane.then_some(head)
    }

    pub(crate) fn unpack(&self, body: &[u8]) -> Result<Vec<u8>, &'static str> {
        if checksum(body) != self.body_checksum {
            return Err("its checksum is wrong");
        }
        let plain_bytes = usize::try_from(self.plain_bytes).expect("at most 1 MiB");
        let mut plain = Vec::with_capacity(plain_bytes);
        let unpacked = match self.packing {
            Packing::Plain => plain.write_all(body),
            Packing::Deflate => inflate(body, u64::from(self.plain_bytes) + 1, &mut plain),
        };
        if unpacked.is_err() || plain.len() != plain_bytes {
            return Err("it cannot be unpacked");
        }
        Ok(plain)
    }
}

pub(crate) struct Body {
    packing: Packing,
    pub(crate) bytes: Vec<u8>,
}

/// Packs a block if that saves a quarter; after a failed attempt, [`PASS_COUNT`] blocks are left unpacked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Packer {
    pass: u32,
}

const PASS_COUNT: u32 = 31;

impl Packer {
    pub(crate) fn pack(&mut self, plain: &[u8]) -> Body {
        if self.pass > 0 {
            self.pass -= 1;
            return Body { packing: Packing::Plain, bytes: plain.to_vec() };
        }
        let mut packer = DeflateEncoder::new(Vec::with_capacity(plain.len()), Compression::fast());
        match packer.write_all(plain).and_then(|()| packer.finish()) {
            Ok(bytes) if bytes.len() < plain.len() / 4 * 3 => Body { packing: Packing::Deflate, bytes },
            Ok(_) | Err(_) => {
                self.pass = PASS_COUNT;
                Body { packing: Packing::Plain, bytes: plain.to_vec() }
            }
        }
    }
}

fn inflate(body: &[u8], limit: u64, plain: &mut Vec<u8>) -> io::Result<()> {
    DeflateDecoder::new(body).take(limit).read_to_end(plain).map(drop)
}
