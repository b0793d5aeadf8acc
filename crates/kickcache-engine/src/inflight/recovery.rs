//! What recovery knows so far.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::Error;
use crate::format::batch::BatchHeader;
use crate::format::bytes::crc32c;
use crate::format::durable_range::DurableRange;
use crate::format::geometry::Geometry;
use crate::format::journal::{Fact, Record, SegmentImage, SegmentKind, chunk_count, segments_per_chunk};
use crate::format::summary::{Summary, SummaryEntry};
use crate::inflight::reread::Rereads;
use crate::units::{BLOCK_BYTES, Generation, SegmentIndex, Sequence};

/// Why a block of data is not what its header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Damage {
    /// Its checksum is another: it was torn, or has rotted.
    Checksum,
    /// The cache device cannot read it.
    Unreadable,
}

/// An entry of a segment without a summary whose data is not whole.
#[derive(Clone, Debug)]
pub(crate) struct DamagedEntry {
    pub(crate) segment: SegmentIndex,
    /// The block within the segment.
    pub(crate) offset: u32,
    pub(crate) entry: SummaryEntry,
    pub(crate) damage: Damage,
}

/// What the journal holds that is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JournalSpan {
    /// Number of the oldest block that is needed.
    pub(crate) tail: u64,
    /// Number of the next block.
    pub(crate) next: u64,
    /// A block of the ring that cannot be read and may hold more that is needed.
    pub(crate) hidden: Option<u64>,
}

/// What recovery knows so far.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    pub(crate) reads_in_flight: u32,
    /// Next byte of the journal to read.
    pub(crate) journal_at: u64,
    /// Chunks of checkpoints found, by start and number, each with its journal block.
    pub(crate) chunks: BTreeMap<(Sequence, u32), (u64, Vec<SegmentImage>)>,
    /// All records found, each with its journal block.
    pub(crate) records: Vec<(u64, Record)>,
    /// Blocks of the ring that the cache device cannot read, counted from its first.
    pub(crate) unreadable_journal: BTreeSet<u64>,
    /// What could not be read together.
    pub(crate) rereads: Rereads,
    /// The newest sequence number seen.
    pub(crate) newest: Sequence,
    /// What was durable, by the first sequence number of each life, as far as anything found tells.
    pub(crate) durable: BTreeMap<Sequence, DurableRange>,
    /// The segments as the newest whole checkpoint and the records tell them.
    pub(crate) images: Vec<Option<SegmentImage>>,
    /// Next segment to read.
    pub(crate) next_segment: u32,
    /// Sequence number of the copy at each location that is in the books.
    pub(crate) sequences: Vec<Sequence>,
    /// Segments without a summary, to be summed up at the end.
    pub(crate) unsealed: Vec<Summary>,
    /// What is not whole in segments without a summary.
    pub(crate) damaged: Vec<DamagedEntry>,
    /// Segments that hold batches, with the newest sequence number in each.
    pub(crate) sealed: Vec<(Sequence, SegmentIndex)>,
    /// Gaps between the batches of segments, each with the number of the batch behind it: a header there was torn, or has
    /// rotted.
    pub(crate) gaps: Vec<(SegmentIndex, Sequence)>,
    /// A segment in which a header may stand that the cache device cannot read.
    pub(crate) hidden: Option<SegmentIndex>,
    /// Why it cannot go on.
    pub(crate) failed: Option<Error>,
}

impl Recovery {
    /// The segments as the newest whole checkpoint tells them, and the records after it; and where the journal goes on.
    pub(crate) fn digest_journal(&mut self, geometry: &Geometry) -> JournalSpan {
        let start = self.newest_whole(geometry);
        let mut images = vec![None; geometry.segment_count as usize];
        let mut tail = None;
        // Parts of a checkpoint that was not finished are not in the way: crashes in a row would fill the ring with them.
        let mut newest = self.records.iter().map(|(ring, _)| *ring).max();
        if let Some(start) = start {
            for ((_, number), (ring, segments)) in
                self.chunks.range((start, 0)..(Sequence::new(start.get() + 1), 0))
            {
                tail = Some(tail.map_or(*ring, |tail: u64| tail.min(*ring)));
                newest = newest.max(Some(*ring));
                let first = (number * segments_per_chunk(geometry)) as usize;
                for (offset, image) in segments.iter().enumerate() {
                    images[first + offset] = Some(image.clone());
                }
            }
        }
        for (ring, record) in &self.records {
            self.newest = self.newest.max(record.sequence);
            if start.is_none_or(|start| record.sequence >= start) {
                tail = Some(tail.map_or(*ring, |tail| tail.min(*ring)));
            }
            if let Fact::Opened(segment, generation) = record.fact {
                note_opened(&mut images, segment, generation, geometry);
            }
        }
        let next = newest.map_or(0, |newest| newest + 1);
        let tail = tail.unwrap_or(next);
        let hidden = self.find_hidden_records(tail, geometry.journal_blocks());
        self.images = images;
        self.chunks.clear();
        self.sequences = vec![Sequence::new(0); geometry.location_count() as usize];
        JournalSpan { tail, next, hidden }
    }

    /// The newest checkpoint of which every chunk was found.
    fn newest_whole(&self, geometry: &Geometry) -> Option<Sequence> {
        let mut starts: Vec<Sequence> = self.chunks.keys().map(|(start, _)| *start).collect();
        starts.dedup();
        starts.into_iter().rev().find(|start| {
            let range = (*start, 0)..(Sequence::new(start.get() + 1), 0);
            self.chunks.range(range).count() == chunk_count(geometry) as usize
        })
    }

    /// A block of the ring that the cache device cannot read and that may hold what recovery needs, which is known to
    /// begin at the block numbered `tail`. Unlike one that was torn it may have been whole, and durable.
    ///
    /// Records and checkpoints are written in the order of their numbers, and nothing builds on a record before those
    /// in front of it are durable. So what stands in front of a block that is older than `tail` is not needed, and what
    /// is behind the newest one is durable only if everything in between is.
    fn find_hidden_records(&self, tail: u64, ring_blocks: u64) -> Option<u64> {
        if self.unreadable_journal.is_empty() || mutant!(UnreadableRecordsIgnored) {
            return None;
        }
        let records = self.records.iter().map(|(number, _)| *number);
        let found: BTreeSet<u64> = records.chain(self.chunks.values().map(|(number, _)| *number)).collect();
        let is_unreadable = |number: &u64| self.unreadable_journal.contains(&(number % ring_blocks));
        let next = found.last().map_or(0, |newest| newest + 1);
        let end =
            (next..next + ring_blocks).find(|number| !is_unreadable(number)).unwrap_or(next + ring_blocks);
        let before = found.range(..tail.min(next)).next_back().map_or(0, |older| older + 1);
        let begin = before.max(end.saturating_sub(ring_blocks));
        (begin..end).find(is_unreadable).map(|number| number % ring_blocks)
    }

    /// Notes what was durable; of each life the most that anything tells.
    pub(crate) fn note_durable(&mut self, durable: DurableRange) {
        let known = self.durable.entry(durable.first).or_insert(durable);
        known.last = known.last.max(durable.last);
    }

    /// Whether what has this number was durable, as far as anything tells.
    pub(crate) fn was_durable(&self, sequence: Sequence) -> bool {
        let life = self.durable.range(..=sequence).next_back();
        life.is_some_and(|(_, durable)| durable.contains(sequence))
    }

    /// Takes the batches of a segment: what is whole into its summary.
    pub(crate) fn take_batches(&mut self, geometry: &Geometry, scan: &Scan<'_>, summary: &mut Summary) {
        let blocks: Vec<&[u8]> = scan.bytes.chunks_exact(BLOCK_BYTES).collect();
        for header in scan.batches {
            self.newest = self.newest.max(header.sequence);
            self.note_durable(header.durable);
            for (offset, entry) in (header.start + 1..).zip(&header.entries) {
                let (Some(key), Some(block)) = (entry.key, blocks.get(offset as usize)) else { continue };
                let (dirty, checksum) = (entry.dirty, entry.checksum);
                let entry = SummaryEntry { key, dirty, checksum, sequence: header.sequence };
                if scan.unreadable.contains(&offset) {
                    let damage = Damage::Unreadable;
                    self.damaged.push(DamagedEntry { segment: summary.segment, offset, entry, damage });
                } else if crc32c(block) == checksum {
                    summary.entries[offset as usize] = Some(entry);
                } else {
                    let damage = Damage::Checksum;
                    self.damaged.push(DamagedEntry { segment: summary.segment, offset, entry, damage });
                }
            }
        }
        self.note_gaps(geometry, summary.segment, scan);
    }

    /// Notes the gaps between the batches of a segment in which something may live, and whether a block cannot be read
    /// between them or behind the last that may be the header of something that lives.
    fn note_gaps(&mut self, geometry: &Geometry, segment: SegmentIndex, scan: &Scan<'_>) {
        let Some(image) = &self.images[segment.get() as usize] else { return };
        let mut end = 0;
        for header in scan.batches {
            if (end..header.start).any(|place| image.is_live(place)) {
                self.gaps.push((segment, header.sequence));
            }
            if scan.may_hide(end..=header.start, image) {
                self.hidden = self.hidden.or(Some(segment));
            }
            end = header.end();
        }
        if scan.may_hide(end..=geometry.batch_blocks(), image) {
            self.hidden = self.hidden.or(Some(segment));
        }
    }

    /// A segment in which a header has rotted. Batches of a segment stand back to back and in order, so that one was
    /// durable that stands before one that was.
    pub(crate) fn find_rotted_header(&self) -> Option<SegmentIndex> {
        let gap = self.gaps.iter().find(|(_, behind)| self.was_durable(*behind));
        gap.map(|(segment, _)| *segment)
    }
}

/// A segment was opened.
fn note_opened(
    images: &mut [Option<SegmentImage>],
    segment: SegmentIndex,
    generation: Generation,
    geometry: &Geometry,
) {
    let Some(image) = images.get_mut(segment.get() as usize) else { return };
    if image.as_ref().is_some_and(|image| image.generation >= generation) {
        return;
    }
    let all = vec![0xff; geometry.blocks_per_segment().div_ceil(8) as usize];
    let queue = crate::queue::Queue::Probation;
    *image = Some(SegmentImage { generation, kind: SegmentKind::InUse, queue, live: all.clone(), kept: all });
}

/// What was found in a segment without a summary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan<'a> {
    /// Its blocks in front of the summary; zeroes for those that the cache device cannot read.
    pub(crate) bytes: &'a [u8],
    /// Its batches.
    pub(crate) batches: &'a [BatchHeader],
    /// Its blocks that the cache device cannot read.
    pub(crate) unreadable: &'a BTreeSet<u32>,
}

impl Scan<'_> {
    /// Whether in front of the last of these places, behind whatever was found before the first, a block cannot be read
    /// that may be a header: something may live behind it.
    fn may_hide(&self, places: RangeInclusive<u32>, image: &SegmentImage) -> bool {
        let (from, to) = (*places.start(), *places.end());
        if from >= to || mutant!(UnreadableHeaderIgnored) {
            return false;
        }
        let first = self.unreadable.range(from..to).next();
        first.is_some_and(|first| (first + 1..to).any(|place| image.is_live(place)))
    }
}
