//! Zeroes whole segments, summaries included, while no daemon serves, as a discard does, or a file that is
//! truncated and extended.

use std::collections::BTreeMap;

use kickcache_engine::format::journal::{
    Chunk, Fact, JournalBlock, JournalBody, SegmentImage, SegmentKind, segments_per_chunk,
};
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::{BLOCK_SIZE, Generation, Location, SegmentIndex, Sequence};
use kickcache_random::Random;

use crate::content::Block;
use crate::device::SimulatedDevice;
use crate::index::index;
use crate::rot::journal_of;
use crate::superblock::superblock;

/// The most segments that are zeroed together, unless all of them or all following ones are.
const SEGMENTS_MAX: u64 = 3;
/// How often, in 1/1000, all following segments are zeroed.
const TAIL_PERMILLE: u64 = 100;

/// How often, in 1/1000, the journal and all segments are zeroed, if the superblock records a journal.
const ALL_PERMILLE: u64 = 150;

/// Zeroes some segments, in some cases all of them and the journal; returns the number of segments.
pub(crate) fn overwrite(cache: &mut SimulatedDevice, random: &mut Random) -> u64 {
    let Ok(superblock) = superblock(cache) else { return 0 };
    if !superblock.journal.is_empty() && random.chance(ALL_PERMILLE) {
        let geometry = &superblock.geometry;
        zero(cache, geometry.journal().start, geometry.byte_offset(Location::new(geometry.location_count())));
        return u64::from(geometry.segment_count);
    }
    let witnessed = witnessed(cache, &superblock);
    if witnessed.is_empty() {
        return 0;
    }
    let geometry = &superblock.geometry;
    let first = witnessed[random.index(witnessed.len())];
    let most = if random.chance(TAIL_PERMILLE) { u64::MAX } else { random.within(1, SEGMENTS_MAX) };
    let count = most.min(u64::from(geometry.segment_count - first.get()));
    let start = geometry.byte_offset(geometry.first_location(first));
    zero(cache, start, start + count * geometry.segment_size);
    count
}

fn zero(cache: &mut SimulatedDevice, start: u64, end: u64) {
    cache.make_all_durable();
    (start / BLOCK_SIZE..end / BLOCK_SIZE).for_each(|place| cache.prepare(place, &Block::Zeroes));
}

/// The segments that have written and live blocks according to the newest complete checkpoint, and were not opened
/// again since.
fn witnessed(cache: &SimulatedDevice, superblock: &Superblock) -> Vec<SegmentIndex> {
    let mut opened: BTreeMap<SegmentIndex, Generation> = BTreeMap::new();
    let mut checkpoints: BTreeMap<Sequence, Vec<Chunk>> = BTreeMap::new();
    for (_, JournalBlock { body, .. }) in journal_of(cache.blocks(), superblock) {
        match body {
            JournalBody::Records(records) => {
                for record in records {
                    if let Fact::Opened(segment, generation) = record.fact {
                        let newest = opened.entry(segment).or_insert(generation);
                        *newest = generation.max(*newest);
                    }
                }
            }
            JournalBody::Chunk(chunk) => checkpoints.entry(chunk.start).or_default().push(chunk),
        }
    }
    let is_whole = |chunks: &&Vec<Chunk>| chunks.len() == index(u64::from(chunks[0].count));
    let newest = checkpoints.values().rev().find(is_whole).into_iter().flatten();
    let images = newest.flat_map(|chunk| {
        (chunk.number * segments_per_chunk(&superblock.geometry)..)
            .map(SegmentIndex::new)
            .zip(&chunk.segments)
    });
    let is_newest = |segment, image: &SegmentImage| {
        opened.get(&segment).is_none_or(|generation| *generation <= image.generation)
    };
    let lives = |image: &SegmentImage| (0..image.written).any(|place| image.is_live(place));
    let in_use = images.filter(|(_, image)| image.kind == SegmentKind::InUse && lives(image));
    in_use.filter(|(segment, image)| is_newest(*segment, image)).map(|(segment, _)| segment).collect()
}
