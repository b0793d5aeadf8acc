//! Flips bits while no daemon serves, in data that the log itself declares durable, including whole journals: recovery
//! must not treat the damage as a torn write.

use std::collections::{BTreeMap, BTreeSet};

use kickcache_engine::format::batch::BatchHeader;
use kickcache_engine::format::durable_range::DurableRange;
use kickcache_engine::format::geometry::Geometry;
use kickcache_engine::format::journal::JournalBlock;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent, SegmentIndex, Sequence};
use kickcache_random::Random;

use crate::content::Block;
use crate::device::SimulatedDevice;
use crate::index::index;
use crate::plan::faults::Rotting;
use crate::superblock::superblock;

/// Blocks of data that rot at a time, at most.
const BLOCKS_MAX: u64 = 4;
/// How often, in 1/1000, a header rots if anything may rot.
const HEADERS_PERMILLE: u64 = 200;
/// How often, in 1/1000 of the other cases, the journal rots if anything may rot.
const JOURNAL_PERMILLE: u64 = 400;
/// The share of rotten journals that lose all blocks, in 1/1000, unless [`Rotting::WholeJournal`] demands it.
const WIPED_PERMILLE: u64 = 100;
/// Half of the time, and always with [`Rotting::Data`], only this many of the newest blocks may rot.
const RECENT: usize = 32;
/// Half of the time, only this many of the newest journal blocks may rot.
const RECENT_JOURNAL: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rotted {
    /// None: the log declares no data durable that may rot.
    Nothing,
    /// Bits that flipped in blocks of data.
    Data(u64),
    Header,
    Journal,
}

/// Flips bits in data, a batch header or the journal, if the log declares blocks durable.
pub fn rot(cache: &mut SimulatedDevice, rotting: Rotting, random: &mut Random) -> Rotted {
    // Only declarations that are durable themselves count, because a power cut may remove the others. Declarations that
    // were overwritten since, durably or not, do not count either: recovery after a kill does not find them.
    let now = durable_places(cache, cache.blocks());
    let durable = durable_places(cache, &cache.durable()).and(&now);
    let flip = |cache: &mut SimulatedDevice, places: &[u64], random: &mut Random| {
        let start = places[random.index(places.len())] * BLOCK_SIZE;
        cache.flip_bit(ByteExtent { start, length: BLOCK_SIZE }, random);
    };
    let is_whole = rotting == Rotting::WholeJournal;
    let is_journal = is_whole || rotting == Rotting::Journal;
    let is_anything = rotting == Rotting::Anything;
    if is_anything && !durable.headers.is_empty() && random.chance(HEADERS_PERMILLE) {
        flip(cache, &durable.headers, random);
        return Rotted::Header;
    }
    if !durable.journal.is_empty() && (is_journal || is_anything && random.chance(JOURNAL_PERMILLE)) {
        if is_whole || random.chance(WIPED_PERMILLE) {
            all_journal(cache).iter().for_each(|place| flip(cache, &[*place], random));
        } else {
            flip(cache, sometimes_recent(&durable.journal, RECENT_JOURNAL, random), random);
        }
        return Rotted::Journal;
    }
    if durable.data.is_empty() {
        return Rotted::Nothing;
    }
    let count = random.within(1, BLOCKS_MAX);
    let among = match rotting {
        Rotting::Data => &durable.data[durable.data.len().saturating_sub(RECENT)..],
        Rotting::Anything | Rotting::Journal | Rotting::WholeJournal | Rotting::Segments => {
            sometimes_recent(&durable.data, RECENT, random)
        }
    };
    (0..count).for_each(|_| flip(cache, among, random));
    Rotted::Data(count)
}

/// Half of the time the last few of some places, which are in the order of writing; else all places.
pub(crate) fn sometimes_recent<'a>(places: &'a [u64], recent: usize, random: &mut Random) -> &'a [u64] {
    let first = if random.chance(500) { places.len().saturating_sub(recent) } else { 0 };
    &places[first..]
}

/// Undamaged blocks of a cache device that the log declares durable.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DurablePlaces {
    /// Data, in the order of writing.
    pub data: Vec<u64>,
    /// Batch headers with a batch behind them that was durable too.
    pub headers: Vec<u64>,
    /// Journal blocks that another one declares durable, in the order of writing.
    pub journal: Vec<u64>,
}

impl DurablePlaces {
    fn and(mut self, others: &DurablePlaces) -> DurablePlaces {
        let among = |places: &mut Vec<u64>, others: &[u64]| {
            let others: BTreeSet<u64> = others.iter().copied().collect();
            places.retain(|place| others.contains(place));
        };
        among(&mut self.data, &others.data);
        among(&mut self.headers, &others.headers);
        among(&mut self.journal, &others.journal);
        self
    }
}

#[derive(Default)]
struct PlacesByKind {
    data: Vec<(Sequence, u64)>,
    headers: Vec<u64>,
}

/// The places of a cache device that an image of it declares durable.
pub fn durable_places(cache: &SimulatedDevice, image: &[Block]) -> DurablePlaces {
    let Ok(superblock) = superblock(cache) else { return DurablePlaces::default() };
    let geometry = superblock.geometry;
    let journal = journal_of(image, &superblock);
    let told = told_by(&journal);
    let mut found = PlacesByKind::default();
    for segment in (0..geometry.segment_count).map(SegmentIndex::new) {
        note_segment(&mut found, image, &superblock, segment, &told);
    }
    found.data.sort_unstable();
    DurablePlaces {
        data: found.data.into_iter().map(|(_, place)| place).collect(),
        headers: found.headers,
        journal: durable_blocks(&journal),
    }
}

pub(crate) fn blocks_of(image: &[Block], extent: ByteExtent) -> &[Block] {
    &image[index(extent.start / BLOCK_SIZE)..index(extent.end() / BLOCK_SIZE)]
}

/// The valid blocks of the journal of this device, each with its place.
pub(crate) fn journal_of(image: &[Block], superblock: &Superblock) -> Vec<(u64, JournalBlock)> {
    let Superblock { uuid, geometry, .. } = superblock;
    let decode = |(place, block): (u64, &Block)| match block {
        Block::Bytes(bytes) => Some((place, JournalBlock::decode(&bytes[..], geometry)?)),
        Block::Zeroes | Block::Noise(_) | Block::Stamp(_) => None,
    };
    let journal = geometry.journal();
    let first = journal.start / BLOCK_SIZE;
    let blocks = (first..).zip(blocks_of(image, journal)).filter_map(decode);
    blocks.filter(|(_, block)| block.uuid == *uuid).collect()
}

/// Ranges of numbers by their first number, one for each life: if a life wrote several ranges, the longest.
fn longest(ranges: impl Iterator<Item = (u64, u64)>) -> BTreeMap<u64, u64> {
    let mut longest: BTreeMap<u64, u64> = BTreeMap::new();
    for (first, end) in ranges {
        let known = longest.entry(first).or_insert(end);
        *known = end.max(*known);
    }
    longest
}

fn told_by(journal: &[(u64, JournalBlock)]) -> Vec<DurableRange> {
    let batches = journal.iter().map(|(_, block)| block.durable.batches);
    let told = longest(batches.map(|told| (told.first.get(), told.last.get()))).into_iter();
    told.map(|(first, last)| DurableRange { first: Sequence::new(first), last: Sequence::new(last) })
        .collect()
}

fn durable_blocks(journal: &[(u64, JournalBlock)]) -> Vec<u64> {
    let told = journal.iter().map(|(_, block)| block.durable.journal);
    let told = longest(told.map(|told| (told.first, told.end)));
    let is_told = |number: u64| told.range(..=number).any(|(_, end)| number < *end);
    let mut found: Vec<(u64, u64)> = journal.iter().map(|(place, block)| (block.ring, *place)).collect();
    found.retain(|(number, _)| is_told(*number));
    found.sort_unstable();
    found.into_iter().map(|(_, place)| place).collect()
}

/// The places of all blocks of the journal that are durable and not written again since.
fn all_journal(cache: &SimulatedDevice) -> Vec<u64> {
    let Ok(superblock) = superblock(cache) else { return Vec::new() };
    let now = journal_of(cache.blocks(), &superblock);
    let mut durable = journal_of(&cache.durable(), &superblock);
    durable.retain(|block| now.contains(block));
    durable.into_iter().map(|(place, _)| place).collect()
}

pub(crate) fn headers_of(
    blocks: &[Block],
    superblock: &Superblock,
    segment: SegmentIndex,
) -> Vec<BatchHeader> {
    let decode = |(place, block): (u32, &Block)| match block {
        Block::Bytes(bytes) => BatchHeader::decode(&bytes[..]).filter(|header| {
            header.uuid == superblock.uuid && header.segment == segment && header.start == place
        }),
        Block::Zeroes | Block::Noise(_) | Block::Stamp(_) => None,
    };
    (0..).zip(blocks).filter_map(decode).collect()
}

fn note_segment(
    found: &mut PlacesByKind,
    image: &[Block],
    superblock: &Superblock,
    segment: SegmentIndex,
    told: &[DurableRange],
) {
    let geometry: &Geometry = &superblock.geometry;
    let start = geometry.byte_offset(geometry.first_location(segment));
    let length = u64::from(geometry.batch_blocks()) * BLOCK_SIZE;
    let blocks = blocks_of(image, ByteExtent { start, length });
    let headers = headers_of(blocks, superblock, segment);
    let place = |number: u32| start / BLOCK_SIZE + u64::from(number);
    // The declaration of the header in question does not count, because this header may be the block that rots.
    let is_durable = |header: &BatchHeader, without: &BatchHeader| {
        let others = headers.iter().filter(|other| other.start != without.start);
        let mut same_life = others.filter(|other| other.generation == header.generation);
        told.iter().any(|told| told.contains(header.sequence))
            || same_life.any(|other| other.durable.batches.contains(header.sequence))
    };
    for header in &headers {
        if is_durable(header, header) {
            let data = (header.start + 1..).zip(&header.entries);
            let is_whole = |number: u32, checksum| {
                blocks.get(number as usize).is_some_and(|block| block.checksum() == checksum)
            };
            let whole =
                data.filter(|(number, entry)| entry.key.is_some() && is_whole(*number, entry.checksum));
            found.data.extend(whole.map(|(number, _)| (header.sequence, place(number))));
        }
        let is_behind = |other: &&BatchHeader| {
            other.start > header.start && other.generation == header.generation && is_durable(other, header)
        };
        if headers.iter().any(|other| is_behind(&other)) {
            found.headers.push(place(header.start));
        }
    }
}
