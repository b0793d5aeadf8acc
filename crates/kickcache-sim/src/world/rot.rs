//! Bits that flip while nobody serves, in what the log itself calls durable: recovery must not take that for a torn write.

use std::collections::BTreeMap;

use kickcache_engine::format::batch::BatchHeader;
use kickcache_engine::format::durable_range::DurableRange;
use kickcache_engine::format::geometry::Geometry;
use kickcache_engine::format::journal::JournalBlock;
use kickcache_engine::format::superblock::{SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock};
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent, SegmentIndex};

use crate::random::Random;
use crate::world::content::Block;
use crate::world::device::SimulatedDevice;
use crate::world::payload::index;

/// Blocks that rot at a time, at most.
const BLOCKS_MAX: u64 = 4;

/// Flips a bit in some blocks of data of which a journal block, or a later header of the same segment, says that they were
/// durable. Gives how many.
pub fn rot(cache: &mut SimulatedDevice, random: &mut Random) -> u64 {
    let places = durable_places(cache);
    if places.is_empty() {
        return 0;
    }
    let count = random.within(1, BLOCKS_MAX);
    for _ in 0..count {
        let start = places[random.index(places.len())] * BLOCK_SIZE;
        cache.flip_bit(ByteExtent { start, length: BLOCK_SIZE }, random);
    }
    count
}

/// The blocks of the device that hold data, whole, of which it is known that it was durable.
pub fn durable_places(cache: &SimulatedDevice) -> Vec<u64> {
    let copy = |offset: u64| cache.bytes(ByteExtent { start: offset, length: SUPERBLOCK_SIZE as u64 });
    let [first, second] = SUPERBLOCK_OFFSETS.map(copy);
    let Ok(superblock) = Superblock::decode([&first, &second], cache.size()) else { return Vec::new() };
    let geometry = superblock.geometry;
    let told = told_by_journal(cache, &superblock);
    let segments = (0..geometry.segment_count).map(SegmentIndex::new);
    segments.flat_map(|segment| durable_in(cache, &superblock, segment, &told)).collect()
}

fn blocks_of(cache: &SimulatedDevice, extent: ByteExtent) -> &[Block] {
    &cache.blocks()[index(extent.start / BLOCK_SIZE)..index(extent.end() / BLOCK_SIZE)]
}

fn told_by_journal(cache: &SimulatedDevice, superblock: &Superblock) -> Vec<DurableRange> {
    let Superblock { uuid, geometry, .. } = superblock;
    let decode = |block: &Block| match block {
        Block::Bytes(bytes) => JournalBlock::decode(&bytes[..], geometry),
        Block::Zeroes | Block::Noise(_) | Block::Stamp(_) => None,
    };
    let blocks = blocks_of(cache, geometry.journal()).iter().filter_map(decode);
    // Of a life that wrote much, one of many.
    let mut told = BTreeMap::new();
    for JournalBlock { durable, .. } in blocks.filter(|block| block.uuid == *uuid) {
        let known = told.entry(durable.first).or_insert(durable.last);
        *known = durable.last.max(*known);
    }
    told.into_iter().map(|(first, last)| DurableRange { first, last }).collect()
}

fn durable_in(
    cache: &SimulatedDevice,
    superblock: &Superblock,
    segment: SegmentIndex,
    told: &[DurableRange],
) -> Vec<u64> {
    let geometry: &Geometry = &superblock.geometry;
    let start = geometry.byte_offset(geometry.first_location(segment));
    let length = u64::from(geometry.batch_blocks()) * BLOCK_SIZE;
    let blocks = blocks_of(cache, ByteExtent { start, length });
    let decode = |(place, block): (u32, &Block)| match block {
        Block::Bytes(bytes) => BatchHeader::decode(&bytes[..]).filter(|header| {
            header.uuid == superblock.uuid && header.segment == segment && header.start == place
        }),
        Block::Zeroes | Block::Noise(_) | Block::Stamp(_) => None,
    };
    let headers: Vec<BatchHeader> = (0..).zip(blocks).filter_map(decode).collect();
    let is_durable = |header: &&BatchHeader| {
        let same_life = headers.iter().filter(|other| other.generation == header.generation);
        told.iter().any(|told| told.contains(header.sequence))
            || same_life.into_iter().any(|other| other.durable.contains(header.sequence))
    };
    let is_whole =
        |place: u64, checksum| blocks.get(index(place)).is_some_and(|found| found.checksum() == checksum);
    headers
        .iter()
        .filter(is_durable)
        .flat_map(|header| (u64::from(header.start) + 1..).zip(&header.entries))
        .filter(|(place, entry)| entry.key.is_some() && is_whole(*place, entry.checksum))
        .map(|(place, _)| start / BLOCK_SIZE + place)
        .collect()
}
