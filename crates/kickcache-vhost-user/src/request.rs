//! Requests of virtio-blk: a chain becomes a request, or is answered at once.

use kickcache_engine::request::Durability;
use kickcache_engine::units::ByteExtent;
use virtio_bindings::bindings::virtio_blk::{
    VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_WRITE_ZEROES, VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK,
    VIRTIO_BLK_S_UNSUPP, VIRTIO_BLK_T_DISCARD, VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN,
    VIRTIO_BLK_T_OUT, VIRTIO_BLK_T_WRITE_ZEROES,
};
use vm_memory::{GuestAddress, GuestMemory, GuestMemoryMmap, Permissions};

use super::chain::{Chain, QueueFault, Segment, copy_in, copy_out, length, take_front, take_last_byte};
use super::features::{RANGE_SECTORS_MAX, RANGES_MAX, REQUEST_BYTES_MAX, has};
use super::memory::Memory;

const SECTOR_BYTES: u64 = 512;
const HEADER_BYTES: usize = 16;
const RANGE_BYTES: usize = 16;
const UNMAP: u32 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestKind {
    Read,
    Write {
        /// Durable if the guest switched its write cache off, or can neither flush nor switch.
        durability: Durability,
    },
    Flush,
    Discard,
    WriteZeroes {
        /// Space may be given back.
        unmap: bool,
        durability: Durability,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Done,
    Failed,
    Unsupported,
}

impl Outcome {
    pub(super) fn status(self) -> u8 {
        let status = match self {
            Outcome::Done => VIRTIO_BLK_S_OK,
            Outcome::Failed => VIRTIO_BLK_S_IOERR,
            Outcome::Unsupported => VIRTIO_BLK_S_UNSUPP,
        };
        status.to_le_bytes()[0]
    }
}

/// A request of a guest, from its chain to its answer.
#[derive(Debug)]
pub struct GuestRequest {
    pub(super) tag: Tag,
    pub(super) memory: Memory,
    pub(super) status: GuestAddress,
    kind: RequestKind,
    extent: ByteExtent,
    /// The extents behind the current one, the last one first: only discards and writes of zeroes have
    /// several.
    more: Vec<ByteExtent>,
    data: Vec<Segment>,
}

/// Identifies a request: its queue, its chain, and the life of the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    pub(super) queue: u16,
    pub(super) head: u16,
    pub(super) life: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) size: u64,
    pub(super) read_only: bool,
    pub(super) durability: Durability,
    pub(super) features: u64,
}

pub(super) enum Parsed {
    /// A request that needs the volume.
    Request(GuestRequest),
    /// The chain is answered at once: with this outcome at the address of its status, and this number of
    /// written bytes.
    Answer { outcome: Outcome, status: GuestAddress, written: u32 },
}

impl GuestRequest {
    pub fn kind(&self) -> RequestKind {
        self.kind
    }

    /// The extent on the volume; of several extents, the current one.
    pub fn extent(&self) -> ByteExtent {
        self.extent
    }

    /// Selects the next extent; `false` if there is none.
    pub fn advance(&mut self) -> bool {
        let next = self.more.pop();
        self.extent = next.unwrap_or(self.extent);
        next.is_some()
    }

    pub fn payload_length(&self) -> u64 {
        length(&self.data)
    }

    /// Bytes of memory that the request occupies: its payload, and the list of its segments.
    pub fn memory_length(&self) -> u64 {
        let list = u64::try_from(size_of_val(self.data.as_slice())).expect("usize has at most 64 bits");
        self.payload_length() + list
    }

    /// Copies a write's payload; `None` if the named guest memory does not exist, or was cut short.
    pub fn copy_payload(&self, into: &mut [u8]) -> Option<()> {
        copy_in(&self.memory, &self.data, into).filter(|()| !self.memory.is_lost())
    }

    /// Copies the data of a read to the guest; `None` if the named guest memory does not exist, or was cut short.
    pub fn deliver(&self, payload: &[u8]) -> Option<()> {
        copy_out(&self.memory, &self.data, payload).filter(|()| !self.memory.is_lost())
    }

    /// Bytes that a successful request wrote to guest memory, the status byte included.
    pub(super) fn written(&self) -> u32 {
        match self.kind {
            RequestKind::Read => {
                u32::try_from(self.payload_length()).map_or(1, |length| length.saturating_add(1))
            }
            RequestKind::Write { .. }
            | RequestKind::Flush
            | RequestKind::Discard
            | RequestKind::WriteZeroes { .. } => 1,
        }
    }
}

/// Makes a request out of a chain, or its answer if the request is invalid or does not need the volume. Fails
/// if the chain has no place for a status.
pub(super) fn parse(
    tag: Tag,
    mut chain: Chain,
    memory: &Memory,
    rules: Rules,
    serial: [u8; 20],
) -> Result<Parsed, QueueFault> {
    let status = take_last_byte(&mut chain.writable).ok_or(QueueFault::NoStatus)?;
    if !memory.check_range(status, 1, Permissions::Write) {
        return Err(QueueFault::NoStatus);
    }
    let answer = |outcome| Ok(Parsed::Answer { outcome, status, written: 1 });
    let Some(header) = take_front::<HEADER_BYTES>(memory, &mut chain.readable) else {
        return answer(Outcome::Failed);
    };
    let kind = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let sector = u64::from_le_bytes(header[8..].try_into().unwrap_or_default());
    if kind == VIRTIO_BLK_T_GET_ID {
        let written = identify(memory, &chain.writable, serial).filter(|written| *written > 0);
        let outcome = if written.is_some() { Outcome::Done } else { Outcome::Failed };
        return Ok(Parsed::Answer { outcome, status, written: written.unwrap_or(0) + 1 });
    }
    match understand(kind, sector, chain, memory, rules) {
        Ok(Understood { kind, extent, more, data }) => {
            let memory = Memory::clone(memory);
            Ok(Parsed::Request(GuestRequest { tag, memory, status, kind, extent, more, data }))
        }
        Err(outcome) => answer(outcome),
    }
}

struct Understood {
    kind: RequestKind,
    extent: ByteExtent,
    more: Vec<ByteExtent>,
    data: Vec<Segment>,
}

fn understand(
    kind: u32,
    sector: u64,
    chain: Chain,
    memory: &GuestMemoryMmap,
    rules: Rules,
) -> Result<Understood, Outcome> {
    let durability = rules.durability;
    let writable = || if rules.read_only { Err(Outcome::Failed) } else { Ok(()) };
    match kind {
        VIRTIO_BLK_T_IN => {
            let extent = transfer(sector, &chain.writable, rules)?;
            Ok(Understood { kind: RequestKind::Read, extent, more: Vec::new(), data: chain.writable })
        }
        VIRTIO_BLK_T_OUT => {
            writable()?;
            let (kind, extent) =
                (RequestKind::Write { durability }, transfer(sector, &chain.readable, rules)?);
            Ok(Understood { kind, extent, more: Vec::new(), data: chain.readable })
        }
        VIRTIO_BLK_T_FLUSH => {
            let extent = ByteExtent { start: 0, length: 0 };
            Ok(Understood { kind: RequestKind::Flush, extent, more: Vec::new(), data: Vec::new() })
        }
        VIRTIO_BLK_T_DISCARD if has(rules.features, VIRTIO_BLK_F_DISCARD) => {
            writable()?;
            let mut more = ranges(chain.readable, memory, rules, 0)?.extents;
            let extent = more.pop().ok_or(Outcome::Failed)?;
            Ok(Understood { kind: RequestKind::Discard, extent, more, data: Vec::new() })
        }
        VIRTIO_BLK_T_WRITE_ZEROES if has(rules.features, VIRTIO_BLK_F_WRITE_ZEROES) => {
            writable()?;
            let Ranges { extents: mut more, flags } = ranges(chain.readable, memory, rules, UNMAP)?;
            let extent = more.pop().ok_or(Outcome::Failed)?;
            let kind = RequestKind::WriteZeroes { unmap: flags & UNMAP != 0, durability };
            Ok(Understood { kind, extent, more, data: Vec::new() })
        }
        _ => Err(Outcome::Unsupported),
    }
}

fn transfer(sector: u64, segments: &[Segment], rules: Rules) -> Result<ByteExtent, Outcome> {
    let bytes = length(segments);
    if bytes == 0 || bytes > REQUEST_BYTES_MAX || !bytes.is_multiple_of(SECTOR_BYTES) {
        return Err(Outcome::Failed);
    }
    extent(sector, bytes, rules)
}

fn extent(sector: u64, bytes: u64, rules: Rules) -> Result<ByteExtent, Outcome> {
    let start = sector.checked_mul(SECTOR_BYTES).ok_or(Outcome::Failed)?;
    match start.checked_add(bytes) {
        Some(end) if end <= rules.size => Ok(ByteExtent { start, length: bytes }),
        Some(_) | None => Err(Outcome::Failed),
    }
}

/// The extents of a discard or write-zeroes, the last one first, and the flags that all extents share.
struct Ranges {
    extents: Vec<ByteExtent>,
    flags: u32,
}

fn ranges(
    mut segments: Vec<Segment>,
    memory: &GuestMemoryMmap,
    rules: Rules,
    flags_possible: u32,
) -> Result<Ranges, Outcome> {
    let bytes = length(&segments);
    let range_bytes = u64::try_from(RANGE_BYTES).map_err(|_| Outcome::Failed)?;
    if bytes == 0 || !bytes.is_multiple_of(range_bytes) || bytes > u64::from(RANGES_MAX) * range_bytes {
        return Err(Outcome::Failed);
    }
    let (mut extents, mut common) = (Vec::new(), flags_possible);
    while let Some(range) = take_front::<RANGE_BYTES>(memory, &mut segments) {
        let sector = u64::from_le_bytes(range[..8].try_into().unwrap_or_default());
        let count = u32::from_le_bytes(range[8..12].try_into().unwrap_or_default());
        let flags = u32::from_le_bytes(range[12..].try_into().unwrap_or_default());
        if flags & !flags_possible != 0 {
            return Err(Outcome::Unsupported);
        }
        if count == 0 || count > RANGE_SECTORS_MAX {
            return Err(Outcome::Failed);
        }
        common &= flags;
        extents.push(extent(sector, u64::from(count) * SECTOR_BYTES, rules)?);
    }
    extents.reverse();
    let all = u64::try_from(extents.len()).is_ok_and(|count| count * range_bytes == bytes);
    if all { Ok(Ranges { extents, flags: common }) } else { Err(Outcome::Failed) }
}

/// Writes as much of the serial number as there is room for; `None` if a segment is not in guest memory.
fn identify(memory: &GuestMemoryMmap, segments: &[Segment], serial: [u8; 20]) -> Option<u32> {
    let (mut rest, mut written) = (serial.as_slice(), 0);
    for segment in segments {
        let count = segment.length.min(u32::try_from(rest.len()).ok()?);
        let (part, behind) = rest.split_at(usize::try_from(count).ok()?);
        copy_out(memory, &[Segment { length: count, ..*segment }], part)?;
        (rest, written) = (behind, written + count);
    }
    Some(written)
}
