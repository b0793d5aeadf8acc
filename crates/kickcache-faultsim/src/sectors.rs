//! Blocks of the cache device that are unreadable when the next life begins, until they are written again.

use std::collections::BTreeMap;

use kickcache_engine::format::batch::BatchHeader;
use kickcache_engine::format::journal::{Fact, JournalBlock, JournalBody, segments_per_chunk};
use kickcache_engine::format::summary::Summary;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent, Generation, SegmentIndex, Sequence};
use kickcache_random::Random;

use crate::content::Block;
use crate::device::SimulatedDevice;
use crate::rot::{blocks_of, headers_of, sometimes_recent};
use crate::superblock::superblock;

/// The most blocks of data that are made unreadable at a time.
const BLOCKS_MAX: u64 = 4;
/// Half of the time, or always in plans that lose the newest data, only this many of the newest blocks may be
/// chosen.
const RECENT: usize = 32;
/// Half of the time, only this many of the newest headers, of the newest blocks of the journal, or of the last blocks
/// of summaries may be chosen.
const RECENT_LOG: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// No block is unreadable, because the device has no such block.
    Nothing,
    /// At most this many blocks of data.
    Data(u64),
    Summary,
    Header,
    Journal,
}

pub fn make_newest_unreadable(cache: &mut SimulatedDevice, random: &mut Random) -> Unreadable {
    let places = LogPlaces::find(cache);
    let recent = &places.data[places.data.len().saturating_sub(RECENT)..];
    lose(cache, recent, Unreadable::Data(random.within(1, BLOCKS_MAX)), random)
}

pub fn make_unreadable(cache: &mut SimulatedDevice, random: &mut Random) -> Unreadable {
    let places = LogPlaces::find(cache);
    let (among, recent, unreadable) = match random.below(10) {
        0..4 => (places.data, RECENT, Unreadable::Data(random.within(1, BLOCKS_MAX))),
        4 => (places.summaries, RECENT_LOG, Unreadable::Summary),
        5 | 6 => (places.headers, RECENT_LOG, Unreadable::Header),
        _ => (places.journal, RECENT_LOG, Unreadable::Journal),
    };
    lose(cache, sometimes_recent(&among, recent, random), unreadable, random)
}

fn lose(
    cache: &mut SimulatedDevice,
    among: &[u64],
    unreadable: Unreadable,
    random: &mut Random,
) -> Unreadable {
    if among.is_empty() {
        return Unreadable::Nothing;
    }
    let count = if let Unreadable::Data(count) = unreadable { count } else { 1 };
    (0..count).for_each(|_| cache.make_unreadable(among[random.index(among.len())]));
    unreadable
}

/// Whether an unreadable block may list other blocks.
pub fn may_hide_log(cache: &SimulatedDevice) -> bool {
    let places = LogPlaces::find(cache);
    let is_harmless = |place: &u64| {
        let is_data = places.data_of.get(place).is_some_and(|header| !cache.is_unreadable(*header));
        is_data || places.summary_blocks.contains(place)
    };
    cache.unreadable().any(|place| !is_harmless(&place))
}

/// The places of the parts of the log: the journal, headers and data in the order of writing, summaries in that of
/// their segments.
#[derive(Default)]
struct LogPlaces {
    journal: Vec<u64>,
    headers: Vec<u64>,
    data: Vec<u64>,
    /// Blocks of data, each with the place of its header.
    data_of: BTreeMap<u64, u64>,
    /// Blocks of whole summaries.
    summaries: Vec<u64>,
    /// Where summaries are, whole or not.
    summary_blocks: Vec<u64>,
}

impl LogPlaces {
    fn find(cache: &SimulatedDevice) -> LogPlaces {
        let mut places = LogPlaces::default();
        let Ok(superblock) = superblock(cache) else { return places };
        let generations = places.read_journal(cache, &superblock);
        let mut batches: Vec<(Sequence, u64, BatchHeader)> = Vec::new();
        for (segment, generation) in generations {
            places.read_summary(cache, &superblock, segment, generation);
            let geometry = &superblock.geometry;
            let start = geometry.byte_offset(geometry.first_location(segment)) / BLOCK_SIZE;
            let found = chain(cache, &superblock, segment, generation).into_iter();
            batches.extend(found.map(|header| (header.sequence, start, header)));
        }
        batches.sort_unstable_by_key(|(sequence, ..)| *sequence);
        for (_, start, header) in batches {
            let place = start + u64::from(header.start);
            places.headers.push(place);
            let data = (place + 1..).zip(&header.entries).map(|(data, _)| data);
            for data in data {
                places.data.push(data);
                places.data_of.insert(data, place);
            }
        }
        places
    }

    /// Adds the blocks of the journal, and returns the newest recorded generation of each segment.
    fn read_journal(
        &mut self,
        cache: &SimulatedDevice,
        superblock: &Superblock,
    ) -> BTreeMap<SegmentIndex, Generation> {
        let geometry = &superblock.geometry;
        let mut generations: BTreeMap<SegmentIndex, Generation> = BTreeMap::new();
        let mut note = |segment, generation| {
            let known = generations.entry(segment).or_insert(generation);
            *known = generation.max(*known);
        };
        let mut found = Vec::new();
        let first = geometry.journal().start / BLOCK_SIZE;
        for (place, block) in (first..).zip(blocks_of(cache.blocks(), geometry.journal())) {
            let Block::Bytes(bytes) = block else { continue };
            let decoded = JournalBlock::decode(&bytes[..], geometry);
            let Some(block) = decoded.filter(|block| block.uuid == superblock.uuid) else { continue };
            found.push((block.ring, place));
            match block.body {
                JournalBody::Records(records) => {
                    for record in records {
                        if let Fact::Opened(segment, generation) = record.fact {
                            note(segment, generation);
                        }
                    }
                }
                JournalBody::Chunk(chunk) => {
                    let first = chunk.number * segments_per_chunk(geometry);
                    for (segment, image) in (first..).zip(&chunk.segments) {
                        note(SegmentIndex::new(segment), image.generation);
                    }
                }
            }
        }
        found.sort_unstable();
        self.journal = found.into_iter().map(|(_, place)| place).collect();
        generations
    }

    fn read_summary(
        &mut self,
        cache: &SimulatedDevice,
        superblock: &Superblock,
        segment: SegmentIndex,
        generation: Generation,
    ) {
        let geometry = &superblock.geometry;
        let start = geometry.byte_offset(geometry.first_location(segment).plus(geometry.batch_blocks()));
        let length = u64::from(geometry.summary_blocks()) * BLOCK_SIZE;
        let blocks = start / BLOCK_SIZE..(start + length) / BLOCK_SIZE;
        self.summary_blocks.extend(blocks.clone());
        let summary = Summary::decode(&cache.bytes(ByteExtent { start, length }), geometry);
        if summary.is_some_and(|summary| summary.generation == generation) {
            self.summaries.extend(blocks);
        }
    }
}

/// The batches of one generation of a segment, back to back from its first block on.
fn chain(
    cache: &SimulatedDevice,
    superblock: &Superblock,
    segment: SegmentIndex,
    generation: Generation,
) -> Vec<BatchHeader> {
    let geometry = &superblock.geometry;
    let start = geometry.byte_offset(geometry.first_location(segment));
    let length = u64::from(geometry.batch_blocks()) * BLOCK_SIZE;
    let blocks = blocks_of(cache.blocks(), ByteExtent { start, length });
    let mut end = 0;
    let mut found = headers_of(blocks, superblock, segment);
    found.retain(|header| header.generation == generation);
    found.retain(|header| {
        let is_next = header.start == end;
        end = if is_next { header.end() } else { end };
        is_next
    });
    found
}
