//! The header block of a batch: where it stands, its place in the global order, and what follows it.

use alloc::vec::Vec;

use crate::format::bytes::{Reader, Writer};
use crate::queue::Queue;
use crate::units::{BLOCK_BYTES, BlockKey, Checksum, Generation, SegmentIndex, Sequence};

const MAGIC: [u8; 8] = *b"KICKBTCH";
const ENTRIES_AT: usize = 64;
const ENTRY_BYTES: usize = 12;
const DIRTY: u8 = 1;
const VOID: u8 = 2;

/// Most entries that a header holds.
pub const ENTRY_COUNT_MAX: usize = 256;

const _: () = assert!(ENTRIES_AT + ENTRY_COUNT_MAX * ENTRY_BYTES <= BLOCK_BYTES);
const _: () = assert!(ENTRY_COUNT_MAX == crate::config::BATCH_BLOCKS_MAX as usize);

/// One data block of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BatchEntry {
    /// Which block; `None` if it died before the batch was written.
    pub(crate) key: Option<BlockKey>,
    /// Whether it must be kept until the journal says that it is clean.
    pub(crate) dirty: bool,
    /// CRC32C of the data.
    pub(crate) checksum: Checksum,
}

/// A batch header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BatchHeader {
    pub(crate) uuid: [u8; 16],
    pub(crate) segment: SegmentIndex,
    pub(crate) generation: Generation,
    pub(crate) sequence: Sequence,
    /// Block of the segment in which the header stands.
    pub(crate) start: u32,
    pub(crate) queue: Queue,
    pub(crate) entries: Vec<BatchEntry>,
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
    /// The header block.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MAGIC, BLOCK_BYTES);
        writer.put_u32(u32::try_from(self.entries.len()).expect("at most 256 entries"));
        writer.put(&self.uuid);
        writer.put_u32(self.segment.get());
        writer.put_u32(self.generation.get());
        writer.put_u64(self.sequence.get());
        writer.put_u32(self.start);
        writer.put_u8(queue_byte(self.queue));
        writer.skip_to(ENTRIES_AT);
        for entry in &self.entries {
            entry.put(&mut writer);
        }
        writer.finish()
    }

    /// Reads a header block; `None` if it is not a whole one.
    pub(crate) fn decode(block: &[u8]) -> Option<BatchHeader> {
        let mut reader = Reader::open(MAGIC, block)?;
        let count = usize::try_from(reader.take_u32()?).ok()?;
        if count > ENTRY_COUNT_MAX {
            return None;
        }
        let uuid = reader.take_uuid()?;
        let segment = SegmentIndex::new(reader.take_u32()?);
        let generation = Generation::new(reader.take_u32()?);
        let sequence = Sequence::new(reader.take_u64()?);
        let start = reader.take_u32()?;
        let queue = queue_of(reader.take_u8()?)?;
        let mut reader = Reader::bare(block.get(ENTRIES_AT..)?);
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            entries.push(BatchEntry::take(&mut reader)?);
        }
        Some(BatchHeader { uuid, segment, generation, sequence, start, queue, entries })
    }
}
