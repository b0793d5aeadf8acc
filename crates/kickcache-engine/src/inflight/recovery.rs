//! The intermediate state of recovery.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::Error;
use crate::format::batch::BatchHeader;
use crate::format::bytes::crc32c;
use crate::format::durable::Durable;
use crate::format::durable_range::DurableRange;
use crate::format::geometry::Geometry;
use crate::format::journal::{SegmentImage, chunk_count};
use crate::format::summary::{Summary, SummaryEntry};
use crate::inflight::found_journal::{FoundJournal, JournalDigest, JournalSpan};
use crate::inflight::reread::Rereads;
use crate::units::{BLOCK_BYTES, Generation, SegmentIndex, Sequence};

/// Why a block of data does not match its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Damage {
    /// The block was torn, or has rotted.
    Checksum,
    /// The cache device cannot read the block.
    Unreadable,
}

/// A damaged entry of a segment without a usable summary.
#[derive(Clone, Debug)]
pub(crate) struct DamagedEntry {
    pub(crate) segment: SegmentIndex,
    pub(crate) offset: u32,
    pub(crate) entry: SummaryEntry,
    pub(crate) damage: Damage,
}

#[derive(Debug, Default)]
pub(crate) struct Recovery {
    pub(crate) reads_in_flight: u32,
    pub(crate) journal_at: u64,
    pub(crate) journal: FoundJournal,
    pub(crate) span: JournalSpan,
    /// Torn journal blocks, by byte offset on the cache device.
    pub(crate) torn: Vec<u64>,
    /// Writes in flight that erase torn journal blocks.
    pub(crate) erasing: u32,
    /// A write that erases a torn journal block failed.
    pub(crate) has_failed_erasing: bool,
    pub(crate) rereads: Rereads,
    /// The newest sequence number found.
    pub(crate) newest: Sequence,
    /// The durable batches, by the first sequence number of each life, according to all structures found.
    pub(crate) durable: BTreeMap<Sequence, DurableRange>,
    /// The segments according to the newest complete checkpoint and the records.
    pub(crate) images: Vec<Option<SegmentImage>>,
    pub(crate) next_segment: u32,
    /// Sequence number of the copy at each location that is in the cache metadata.
    pub(crate) sequences: Vec<Sequence>,
    /// Summaries for segments without a usable one.
    pub(crate) unsealed: Vec<Summary>,
    pub(crate) damaged: Vec<DamagedEntry>,
    /// Segments that hold batches, with the newest sequence number in each.
    pub(crate) sealed: Vec<(Sequence, SegmentIndex)>,
    /// Gaps before batches of segments, each with the number of the batch.
    pub(crate) gaps: Vec<(SegmentIndex, Sequence)>,
    /// The lowest segment found that has lost durable data.
    pub(crate) overwritten: Option<SegmentIndex>,
    /// A segment in which an unreadable block may be a header.
    pub(crate) hidden: Option<SegmentIndex>,
    /// Segments with a first block that is still to be read.
    pub(crate) first_blocks: Option<Vec<SegmentIndex>>,
    /// The lowest segment with an unreadable first block.
    pub(crate) unreadable_first: Option<SegmentIndex>,
    /// The lowest opened segment found without a record of its opening in the journal.
    pub(crate) unknown: Option<SegmentIndex>,
    pub(crate) failed: Option<Error>,
}

impl Recovery {
    pub(crate) fn digest_journal(&mut self, geometry: &Geometry) {
        let JournalDigest { images, span } = self.journal.digest(geometry);
        (self.images, self.span) = (images, span);
        self.sequences = vec![Sequence::new(0); geometry.location_count() as usize];
    }

    pub(crate) fn note_durable(&mut self, durable: Durable) {
        let Durable { batches, journal } = durable;
        let known = self.durable.entry(batches.first).or_insert(batches);
        known.last = known.last.max(batches.last);
        self.journal.note_durable(journal);
    }

    /// Whether the batch of this number was durable, according to all structures found.
    pub(crate) fn was_durable(&self, sequence: Sequence) -> bool {
        let life = self.durable.range(..=sequence).next_back();
        life.is_some_and(|(_, durable)| durable.contains(sequence))
    }

    /// Records a loss if the checkpoint lists a block of a segment as durable, and no entry for it was found.
    pub(crate) fn note_found(&mut self, segment: SegmentIndex, has_entry: impl Fn(u32) -> bool) {
        let Some(image) = &self.images[segment.get() as usize] else { return };
        if image.find_lost(has_entry).is_some() && !mutant!(OverwrittenIgnored) {
            self.note_overwritten(segment);
        }
    }

    /// Records a loss if a segment has no batches, although the checkpoint shows that it had durable ones.
    pub(crate) fn note_empty(&mut self, segment: SegmentIndex) {
        let image = self.images[segment.get() as usize].as_ref();
        if image.is_some_and(SegmentImage::has_batches) && !mutant!(OverwrittenIgnored) {
            self.note_overwritten(segment);
        }
    }

    fn note_overwritten(&mut self, segment: SegmentIndex) {
        self.overwritten = Some(self.overwritten.map_or(segment, |first| first.min(segment)));
    }

    /// Records that the first block of a segment is unreadable: it may be the only proof that the journal is lost.
    pub(crate) fn note_unreadable_first(&mut self, segment: SegmentIndex) {
        self.unreadable_first = Some(self.unreadable_first.map_or(segment, |first| first.min(segment)));
    }

    /// Whether a checkpoint declares a block durable.
    pub(crate) fn was_written(&self, segment: SegmentIndex, place: u32) -> bool {
        let image = self.images[segment.get() as usize].as_ref();
        image.is_some_and(|image| place < image.written && image.is_live(place))
    }

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

    /// Records the gaps before batches of a segment that may contain live blocks, and unreadable blocks that may
    /// be headers.
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

    pub(crate) fn generation(&self, segment: SegmentIndex) -> Option<Generation> {
        let image = self.images.get(segment.get() as usize).and_then(Option::as_ref);
        image.map(|image| image.generation)
    }

    /// Number of the next journal block: numbers of lost blocks are not reused either.
    pub(crate) fn next_block(&self) -> u64 {
        self.span.next.max(self.journal.durable_end())
    }

    /// Whether the ring has space for a checkpoint after its needed part.
    pub(crate) fn fits_ring(&self, geometry: &Geometry) -> bool {
        self.next_block() - self.span.tail + u64::from(chunk_count(geometry)) <= geometry.journal_blocks()
    }

    /// A segment with a rotten header. Batches of a segment are adjacent and in order, so that a batch before a durable
    /// batch was durable too.
    pub(crate) fn find_rotted_header(&self) -> Option<SegmentIndex> {
        let gap = self.gaps.iter().find(|(_, behind)| self.was_durable(*behind));
        gap.map(|(segment, _)| *segment)
    }
}

/// The content of a segment without a usable summary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan<'a> {
    /// The segment's blocks before the summary; zeroes in place of unreadable blocks.
    pub(crate) bytes: &'a [u8],
    pub(crate) batches: &'a [BatchHeader],
    pub(crate) unreadable: &'a BTreeSet<u32>,
}

impl Scan<'_> {
    /// Whether an unreadable block before the last of these places may be a header.
    fn may_hide(&self, places: RangeInclusive<u32>, image: &SegmentImage) -> bool {
        let (from, to) = (*places.start(), *places.end());
        if from >= to || mutant!(UnreadableHeaderIgnored) {
            return false;
        }
        let first = self.unreadable.range(from..to).next();
        first.is_some_and(|first| (first + 1..to).any(|place| image.is_live(place)))
    }
}
