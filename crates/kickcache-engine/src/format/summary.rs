//! The summary at the end of a sealed segment.

use alloc::vec::Vec;

use crate::format::batch::{queue_byte, queue_of};
use crate::format::bytes::{Reader, Writer};
use crate::format::durable::Durable;
use crate::format::durable_blocks::DurableBlocks;
use crate::format::durable_range::DurableRange;
use crate::format::geometry::Geometry;
use crate::queue::Queue;
use crate::units::{BLOCK_BYTES, BlockKey, Checksum, Generation, SegmentIndex, Sequence};

/// The bytes that a summary starts with.
pub const SUMMARY_MAGIC: [u8; 8] = *b"KICKSUMM";
const BLOCKS_AT: usize = 53;
const ENTRIES_AT: usize = 64;
const DURABLE_BYTES: usize = 16;
const DATA: u8 = 1;
const DIRTY: u8 = 2;

/// A data block of a sealed segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SummaryEntry {
    /// Which block.
    pub key: BlockKey,
    /// Whether the block must be kept.
    pub dirty: bool,
    /// CRC32C of the data.
    pub checksum: Checksum,
    /// The sequence number of the block's batch.
    pub sequence: Sequence,
}

/// The content of a segment, block by block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// The cache that the summary belongs to.
    pub uuid: [u8; 16],
    /// The segment that the summary ends.
    pub segment: SegmentIndex,
    /// The segment's generation.
    pub generation: Generation,
    /// The queue of the segment.
    pub queue: Queue,
    /// The structures that were durable when the summary was written.
    pub durable: Durable,
    /// Block by block from the segment's first; `None` without data.
    pub entries: Vec<Option<SummaryEntry>>,
}

impl Summary {
    /// Whether a block of the segment has data.
    pub fn has_entry(&self, place: u32) -> bool {
        self.entries.get(place as usize).is_some_and(Option::is_some)
    }

    /// Sequence numbers are stored as 32-bit distances from the lowest.
    fn base(&self) -> u64 {
        self.entries.iter().flatten().map(|entry| entry.sequence.get()).min().unwrap_or(0)
    }

    /// The summary's blocks.
    ///
    /// # Panics
    /// If the sequence numbers of one segment span 2^32.
    pub fn encode(&self, geometry: &Geometry) -> Vec<u8> {
        let length = BLOCK_BYTES.saturating_mul(geometry.summary_blocks() as usize);
        let base = self.base();
        let mut writer = Writer::new(SUMMARY_MAGIC, length);
        writer.put_u32(u32::try_from(self.entries.len()).expect("at most 1024 blocks"));
        writer.put(&self.uuid);
        writer.put_u32(self.segment.get());
        writer.put_u32(self.generation.get());
        writer.put_u64(base);
        writer.put_u8(queue_byte(self.queue));
        writer.skip_to(BLOCKS_AT);
        self.durable.journal.put(&mut writer);
        writer.skip_to(ENTRIES_AT);
        for entry in &self.entries {
            put_entry(&mut writer, entry.as_ref(), base);
        }
        writer.skip_to(length.saturating_sub(DURABLE_BYTES));
        self.durable.batches.put(&mut writer);
        writer.finish()
    }

    /// Reads a summary; `None` if these bytes are not a whole one.
    pub fn decode(bytes: &[u8], geometry: &Geometry) -> Option<Summary> {
        let mut reader = Reader::open(SUMMARY_MAGIC, bytes)?;
        let count = reader.take_u32()?;
        if count > geometry.batch_blocks() {
            return None;
        }
        let uuid = reader.take_uuid()?;
        let segment = SegmentIndex::new(reader.take_u32()?);
        let generation = Generation::new(reader.take_u32()?);
        let base = reader.take_sequence()?.get();
        let queue = queue_of(reader.take_u8()?)?;
        let journal = DurableBlocks::take(&mut Reader::bare(bytes.get(BLOCKS_AT..ENTRIES_AT)?))?;
        let durable_at = bytes.len().checked_sub(DURABLE_BYTES)?;
        let batches = DurableRange::take(&mut Reader::bare(bytes.get(durable_at..)?))?;
        let mut reader = Reader::bare(bytes.get(ENTRIES_AT..durable_at)?);
        let mut entries = Vec::with_capacity(count as usize);
        for _ in 0..count {
            entries.push(take_entry(&mut reader, base)?);
        }
        Some(Summary { uuid, segment, generation, queue, durable: Durable { batches, journal }, entries })
    }
}

fn put_entry(writer: &mut Writer, entry: Option<&SummaryEntry>, base: u64) {
    let Some(entry) = entry else {
        writer.put(&[0; 16]);
        return;
    };
    writer.put_key(entry.key);
    writer.put_u8(if entry.dirty { DATA | DIRTY } else { DATA });
    writer.put_u8(0);
    writer.put_u32(entry.checksum.get());
    let distance = entry.sequence.get().saturating_sub(base);
    writer.put_u32(u32::try_from(distance).expect("the log seals a segment before 2^31 sequence numbers"));
}

/// `None` past the end, `Some(None)` for a block without data.
#[expect(clippy::option_option, reason = "the outer one is the end of the bytes")]
fn take_entry(reader: &mut Reader<'_>, base: u64) -> Option<Option<SummaryEntry>> {
    let key = reader.take_key()?;
    let flags = reader.take_u8()?;
    reader.take_u8()?;
    let checksum = Checksum::new(reader.take_u32()?);
    let distance = u64::from(reader.take_u32()?);
    if flags & DATA == 0 {
        return Some(None);
    }
    let sequence = Sequence::new(base.checked_add(distance)?);
    Some(Some(SummaryEntry { key, dirty: flags & DIRTY != 0, checksum, sequence }))
}
