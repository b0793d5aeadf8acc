//! The journal: records gather into blocks of a ring on the cache device.
//!
//! Invariants:
//! * J-1: a block is overwritten only when a whole checkpoint, younger than it, is durable.

use alloc::vec::Vec;
use core::ops::Range;

use crate::format::durable::Durable;
use crate::format::geometry::Geometry;
use crate::format::growth::journal_spare;
use crate::format::journal::{Chunk, JournalBlock, JournalBody, RECORD_COUNT_MAX, Record, chunk_count};
use crate::units::{BLOCK_SIZE, Sequence};

#[derive(Debug)]
pub(crate) struct JournalWrite {
    /// The block's number, counted over all lives; its place in the ring is this number modulo the ring's size.
    pub(crate) number: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) struct RecordsWrite {
    pub(crate) write: JournalWrite,
    pub(crate) sequences: Vec<Sequence>,
}

#[derive(Debug)]
pub(crate) struct Journal {
    uuid: [u8; 16],
    geometry: Geometry,
    gathering: Vec<Record>,
    next: u64,
    /// Number of the oldest block that recovery would need.
    tail: u64,
    /// Later lives of the engine write no blocks with a lower number than this.
    kept_end: u64,
    /// The number after each block of records that ends after `kept_end`.
    records_ends: Vec<u64>,
}

impl Journal {
    pub(crate) fn new(uuid: [u8; 16], geometry: Geometry, next: u64, tail: u64) -> Journal {
        Journal {
            uuid,
            geometry,
            gathering: Vec::new(),
            next,
            tail,
            kept_end: next,
            records_ends: Vec::new(),
        }
    }

    /// Keeps space for the checkpoints of a larger device.
    pub(crate) fn grow(&mut self, geometry: Geometry) {
        debug_assert!(geometry.journal() == self.geometry.journal(), "a journal does not grow");
        self.geometry = geometry;
    }

    pub(crate) fn add(&mut self, record: Record) {
        self.gathering.push(record);
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    fn used(&self) -> u64 {
        self.next - self.tail
    }

    fn checkpoint_blocks(&self) -> u64 {
        u64::from(chunk_count(&self.geometry))
    }

    /// Whether a checkpoint is due: more than half of the ring is in use.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.used() > self.geometry.journal_blocks() / 2
    }

    /// Whether work that makes many records may continue.
    pub(crate) fn has_room(&self) -> bool {
        let gathered = self.gathering.len().div_ceil(RECORD_COUNT_MAX) as u64;
        let spare = journal_spare(&self.geometry);
        self.used() + gathered + 2 * self.checkpoint_blocks() + spare < self.geometry.journal_blocks()
    }

    /// Removes gathered records: they will not be written.
    pub(crate) fn give_up(&mut self) -> Vec<Record> {
        core::mem::take(&mut self.gathering)
    }

    #[inline]
    pub(crate) fn gathered(&self) -> usize {
        self.gathering.len()
    }

    /// The next block of gathered records.
    ///
    /// # Panics
    /// J-1: if the ring is full.
    pub(crate) fn take_records(&mut self, durable: Durable) -> RecordsWrite {
        let count = self.gathering.len().min(RECORD_COUNT_MAX);
        let records: Vec<Record> = self.gathering.drain(..count).collect();
        let sequences = records.iter().map(|record| record.sequence).collect();
        let write = self.place(JournalBody::Records(records), durable);
        self.kept_end = self.kept_end.max(durable.journal.end);
        self.records_ends.retain(|end| *end > self.kept_end);
        self.records_ends.push(self.next);
        RecordsWrite { write, sequences }
    }

    pub(crate) fn take_chunk(&mut self, chunk: Chunk, durable: Durable) -> JournalWrite {
        self.place(JournalBody::Chunk(chunk), durable)
    }

    fn place(&mut self, body: JournalBody, durable: Durable) -> JournalWrite {
        assert!(self.used() < self.geometry.journal_blocks(), "J-1: the journal is full");
        let number = self.next;
        let block = JournalBlock { uuid: self.uuid, ring: number, durable, body };
        self.next += 1;
        let at = number % self.geometry.journal_blocks();
        let offset = self.geometry.journal().start + at * BLOCK_SIZE;
        JournalWrite { number, offset, bytes: block.encode() }
    }

    #[cfg(test)]
    pub(crate) fn fill(&mut self) {
        while self.has_room() {
            self.next += 1;
        }
    }

    pub(crate) fn span(&self) -> Range<u64> {
        self.tail..self.next
    }

    /// The end of the blocks before `durable_end` whose numbers later lives do not use again.
    pub(crate) fn kept_end(&self, durable_end: u64) -> u64 {
        let ends = self.records_ends.iter().copied().filter(|end| *end <= durable_end);
        ends.fold(self.kept_end.min(durable_end), u64::max)
    }

    /// A checkpoint that began at block `start` is durable.
    pub(crate) fn forget_before(&mut self, start: u64) {
        debug_assert!(start >= self.tail, "J-1: the tail only moves on");
        self.tail = start;
        self.kept_end = self.next;
        self.records_ends.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::durable_blocks::DurableBlocks;
    use crate::format::growth::size_max;

    #[test]
    fn a_chunk_counts_as_durable_with_the_records_after_it() {
        let geometry = Geometry::for_device(16 << 20).unwrap();
        let mut journal = Journal::new([1; 16], geometry, 0, 0);
        let durable = |end| {
            let journal = DurableBlocks { first: 0, end };
            Durable { journal, ..Durable::NOTHING }
        };
        let chunk = |number| Chunk {
            start: Sequence::new(1),
            number,
            count: 2,
            begun: Some(1),
            segments: Vec::new(),
        };
        journal.take_records(durable(0));
        journal.take_chunk(chunk(0), durable(1));
        journal.take_records(durable(1));
        let kept = |journal: &Journal| [0, 1, 2, 3, 4].map(|end| journal.kept_end(end));
        assert_eq!(kept(&journal), [0, 1, 1, 3, 3], "a power cut may lose the block of records");
        journal.take_records(durable(3));
        assert_eq!(kept(&journal), [0, 1, 2, 3, 4]);
        journal.take_chunk(chunk(1), durable(4));
        assert_eq!(journal.kept_end(5), 4);
        journal.forget_before(1);
        assert_eq!(journal.kept_end(5), 5, "the checkpoint is finished");
    }

    #[test]
    fn a_full_journal_may_lack_room_for_a_larger_checkpoint() {
        let geometry = Geometry::for_device(64 << 30).unwrap();
        let grown = geometry.with_size(size_max(&geometry));
        let mut journal = Journal::new([1; 16], geometry, 0, 0);
        journal.fill();
        // Crashes in a row may each leave an unfinished checkpoint.
        assert!(journal.used() + 2 * u64::from(chunk_count(&geometry)) <= geometry.journal_blocks());
        assert!(journal.used() + u64::from(chunk_count(&grown)) > geometry.journal_blocks(), "J-1");
    }
}
