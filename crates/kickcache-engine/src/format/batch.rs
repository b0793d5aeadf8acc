//! The header block of a batch.

use alloc::vec::Vec;

use crate::format::bytes::{Reader, Writer};
use crate::format::durable::Durable;
use crate::format::durable_blocks::DurableBlocks;
use crate::format::durable_range::DurableRange;
use crate::queue::Queue;
use crate::units::{BLOCK_BYTES, BlockKey, Checksum, Generation, SegmentIndex, Sequence};

/// The bytes that a batch header starts with.
pub const BATCH_MAGIC: [u8; 8] = *b"KICKBTCH";
const ENTRIES_AT: usize = 64;
const ENTRY_BYTES: usize = 12;
const DURABLE_AT: usize = 4080;
const DIRTY: u8 = 1;
const VOID: u8 = 2;

/// Most entries that a header holds.
pub const ENTRY_COUNT_MAX: usize = 256;

const _: () = assert!(ENTRIES_AT + ENTRY_COUNT_MAX * ENTRY_BYTES <= DURABLE_AT);
const _: () = assert!(DURABLE_AT + 16 == BLOCK_BYTES);
const _: () = assert!(ENTRY_COUNT_MAX == crate::config::BATCH_BLOCKS_MAX as usize);

/// One data block of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchEntry {
    /// Which block; `None` if it died before the batch was written.
    pub key: Option<BlockKey>,
    /// Whether the block must be kept.
    pub dirty: bool,
    /// CRC32C of the data.
    pub checksum: Checksum,
}

/// A batch header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchHeader {
    /// The cache that the batch belongs to.
    pub uuid: [u8; 16],
    /// The segment of the header.
    pub segment: SegmentIndex,
    /// The segment's generation.
    pub generation: Generation,
    /// The sequence number of the batch.
    pub sequence: Sequence,
    /// The block of the segment with the header.
    pub start: u32,
    /// The queue of the segment.
    pub queue: Queue,
    /// The structures that were durable when the batch was submitted.
    pub durable: Durable,
    /// The data blocks after the header, in order.
    pub entries: Vec<BatchEntry>,
}

pub(crate) const fn queue_byte(queue: Queue) -> u8 {
    match queue {
        Queue::Probation => 1,
        Queue::Main => 2,
    }
}

pub(crate) const fn queue_of(byte: u8) -> Option<Queue> {
    match byte {
        1 => Some(Queue::Probation),
        2 => Some(Queue::Main),
        _ => None,
    }
}

impl BatchEntry {
    fn put(&self, writer: &mut Writer) {
        let key = self.key.unwrap_or(BlockKey::from_bits(0));
        writer.put_key(key);
        let void = if self.key.is_none() { VOID } else { 0 };
        writer.put_u8(if self.dirty { DIRTY | void } else { void });
        writer.put_u8(0);
        writer.put_u32(self.checksum.get());
    }

    fn take(reader: &mut Reader<'_>) -> Option<BatchEntry> {
        let key = reader.take_key()?;
        let flags = reader.take_u8()?;
        reader.take_u8()?;
        let checksum = Checksum::new(reader.take_u32()?);
        let key = (flags & VOID == 0).then_some(key);
        Some(BatchEntry { key, dirty: flags & DIRTY != 0, checksum })
    }
}

impl BatchHeader {
    /// The block of the segment after the batch.
    pub fn end(&self) -> u32 {
        let data = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        self.start.saturating_add(1).saturating_add(data)
    }

    /// Whether an entry names this block of the segment.
    pub fn names(&self, place: u32) -> bool {
        let number = place.checked_sub(self.start).and_then(|number| number.checked_sub(1));
        let entry = number.and_then(|number| self.entries.get(number as usize));
        entry.is_some_and(|entry| entry.key.is_some())
    }

    /// The header block.
    ///
    /// # Panics
    /// If the entries do not fit into the block.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(BATCH_MAGIC, BLOCK_BYTES);
        writer.put_u32(u32::try_from(self.entries.len()).expect("at most 256 entries"));
        writer.put(&self.uuid);
        writer.put_u32(self.segment.get());
        writer.put_u32(self.generation.get());
        writer.put_u64(self.sequence.get());
        writer.put_u32(self.start);
        writer.put_u8(queue_byte(self.queue));
        self.durable.journal.put(&mut writer);
        writer.skip_to(ENTRIES_AT);
        for entry in &self.entries {
            entry.put(&mut writer);
        }
        writer.skip_to(DURABLE_AT);
        self.durable.batches.put(&mut writer);
        writer.finish()
    }

    /// Reads a header block; `None` if it is not a whole one.
    pub fn decode(block: &[u8]) -> Option<BatchHeader> {
        let mut reader = Reader::open(BATCH_MAGIC, block)?;
        let count = usize::try_from(reader.take_u32()?).ok()?;
        if count > ENTRY_COUNT_MAX {
            return None;
        }
        let uuid = reader.take_uuid()?;
        let segment = SegmentIndex::new(reader.take_u32()?);
        let generation = Generation::new(reader.take_u32()?);
        let sequence = reader.take_sequence()?;
        let start = reader.take_u32()?;
        let queue = queue_of(reader.take_u8()?)?;
        let journal = DurableBlocks::take(&mut reader)?;
        let mut reader = Reader::bare(block.get(ENTRIES_AT..)?);
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            entries.push(BatchEntry::take(&mut reader)?);
        }
        let batches = DurableRange::take(&mut Reader::bare(block.get(DURABLE_AT..)?))?;
        Some(BatchHeader {
            uuid,
            segment,
            generation,
            sequence,
            start,
            queue,
            durable: Durable { batches, journal },
            entries,
        })
    }
}

/// Finds the batches in the bytes of a segment that satisfy the predicate.
pub fn find_batches(segment: &[u8], is_wanted: impl Fn(&BatchHeader) -> bool) -> Vec<BatchHeader> {
    let mut found = Vec::new();
    let mut data_left: usize = 0;
    for (place, block) in (0u32..).zip(segment.chunks_exact(BLOCK_BYTES)) {
        if data_left > 0 {
            data_left = data_left.saturating_sub(1);
            continue;
        }
        let header = BatchHeader::decode(block).filter(|header| header.start == place && is_wanted(header));
        if let Some(header) = header {
            data_left = header.entries.len();
            found.push(header);
        }
    }
    found
}
