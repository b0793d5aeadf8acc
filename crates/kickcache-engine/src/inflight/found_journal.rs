//! The blocks of the journal that recovery found.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::format::durable_blocks::DurableBlocks;
use crate::format::geometry::Geometry;
use crate::format::journal::{
    Chunk, Fact, JournalBody, Record, SegmentImage, SegmentKind, segments_per_chunk,
};
use crate::queue::Queue;
use crate::units::{Generation, SegmentIndex, Sequence};

/// The part of the journal that recovery needs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct JournalSpan {
    /// Number of the oldest needed block.
    pub(crate) tail: u64,
    /// Number after the newest block that counts.
    pub(crate) next: u64,
    /// An unreadable block of the ring that may contain records or chunks that recovery needs.
    pub(crate) hidden: Option<u64>,
    /// Numbers of missing blocks between needed blocks.
    missing: Vec<Range<u64>>,
}

#[derive(Debug)]
struct FoundChunk {
    block: u64,
    /// Number of the journal block at which the checkpoint began.
    begun: Option<u64>,
    count: u32,
    segments: Vec<SegmentImage>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct ChunkKey {
    start: Sequence,
    part: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FoundRecord {
    pub(crate) block: u64,
    pub(crate) record: Record,
}

pub(crate) struct JournalDigest {
    /// The segments according to the newest complete checkpoint and the records.
    pub(crate) images: Vec<Option<SegmentImage>>,
    pub(crate) span: JournalSpan,
}

#[derive(Debug, Default)]
pub(crate) struct FoundJournal {
    /// Chunks of checkpoints, by start and number.
    chunks: BTreeMap<ChunkKey, FoundChunk>,
    records: Vec<FoundRecord>,
    blocks: Vec<u64>,
    /// Blocks of the ring that the cache device cannot read, counted from its first.
    pub(crate) unreadable: BTreeSet<u64>,
    /// Blocks that were durable, according to all structures found: the largest end for each first number.
    durable: BTreeMap<u64, u64>,
}

impl FoundJournal {
    /// Adds a block; returns the newest sequence number in it.
    pub(crate) fn take(&mut self, number: u64, body: JournalBody) -> Sequence {
        self.blocks.push(number);
        match body {
            JournalBody::Records(records) => {
                let newest = records.iter().map(|record| record.sequence).max();
                self.records.extend(records.into_iter().map(|record| FoundRecord { block: number, record }));
                newest.unwrap_or(Sequence::new(0))
            }
            JournalBody::Chunk(Chunk { start, number: part, count, begun, segments }) => {
                let chunk = FoundChunk { block: number, begun, count, segments };
                self.chunks.insert(ChunkKey { start, part }, chunk);
                start
            }
        }
    }

    pub(crate) fn note_durable(&mut self, blocks: DurableBlocks) {
        if !blocks.is_empty() {
            let end = self.durable.entry(blocks.first).or_insert(blocks.end);
            *end = blocks.end.max(*end);
        }
    }

    /// A segment that was opened, and that does not exist on a device of this layout.
    pub(crate) fn find_foreign(&self, geometry: &Geometry) -> Option<SegmentIndex> {
        self.records.iter().find_map(|found| match found.record.fact {
            Fact::Opened(segment, _) if segment.get() >= geometry.segment_count => Some(segment),
            Fact::Opened(..) | Fact::Gone(_) | Fact::Clean(_) | Fact::Dropped(_) => None,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(crate) fn records(&self) -> &[FoundRecord] {
        &self.records
    }

    pub(crate) fn digest(&mut self, geometry: &Geometry) -> JournalDigest {
        let start = self.newest_whole();
        let mut images = vec![None; geometry.segment_count as usize];
        let mut tail: Option<u64> = None;
        let mut begun = None;
        // Parts of an unfinished checkpoint do not count as needed: crashes in a row would fill the ring with them.
        let mut newest = self.records.iter().map(|found| found.block).max();
        let chunks = start.map(|start| self.chunks.range(chunks_of(start)));
        for (key, chunk) in chunks.into_iter().flatten() {
            tail = Some(tail.map_or(chunk.block, |tail| tail.min(chunk.block)));
            newest = newest.max(Some(chunk.block));
            begun = begun.or(chunk.begun);
            let first = (key.part * segments_per_chunk(geometry)) as usize;
            for (offset, image) in chunk.segments.iter().enumerate() {
                images[first + offset] = Some(image.clone());
            }
        }
        for FoundRecord { block, record } in &self.records {
            if start.is_none_or(|start| record.sequence >= start) {
                tail = Some(tail.map_or(*block, |tail| tail.min(*block)));
            }
            if let Fact::Opened(segment, generation) = record.fact {
                note_opened(&mut images, segment, generation, geometry);
            }
        }
        let next = newest.map_or(0, |newest| newest + 1);
        let tail = begun.unwrap_or_else(|| tail.unwrap_or(next));
        self.blocks.sort_unstable();
        let hidden = self.find_hidden(tail, begun, geometry.journal_blocks());
        let needed = begun
            .unwrap_or_else(|| self.behind_last_before(tail))
            .max(next.saturating_sub(geometry.journal_blocks()));
        let missing = self.missing_in(needed..next);
        self.chunks.clear();
        JournalDigest { images, span: JournalSpan { tail, next, hidden, missing } }
    }

    /// The newest checkpoint with all its chunks.
    fn newest_whole(&self) -> Option<Sequence> {
        let mut starts: Vec<Sequence> = self.chunks.keys().map(|key| key.start).collect();
        starts.dedup();
        let is_whole = |start: &Sequence| {
            let mut chunks = self.chunks.range(chunks_of(*start));
            let wanted = chunks.next().map_or(0, |(_, chunk)| chunk.count as usize);
            wanted == 1 + chunks.count() || mutant!(PartialCheckpoint)
        };
        starts.into_iter().rev().find(is_whole)
    }

    /// The number after the last block found that is older than block `tail`; 0 if there is none.
    fn behind_last_before(&self, tail: u64) -> u64 {
        let older = self.blocks.partition_point(|number| *number < tail);
        older.checked_sub(1).and_then(|last| self.blocks.get(last)).map_or(0, |last| last + 1)
    }

    /// See [`JournalSpan::hidden`]. The needed part begins at the block numbered `tail`. Unlike a torn block, an
    /// unreadable one may have been complete and durable.
    fn find_hidden(&self, tail: u64, begun: Option<u64>, ring_blocks: u64) -> Option<u64> {
        if self.unreadable.is_empty() || mutant!(UnreadableRecordsIgnored) {
            return None;
        }
        let is_unreadable = |number: &u64| self.unreadable.contains(&(number % ring_blocks));
        let next = self.blocks.last().map_or(0, |newest| newest + 1);
        let end =
            (next..next + ring_blocks).find(|number| !is_unreadable(number)).unwrap_or(next + ring_blocks);
        let before = begun.unwrap_or_else(|| self.behind_last_before(tail.min(next)));
        let begin = before.max(end.saturating_sub(ring_blocks));
        (begin..end).find(is_unreadable).map(|number| number % ring_blocks)
    }

    fn missing_in(&self, needed: Range<u64>) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut next = needed.start;
        let from = self.blocks.partition_point(|number| *number < needed.start);
        let found = self.blocks.iter().skip(from).copied().take_while(|number| *number < needed.end);
        for number in found.chain([needed.end]) {
            if next < number {
                missing.push(next..number);
            }
            next = number + 1;
        }
        missing
    }

    /// Number of a lost block: it was durable, and is missing.
    pub(crate) fn find_lost(&self, span: &JournalSpan) -> Option<u64> {
        if mutant!(LostRecordsIgnored) {
            return None;
        }
        let is_durable = |number: u64| {
            self.durable
                .range(..=number)
                .any(|(first, end)| DurableBlocks { first: *first, end: *end }.contains(number))
        };
        let between =
            span.missing.iter().find_map(|missing| missing.clone().find(|number| is_durable(*number)));
        // Older versions also declare the chunks of an unfinished checkpoint durable: these blocks are behind `next`,
        // but not lost.
        let is_found = |number: &u64| self.blocks.binary_search(number).is_ok();
        between.or_else(|| (span.next..self.durable_end()).find(|number| !is_found(number)))
    }

    /// The number behind the last block that was durable.
    pub(crate) fn durable_end(&self) -> u64 {
        self.durable.values().copied().max().unwrap_or(0)
    }
}

fn chunks_of(start: Sequence) -> Range<ChunkKey> {
    ChunkKey { start, part: 0 }..ChunkKey { start: start.next(), part: 0 }
}

/// A segment was opened, unless its image has this generation or a later one: all its blocks may be live.
pub(crate) fn note_opened(
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
    let queue = Queue::Probation;
    let kind = SegmentKind::InUse;
    *image = Some(SegmentImage { generation, kind, queue, written: 0, live: all.clone(), kept: all });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::growth;
    use crate::format::journal::chunk_count;
    use crate::units::{BlockIndex, BlockKey, VolumeId};

    fn geometry() -> Geometry {
        Geometry::for_device(8 << 20).unwrap()
    }

    fn gone(sequence: u64) -> JournalBody {
        let key = BlockKey::new(VolumeId::new(0), BlockIndex::new(sequence));
        JournalBody::Records(vec![Record { sequence: Sequence::new(sequence), fact: Fact::Gone(key) }])
    }

    fn checkpoint(start: u64, begun: u64) -> Vec<(u64, JournalBody)> {
        checkpoint_of(&geometry(), start, begun)
    }

    fn checkpoint_of(geometry: &Geometry, start: u64, begun: u64) -> Vec<(u64, JournalBody)> {
        let free = SegmentKind::Free;
        let bytes = geometry.blocks_per_segment().div_ceil(8) as usize;
        let image = SegmentImage {
            generation: Generation::new(1),
            kind: free,
            queue: Queue::Probation,
            written: 0,
            live: vec![0; bytes],
            kept: vec![0; bytes],
        };
        let count = chunk_count(geometry);
        let each = segments_per_chunk(geometry);
        let chunk = |number: u32| {
            let segments = each.min(geometry.segment_count - number * each) as usize;
            let segments = vec![image.clone(); segments];
            let start = Sequence::new(start);
            JournalBody::Chunk(Chunk { start, number, count, begun: Some(begun), segments })
        };
        (begun..).zip((0..count).map(chunk)).collect()
    }

    fn found(blocks: impl IntoIterator<Item = (u64, JournalBody)>) -> FoundJournal {
        let mut journal = FoundJournal::default();
        blocks.into_iter().for_each(|(number, body)| {
            journal.take(number, body);
        });
        journal
    }

    fn lost(journal: &mut FoundJournal, durable: Range<u64>) -> Option<u64> {
        journal.note_durable(DurableBlocks { first: durable.start, end: durable.end });
        let span = journal.digest(&geometry()).span;
        journal.find_lost(&span)
    }

    #[test]
    fn a_hole_is_a_loss_if_durable_or_else_torn() {
        let blocks = || [0, 1, 3, 4].map(|number| (number, gone(10 + number)));
        assert_eq!(lost(&mut found(blocks()), 0..2), None);
        assert_eq!(lost(&mut found(blocks()), 0..3), Some(2));
        // The next daemon began after the gap that a power cut tore.
        assert_eq!(lost(&mut found(blocks()), 3..5), None);
    }

    #[test]
    fn durable_blocks_behind_the_newest_one_are_lost() {
        let blocks = || [0, 1].map(|number| (number, gone(10 + number)));
        assert_eq!(lost(&mut found(blocks()), 0..2), None);
        assert_eq!(lost(&mut found(blocks()), 0..3), Some(2));
        assert_eq!(lost(&mut found([]), 0..1), Some(0));
    }

    #[test]
    fn blocks_before_the_newest_checkpoint_are_not_missed() {
        let count = u64::from(chunk_count(&geometry()));
        let blocks = || checkpoint(20, 5).into_iter().chain([(5 + count, gone(21))]);
        let mut journal = found(blocks());
        assert_eq!(lost(&mut journal, 0..5 + count + 1), None);
        let span = found(blocks()).digest(&geometry()).span;
        assert_eq!((span.tail, span.next), (5, 5 + count + 1));
        // If a part of the checkpoint is missing, all blocks from the start are needed.
        let journal = blocks().filter(|(number, _)| *number != 5);
        assert_eq!(lost(&mut found(journal), 0..5 + count + 1), Some(0));
    }

    #[test]
    fn the_next_block_is_behind_records_and_whole_checkpoints_alone() {
        let count = u64::from(chunk_count(&geometry()));
        let unfinished = checkpoint(30, 9).into_iter().take(usize::try_from(count - 1).unwrap());
        let blocks = || unfinished.clone().chain([(8, gone(29))]);
        let span = found(blocks()).digest(&geometry()).span;
        assert_eq!(span.next, 9);
        let end = 9 + count - 1;
        assert_eq!(lost(&mut found(blocks()), 8..end), None, "all of them are present");
        assert_eq!(lost(&mut found(blocks()), 8..end + 1), Some(end));
    }

    #[test]
    fn a_checkpoint_from_before_the_device_has_grown_counts() {
        let small = geometry();
        let larger = growth::grown(&small, growth::size_max(&small)).unwrap();
        assert!(chunk_count(&larger) > chunk_count(&small));
        let old = || checkpoint_of(&small, 20, 5);
        let digest = found(old()).digest(&larger);
        assert_eq!((digest.span.tail, digest.images.len()), (5, larger.segment_count as usize));
        let known = digest.images.iter().filter(|image| image.is_some()).count();
        assert_eq!(known, small.segment_count as usize, "the later segments were never opened");
        // A larger checkpoint with a missing part does not count.
        let newer = checkpoint_of(&larger, 30, 9).into_iter().skip(1);
        assert_eq!(found(old().into_iter().chain(newer)).digest(&larger).span.tail, 5);
    }

    /// An image that a checkpoint took of an open segment is newer than the record of its opening.
    #[test]
    fn a_record_of_the_same_generation_leaves_the_image() {
        let geometry = geometry();
        let segment = SegmentIndex::new(0);
        for (generation, is_opened_anew) in [(1, false), (2, true)] {
            let fact = Fact::Opened(segment, Generation::new(generation));
            let record = Record { sequence: Sequence::new(21), fact };
            let blocks = checkpoint(20, 5).into_iter().chain([(9, JournalBody::Records(vec![record]))]);
            let images = found(blocks).digest(&geometry).images;
            assert_eq!(images[0].as_ref().unwrap().is_live(1), is_opened_anew, "{generation}");
        }
    }
}
