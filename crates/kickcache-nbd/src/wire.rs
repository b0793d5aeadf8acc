//! The protocol's numbers, its limits, and reading and writing big-endian integers.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

/// The most bytes of data that one read or write may carry.
pub const PAYLOAD_MAX: u64 = 32 << 20;
/// The data of a refused command is read and dropped up to this many bytes; more data ends the connection.
pub(super) const DRAIN_MAX: u64 = 64 << 20;
/// Block sizes reported to the client: requests of any alignment are served, whole blocks are
/// fastest.
pub(super) const BLOCK_SIZE_MIN: u32 = 1;
pub(super) const BLOCK_SIZE_PREFERRED: u32 = 4096;
pub(super) const BLOCK_SIZE_MAX: u32 = 32 << 20;
const _: () = assert!(BLOCK_SIZE_MAX as u64 == PAYLOAD_MAX);

pub(super) const OPTION_DATA_MAX: u32 = 64 << 10;
pub(super) const OPTION_COUNT_MAX: u32 = 1000;
/// The most bytes of a string, from the protocol.
pub(super) const STRING_MAX: usize = 4096;
/// The most metadata queries in one option.
pub(super) const QUERY_COUNT_MAX: u32 = 64;
/// The most descriptors in one block status reply.
pub(super) const EXTENT_COUNT_MAX: usize = 1 << 16;
/// The most bytes of replies that the session itself may have queued; more end the connection.
pub(super) const OUTPUT_MAX: usize = 1 << 20;

pub(super) const MAGIC_SERVER: u64 = 0x4e42_444d_4147_4943;
pub(super) const MAGIC_OPTION: u64 = 0x4948_4156_454f_5054;
pub(super) const MAGIC_OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
pub(super) const MAGIC_REQUEST: u32 = 0x2560_9513;
pub(super) const MAGIC_REQUEST_EXTENDED: u32 = 0x21e4_1c71;
pub(super) const MAGIC_SIMPLE_REPLY: u32 = 0x6744_6698;
pub(super) const MAGIC_STRUCTURED_REPLY: u32 = 0x668e_33ef;
pub(super) const MAGIC_EXTENDED_REPLY: u32 = 0x6e8a_278c;

pub(super) const OPTION_HEADER_BYTES: usize = 16;
pub(super) const REQUEST_BYTES: usize = 28;
pub(super) const REQUEST_EXTENDED_BYTES: usize = 32;

/// Handshake flags, the same bits in both directions.
pub(super) const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
pub(super) const FLAG_NO_ZEROES: u16 = 1 << 1;

pub(super) mod export_flag {
    pub(in super::super) const HAS_FLAGS: u16 = 1 << 0;
    pub(in super::super) const READ_ONLY: u16 = 1 << 1;
    pub(in super::super) const FLUSH: u16 = 1 << 2;
    pub(in super::super) const FUA: u16 = 1 << 3;
    pub(in super::super) const ROTATIONAL: u16 = 1 << 4;
    pub(in super::super) const TRIM: u16 = 1 << 5;
    pub(in super::super) const WRITE_ZEROES: u16 = 1 << 6;
    pub(in super::super) const DF: u16 = 1 << 7;
    pub(in super::super) const MULTI_CONN: u16 = 1 << 8;
    pub(in super::super) const CACHE: u16 = 1 << 10;
    pub(in super::super) const FAST_ZERO: u16 = 1 << 11;
}

pub(super) mod opt {
    pub(in super::super) const EXPORT_NAME: u32 = 1;
    pub(in super::super) const ABORT: u32 = 2;
    pub(in super::super) const LIST: u32 = 3;
    pub(in super::super) const STARTTLS: u32 = 5;
    pub(in super::super) const INFO: u32 = 6;
    pub(in super::super) const GO: u32 = 7;
    pub(in super::super) const STRUCTURED_REPLY: u32 = 8;
    pub(in super::super) const LIST_META_CONTEXT: u32 = 9;
    pub(in super::super) const SET_META_CONTEXT: u32 = 10;
    pub(in super::super) const EXTENDED_HEADERS: u32 = 11;
}

pub(super) mod rep {
    pub(in super::super) const ACK: u32 = 1;
    pub(in super::super) const SERVER: u32 = 2;
    pub(in super::super) const INFO: u32 = 3;
    pub(in super::super) const META_CONTEXT: u32 = 4;
    pub(in super::super) const ERROR: u32 = 1 << 31;
    pub(in super::super) const ERR_UNSUP: u32 = ERROR | 1;
    pub(in super::super) const ERR_POLICY: u32 = ERROR | 2;
    pub(in super::super) const ERR_INVALID: u32 = ERROR | 3;
    pub(in super::super) const ERR_TLS_REQD: u32 = ERROR | 5;
    pub(in super::super) const ERR_UNKNOWN: u32 = ERROR | 6;
    pub(in super::super) const ERR_TOO_BIG: u32 = ERROR | 9;
    pub(in super::super) const ERR_EXT_HEADER_REQD: u32 = ERROR | 10;
}

pub(super) mod info {
    pub(in super::super) const EXPORT: u16 = 0;
    pub(in super::super) const NAME: u16 = 1;
    pub(in super::super) const DESCRIPTION: u16 = 2;
    pub(in super::super) const BLOCK_SIZE: u16 = 3;
}

pub(super) mod cmd {
    pub(in super::super) const READ: u16 = 0;
    pub(in super::super) const WRITE: u16 = 1;
    pub(in super::super) const DISC: u16 = 2;
    pub(in super::super) const FLUSH: u16 = 3;
    pub(in super::super) const TRIM: u16 = 4;
    pub(in super::super) const CACHE: u16 = 5;
    pub(in super::super) const WRITE_ZEROES: u16 = 6;
    pub(in super::super) const BLOCK_STATUS: u16 = 7;
}

pub(super) mod cmd_flag {
    pub(in super::super) const FUA: u16 = 1 << 0;
    pub(in super::super) const NO_HOLE: u16 = 1 << 1;
    pub(in super::super) const DF: u16 = 1 << 2;
    pub(in super::super) const REQ_ONE: u16 = 1 << 3;
    pub(in super::super) const FAST_ZERO: u16 = 1 << 4;
    pub(in super::super) const PAYLOAD_LEN: u16 = 1 << 5;
}

pub(super) mod chunk {
    pub(in super::super) const FLAG_DONE: u16 = 1 << 0;
    pub(in super::super) const NONE: u16 = 0;
    pub(in super::super) const OFFSET_DATA: u16 = 1;
    pub(in super::super) const OFFSET_HOLE: u16 = 2;
    pub(in super::super) const BLOCK_STATUS: u16 = 5;
    pub(in super::super) const BLOCK_STATUS_EXT: u16 = 6;
    pub(in super::super) const ERROR_BIT: u16 = 1 << 15;
    pub(in super::super) const ERROR: u16 = ERROR_BIT | 1;
}

/// The only metadata context.
pub(super) const CONTEXT_NAMESPACE: &str = "base:";
pub(super) const CONTEXT_ALLOCATION: &str = "base:allocation";
pub(super) const CONTEXT_ALLOCATION_ID: u32 = 1;
pub(super) const STATE_HOLE: u32 = 1 << 0;
pub(super) const STATE_ZERO: u32 = 1 << 1;

/// Takes integers and strings from the front of a slice; `None` once the slice is too short.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A 32-bit length and that many bytes.
    pub(super) fn counted_bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()?;
        self.bytes(usize::try_from(count).ok()?)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

pub(super) trait Put {
    fn put(&mut self, bytes: &[u8]);

    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A length as the 32 bits of the wire.
///
/// # Panics
/// If the length needs more than 32 bits: use it only for lengths that this side produced.
pub(super) fn length_u32(length: usize) -> u32 {
    u32::try_from(length).expect("lengths produced by the session are below 4 GiB")
}
