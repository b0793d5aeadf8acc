//! Bits that flip while nobody serves, in what the log itself calls durable: recovery must not take that for a torn write.

use std::collections::{BTreeMap, BTreeSet};

use kickcache_engine::format::batch::BatchHeader;
use kickcache_engine::format::durable_range::DurableRange;
use kickcache_engine::format::geometry::Geometry;
use kickcache_engine::format::journal::JournalBlock;
use kickcache_engine::format::superblock::{SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock};
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent, SegmentIndex, Sequence};
use kickcache_random::Random;

use crate::content::Block;
use crate::device::SimulatedDevice;
use crate::index::index;

/// Blocks that rot at a time, at most.
const BLOCKS_MAX: u64 = 4;
/// Of what rots, headers, in 1/1000.
const HEADERS_PERMILLE: u64 = 300;
/// Blocks that were written last stand in segments without a summary, where recovery looks at data: half of the time it is
/// one of so many that rots.
const RECENT: usize = 32;

/// What has rotted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rotted {
    /// Nothing is known to be durable.
    Nothing,
    /// So many blocks of data.
    Data(u64),
    /// A batch header: nobody knows any more which blocks it named.
    Header,
}

/// Flips a bit in some blocks of data, or in a batch header, of which a journal block, or a header of the same segment, says
/// that they were durable.
pub fn rot(cache: &mut SimulatedDevice, random: &mut Random) -> Rotted {
    // Only what is durable itself tells what was, for a power cut may take the rest; and what was written over since,
    // durably or not, tells nothing to who reads after a kill.
    let now = durable_places(cache, cache.blocks());
    let durable = durable_places(cache, &cache.durable()).and(&now);
    let flip = |cache: &mut SimulatedDevice, places: &[u64], random: &mut Random| {
        let start = places[random.index(places.len())] * BLOCK_SIZE;
        cache.flip_bit(ByteExtent { start, length: BLOCK_SIZE }, random);
    };
    if !durable.headers.is_empty() && random.chance(HEADERS_PERMILLE) {
        flip(cache, &durable.headers, random);
        return Rotted::Header;
    }
    if durable.data.is_empty() {
        return Rotted::Nothing;
    }
    let count = random.within(1, BLOCKS_MAX);
    let recent = if random.chance(500) { durable.data.len().saturating_sub(RECENT) } else { 0 };
    (0..count).for_each(|_| flip(cache, &durable.data[recent..], random));
    Rotted::Data(count)
}

/// Blocks of a cache device of which the log says that they were durable, and which are whole.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DurablePlaces {
    /// Data, in the order of writing.
    pub data: Vec<u64>,
    /// Batch headers with a batch behind them that was durable too.
    pub headers: Vec<u64>,
}

impl DurablePlaces {
    /// What is among others, too.
    fn and(mut self, others: &DurablePlaces) -> DurablePlaces {
        let (data, headers): (BTreeSet<u64>, BTreeSet<u64>) =
            (others.data.iter().copied().collect(), others.headers.iter().copied().collect());
        self.data.retain(|place| data.contains(place));
        self.headers.retain(|place| headers.contains(place));
        self
    }
}

/// The same, data with the sequence number of its batch.
#[derive(Default)]
struct Found {
    data: Vec<(Sequence, u64)>,
    headers: Vec<u64>,
}

/// What a cache device holds that was durable, as an image of it tells.
pub fn durable_places(cache: &SimulatedDevice, image: &[Block]) -> DurablePlaces {
    let copy = |offset: u64| cache.bytes(ByteExtent { start: offset, length: SUPERBLOCK_SIZE as u64 });
    let [first, second] = SUPERBLOCK_OFFSETS.map(copy);
    let Ok(superblock) = Superblock::decode([&first, &second], cache.size()) else {
        return DurablePlaces::default();
    };
    let geometry = superblock.geometry;
    let told = told_by_journal(image, &superblock);
    let mut found = Found::default();
    for segment in (0..geometry.segment_count).map(SegmentIndex::new) {
        note_segment(&mut found, image, &superblock, segment, &told);
    }
    found.data.sort_unstable();
    DurablePlaces { data: found.data.into_iter().map(|(_, place)| place).collect(), headers: found.headers }
}

pub(crate) fn blocks_of(image: &[Block], extent: ByteExtent) -> &[Block] {
    &image[index(extent.start / BLOCK_SIZE)..index(extent.end() / BLOCK_SIZE)]
}

fn told_by_journal(image: &[Block], superblock: &Superblock) -> Vec<DurableRange> {
    let Superblock { uuid, geometry, .. } = superblock;
    let decode = |block: &Block| match block {
        Block::Bytes(bytes) => JournalBlock::decode(&bytes[..], geometry),
        Block::Zeroes | Block::Noise(_) | Block::Stamp(_) => None,
    };
    let blocks = blocks_of(image, geometry.journal()).iter().filter_map(decode);
    // Of a life that wrote much, one of many.
    let mut told = BTreeMap::new();
    for JournalBlock { durable, .. } in blocks.filter(|block| block.uuid == *uuid) {
        let known = told.entry(durable.first).or_insert(durable.last);
        *known = durable.last.max(*known);
    }
    told.into_iter().map(|(first, last)| DurableRange { first, last }).collect()
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
    found: &mut Found,
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
    // Not by what the header in question says itself: that may be what rots.
    let is_durable = |header: &BatchHeader, without: &BatchHeader| {
        let others = headers.iter().filter(|other| other.start != without.start);
        let mut same_life = others.filter(|other| other.generation == header.generation);
        told.iter().any(|told| told.contains(header.sequence))
            || same_life.any(|other| other.durable.contains(header.sequence))
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
