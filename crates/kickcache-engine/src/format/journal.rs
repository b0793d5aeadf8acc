//! Journal blocks: records, and the chunks of a checkpoint.

use alloc::vec::Vec;

use crate::format::batch::{queue_byte, queue_of};
use crate::format::bytes::{HEAD_BYTES, Reader, Writer};
use crate::format::durable::Durable;
use crate::format::durable_blocks::DurableBlocks;
use crate::format::durable_range::DurableRange;
use crate::format::geometry::Geometry;
use crate::queue::Queue;
use crate::units::{BLOCK_BYTES, BlockKey, Generation, SegmentIndex, Sequence, VolumeId};

/// The bytes that a journal block starts with.
pub const JOURNAL_MAGIC: [u8; 8] = *b"KICKJRNL";
const DURABLE_AT: usize = 48;
const BODY_AT: usize = 64;
const RECORD_BYTES: usize = 20;
const CHUNK_HEAD_BYTES: usize = 24;
const SEGMENT_HEAD_BYTES: usize = 8;
const KIND_RECORDS: u8 = 1;
const KIND_CHUNK: u8 = 2;

/// The most records that a journal block holds.
pub const RECORD_COUNT_MAX: usize = (BLOCK_BYTES - BODY_AT) / RECORD_BYTES;

/// The content of a record. It applies to all structures with a lower sequence number than its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fact {
    /// Every copy of the block is void.
    Gone(BlockKey),
    /// The newest copy of the block is clean.
    Clean(BlockKey),
    /// The segment begins this generation; its earlier content is void.
    Opened(SegmentIndex, Generation),
    /// Every copy of every block of the volume is void.
    Dropped(VolumeId),
}

impl Fact {
    pub(crate) const fn key(&self) -> Option<BlockKey> {
        match self {
            Fact::Gone(key) | Fact::Clean(key) => Some(*key),
            Fact::Opened(..) | Fact::Dropped(_) => None,
        }
    }
}

/// A fact and its place in the global order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The sequence number of the fact.
    pub sequence: Sequence,
    /// The fact.
    pub fact: Fact,
}

/// How a checkpoint found a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentKind {
    /// The segment's content does not count.
    Free,
    /// The segment may hold batches of its generation.
    InUse,
    /// The segment receives no new blocks; its live blocks stay in use.
    Retired,
}

/// A segment in a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentImage {
    /// The generation of the segment.
    pub generation: Generation,
    /// The use of the segment.
    pub kind: SegmentKind,
    /// The queue that the segment belonged to.
    pub queue: Queue,
    /// Each live block before this place was durable when the chunk was written, and has an entry. 0 for a free
    /// segment, and if this is unknown.
    pub written: u32,
    /// One bit a block, lowest bit first: whether the block lives, or may be written after the chunk.
    pub live: Vec<u8>,
    /// One bit a block, lowest bit first: whether the block must be kept, if it lives.
    pub kept: Vec<u8>,
}

/// A part of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// The sequence number at which the checkpoint began; also its id.
    pub start: Sequence,
    /// The number of the part, from 0 on.
    pub number: u32,
    /// The number of parts of the checkpoint.
    pub count: u32,
    /// Number of the journal block at which the checkpoint began. `None` if this is unknown.
    pub begun: Option<u64>,
    /// The segments from `number` times [`segments_per_chunk`] on.
    pub segments: Vec<SegmentImage>,
}

/// The content of a journal block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JournalBody {
    /// Records, in the order in which they were made.
    Records(Vec<Record>),
    /// A part of a checkpoint.
    Chunk(Chunk),
}

/// A block of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalBlock {
    /// The cache that the block belongs to.
    pub uuid: [u8; 16],
    /// The block's number, counted over all lives.
    pub ring: u64,
    /// The structures that were durable when the block was submitted.
    pub durable: Durable,
    /// The records or the chunk.
    pub body: JournalBody,
}

fn has_bit(bits: &[u8], at: u32) -> bool {
    bits.get((at / 8) as usize).is_some_and(|byte| byte & (1 << (at % 8)) != 0)
}

const fn bitmap_bytes(geometry: &Geometry) -> usize {
    geometry.blocks_per_segment().div_ceil(8) as usize
}

/// Segments that one chunk describes.
#[expect(clippy::arithmetic_side_effects, reason = "constants of a checked geometry")]
pub const fn segments_per_chunk(geometry: &Geometry) -> u32 {
    let each = SEGMENT_HEAD_BYTES + 2 * bitmap_bytes(geometry);
    #[expect(clippy::cast_possible_truncation, reason = "at most 4096")]
    {
        ((BLOCK_BYTES - BODY_AT - CHUNK_HEAD_BYTES) / each) as u32
    }
}

/// Chunks of a whole checkpoint.
pub const fn chunk_count(geometry: &Geometry) -> u32 {
    geometry.segment_count.div_ceil(segments_per_chunk(geometry))
}

impl Record {
    fn put(&self, writer: &mut Writer) {
        let (kind, value) = match self.fact {
            Fact::Gone(key) => (1, key.bits()),
            Fact::Clean(key) => (2, key.bits()),
            Fact::Opened(segment, generation) => {
                (3, (u64::from(segment.get()) << 32) | u64::from(generation.get()))
            }
            Fact::Dropped(volume) => (4, u64::from(volume.get())),
        };
        writer.put_u64(self.sequence.get());
        writer.put_u32(kind);
        writer.put_u64(value);
    }

    fn take(reader: &mut Reader<'_>) -> Option<Record> {
        let sequence = reader.take_sequence()?;
        let kind = reader.take_u32()?;
        let value = reader.take_u64()?;
        let low = u32::try_from(value & u64::from(u32::MAX)).ok()?;
        let fact = match kind {
            1 => Fact::Gone(BlockKey::from_bits(value)),
            2 => Fact::Clean(BlockKey::from_bits(value)),
            3 => Fact::Opened(SegmentIndex::new(u32::try_from(value >> 32).ok()?), Generation::new(low)),
            4 => Fact::Dropped(VolumeId::new(u8::try_from(value).ok()?)),
            _ => return None,
        };
        Some(Record { sequence, fact })
    }
}

impl SegmentImage {
    /// Whether a block of the segment lives.
    pub fn is_live(&self, place: u32) -> bool {
        has_bit(&self.live, place)
    }

    /// Whether a block of the segment must be kept, if it lives.
    pub fn is_kept(&self, place: u32) -> bool {
        has_bit(&self.kept, place)
    }

    /// A live and durable block that has no entry.
    pub fn find_lost(&self, has_entry: impl Fn(u32) -> bool) -> Option<u32> {
        let is_lost = |place: &u32| self.is_live(*place) && !has_entry(*place);
        (0..self.written).find(is_lost)
    }

    /// Whether a batch with live blocks was durable. The first place counts as live until it has the header of a batch.
    pub fn has_batches(&self) -> bool {
        self.kind != SegmentKind::Free && !self.is_live(0) && self.live.iter().any(|bits| *bits != 0)
    }

    fn put(&self, writer: &mut Writer) {
        writer.put_u32(self.generation.get());
        writer.put_u8(match self.kind {
            SegmentKind::Free => 0,
            SegmentKind::InUse => 1,
            SegmentKind::Retired => 2,
        });
        writer.put_u8(queue_byte(self.queue));
        writer.put(&u16::try_from(self.written).expect("at most 1024 blocks").to_le_bytes());
        writer.put(&self.live);
        writer.put(&self.kept);
    }

    fn take(reader: &mut Reader<'_>, bitmap: usize) -> Option<SegmentImage> {
        let generation = Generation::new(reader.take_u32()?);
        let kind = match reader.take_u8()? {
            0 => SegmentKind::Free,
            1 => SegmentKind::InUse,
            2 => SegmentKind::Retired,
            _ => return None,
        };
        let queue = queue_of(reader.take_u8()?)?;
        let written = u32::from(u16::from_le_bytes(reader.take(2)?.try_into().ok()?));
        let live = reader.take(bitmap)?.to_vec();
        let kept = reader.take(bitmap)?.to_vec();
        Some(SegmentImage { generation, kind, queue, written, live, kept })
    }
}

/// The number of blocks from `begun` to `ring`, both included; 0 if it does not fit into 32 bits.
fn blocks_since(begun: u64, ring: u64) -> u32 {
    u32::try_from(ring.saturating_sub(begun).saturating_add(1)).unwrap_or(0)
}

impl Chunk {
    fn put(&self, writer: &mut Writer, ring: u64) {
        writer.put_u64(self.start.get());
        writer.put_u32(self.number);
        writer.put_u32(self.count);
        writer.put_u32(u32::try_from(self.segments.len()).expect("at most 4096 segments a chunk"));
        writer.put_u32(self.begun.map_or(0, |begun| blocks_since(begun, ring)));
        for segment in &self.segments {
            segment.put(writer);
        }
    }

    fn take(reader: &mut Reader<'_>, geometry: &Geometry, ring: u64) -> Option<Chunk> {
        let start = reader.take_sequence()?;
        let number = reader.take_u32()?;
        let count = reader.take_u32()?;
        let length = reader.take_u32()?;
        let since = reader.take_u32()?;
        let begun = if since == 0 { None } else { Some(ring.checked_sub(u64::from(since.checked_sub(1)?))?) };
        let first = number.checked_mul(segments_per_chunk(geometry))?;
        let end = first.checked_add(length)?;
        // A chunk from before the growth of the device has fewer segments.
        if count > chunk_count(geometry) || number >= count || end > geometry.segment_count {
            return None;
        }
        let mut segments = Vec::new();
        for _ in 0..length {
            segments.push(SegmentImage::take(reader, bitmap_bytes(geometry))?);
        }
        Some(Chunk { start, number, count, begun, segments })
    }
}

impl JournalBlock {
    /// The block's bytes.
    ///
    /// # Panics
    /// If there are more records, or segments in a chunk, than a block holds.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(JOURNAL_MAGIC, BLOCK_BYTES);
        let (kind, count) = match &self.body {
            JournalBody::Records(records) => (KIND_RECORDS, records.len()),
            JournalBody::Chunk(_) => (KIND_CHUNK, 1),
        };
        writer.put_u32(u32::try_from(count).expect("at most 201 records"));
        writer.put(&self.uuid);
        writer.put_u64(self.ring);
        writer.put_u8(kind);
        self.durable.journal.put_before(self.ring, &mut writer);
        writer.skip_to(DURABLE_AT);
        self.durable.batches.put(&mut writer);
        writer.skip_to(BODY_AT);
        match &self.body {
            JournalBody::Records(records) => records.iter().for_each(|record| record.put(&mut writer)),
            JournalBody::Chunk(chunk) => chunk.put(&mut writer, self.ring),
        }
        writer.finish()
    }

    /// Whether a block begins with the magic number and uuid of this journal.
    pub fn has_head(block: &[u8], uuid: [u8; 16]) -> bool {
        let mut reader = Reader::bare(block);
        let magic = reader.take(HEAD_BYTES).is_some_and(|head| head.starts_with(&JOURNAL_MAGIC));
        magic && reader.take_u32().is_some() && reader.take_uuid() == Some(uuid)
    }

    /// Reads a block; `None` if it is not a whole one.
    pub fn decode(block: &[u8], geometry: &Geometry) -> Option<JournalBlock> {
        let mut reader = Reader::open(JOURNAL_MAGIC, block)?;
        let count = usize::try_from(reader.take_u32()?).ok()?;
        let uuid = reader.take_uuid()?;
        let ring = reader.take_sequence()?.get();
        let kind = reader.take_u8()?;
        let journal = DurableBlocks::take_before(ring, &mut reader)?;
        let batches = DurableRange::take(&mut Reader::bare(block.get(DURABLE_AT..)?))?;
        let mut reader = Reader::bare(block.get(BODY_AT..)?);
        let body = match kind {
            KIND_RECORDS if count <= RECORD_COUNT_MAX => {
                let mut records = Vec::with_capacity(count);
                for _ in 0..count {
                    records.push(Record::take(&mut reader)?);
                }
                JournalBody::Records(records)
            }
            KIND_CHUNK => JournalBody::Chunk(Chunk::take(&mut reader, geometry, ring)?),
            _ => return None,
        };
        Some(JournalBlock { uuid, ring, durable: Durable { batches, journal }, body })
    }
}
