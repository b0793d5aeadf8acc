//! Searches for the cached blocks of an extent, in steps.
//!
//! Searches over the segments of one volume share their rounds: each search begins at the present position and needs
//! about one round at most.
//!
//! Invariants:
//! * F-1: when a search ends, it has found every cached block of its extent, also a block that reclaim moved meanwhile.

use crate::cache::searches::{BlockSearch, SegmentSearch};
use crate::cache::slots::SlotState;
use crate::cache::{Cache, CachedBlock};
use crate::ids::RequestSlot;
use crate::inflight::blocks::blocks_of;
use crate::units::{BlockIndex, BlockKey, ByteExtent, SegmentIndex, VolumeId};

/// Steps of a look-up in the index, which waits for memory.
const LOOKUP_STEPS: u32 = 8;

/// The next result of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SearchResult {
    /// A block that a search has found.
    Block(RequestSlot, CachedBlock),
    /// A search ended.
    End(RequestSlot),
    /// No result.
    Nothing,
}

impl Cache {
    pub(crate) fn begin_search(&mut self, id: RequestSlot, volume: VolumeId, extent: ByteExtent) {
        let first = blocks_of(extent).next().map_or(0, BlockIndex::get);
        let blocks = first..first + blocks_of(extent).len() as u64;
        let count = self.segments.count();
        let held = u64::from(self.segments.holding(volume)) * u64::from(self.geometry.batch_blocks());
        let found = self.searches.begin(volume);
        let waiting = found.block_count() + (blocks.end - blocks.start);
        if waiting * u64::from(LOOKUP_STEPS) <= held + u64::from(count) {
            let next = blocks.start;
            found.by_block.push_back(BlockSearch { id, blocks, next });
            return;
        }
        // The current segment counts only if the search examines it from its first block on.
        let left = count + u32::from(found.offset > 0);
        let at = found.by_segment.partition_point(|search| search.blocks.start < blocks.start);
        found.by_segment.insert(at, SegmentSearch { id, blocks, left });
    }

    /// The next result of the searches for blocks of a volume, with this many steps left.
    pub(crate) fn search(&mut self, volume: VolumeId, steps: &mut u32) -> SearchResult {
        let is_empty = self.volume(volume).cached == 0;
        let Cache { geometry, index, slots, segments, searches, .. } = self;
        let Some(found) = searches.of(volume) else { return SearchResult::Nothing };
        while *steps > 0 {
            if let Some(id) = found.ended.pop() {
                return SearchResult::End(id);
            }
            if found.is_over() {
                searches.end(volume);
                return SearchResult::Nothing;
            }
            if is_empty {
                let ended = found.end_any();
                found.ended.extend(ended);
                continue;
            }
            if let Some(key) = found.late.pop() {
                *steps = steps.saturating_sub(LOOKUP_STEPS);
                if let Some(id) = found.search_for(key.block())
                    && let Some(location) = index.find(key, slots)
                {
                    return SearchResult::Block(id, CachedBlock { key, location });
                }
                continue;
            }
            if let Some(search) = found.by_block.front_mut() {
                if search.next == search.blocks.end {
                    let id = search.id;
                    found.by_block.pop_front();
                    return SearchResult::End(id);
                }
                let key = BlockKey::new(volume, BlockIndex::new(search.next));
                search.next += 1;
                *steps = steps.saturating_sub(LOOKUP_STEPS);
                if let Some(location) = index.find(key, slots) {
                    return SearchResult::Block(search.id, CachedBlock { key, location });
                }
                continue;
            }
            *steps -= 1;
            let segment = SegmentIndex::new(found.segment);
            let is_held = found.offset > 0 || segments.get(segment).volumes.contains(volume);
            if is_held && found.offset < geometry.batch_blocks() {
                let location = geometry.first_location(segment).plus(found.offset);
                found.offset += 1;
                if slots.state(location) == SlotState::Dead || slots.key(location).volume() != volume {
                    continue;
                }
                found.is_unused = false;
                let key = slots.key(location);
                if let Some(id) = found.segment_search_for(key.block()) {
                    return SearchResult::Block(id, CachedBlock { key, location });
                }
            } else if let Some(unused) = found.end_segment(segments.count()) {
                segments.set_unused(unused, volume);
            }
        }
        SearchResult::Nothing
    }

    pub(crate) fn next_searched_volume(&mut self) -> Option<VolumeId> {
        self.searches.next_volume()
    }

    pub(crate) fn is_searching(&self) -> bool {
        !self.searches.is_empty()
    }

    /// The cached blocks of an extent, found by looking at every slot.
    pub(crate) fn cached_blocks_of(
        &self,
        volume: VolumeId,
        extent: ByteExtent,
    ) -> impl Iterator<Item = CachedBlock> {
        let segments = (0..self.segments.count()).map(SegmentIndex::new);
        let live = segments.flat_map(|segment| self.live_in(segment));
        let blocks = live.map(|location| CachedBlock { key: self.slots.key(location), location });
        blocks.filter(move |CachedBlock { key, .. }| {
            key.volume() == volume
                && blocks_of(extent)
                    .next()
                    .is_some_and(|first| key.block() >= first && key.block().byte_offset() < extent.end())
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::format::geometry::Geometry;
    use crate::units::{BLOCK_SIZE, Checksum, Location};

    const VOLUME: VolumeId = VolumeId::new(1);
    const OTHER: VolumeId = VolumeId::new(2);
    const ID: RequestSlot = RequestSlot(7);

    fn key(volume: VolumeId, block: u64) -> BlockKey {
        BlockKey::new(volume, BlockIndex::new(block))
    }

    fn extent(first: u64, count: u64) -> ByteExtent {
        ByteExtent { start: first * BLOCK_SIZE, length: count * BLOCK_SIZE }
    }

    fn cache() -> Cache {
        Cache::new(Geometry::for_device(64 << 20).unwrap())
    }

    fn place(cache: &Cache, segment: u32, offset: u32) -> Location {
        cache.geometry().first_location(SegmentIndex::new(segment)).plus(offset)
    }

    fn put(cache: &mut Cache, key: BlockKey, (segment, offset): (u32, u32)) {
        let location = place(cache, segment, offset);
        cache.insert(key, location, Checksum::new(0), SlotState::Clean);
    }

    fn remove_all(cache: &mut Cache, volume: VolumeId) -> (Vec<u64>, u32) {
        let (mut left, mut blocks) = (u32::MAX, Vec::new());
        loop {
            match cache.search(volume, &mut left) {
                SearchResult::Block(_, block) => {
                    cache.remove(block.key);
                    blocks.push(block.key.block().get());
                }
                SearchResult::End(_) => {}
                SearchResult::Nothing => break,
            }
        }
        blocks.sort_unstable();
        cache.check();
        (blocks, u32::MAX - left)
    }

    #[test]
    fn a_long_extent_costs_only_segments_of_its_volume() {
        let mut cache = cache();
        let (all, a_segment) = (cache.segments().count(), cache.geometry().batch_blocks());
        for segment in 0..all {
            put(&mut cache, key(OTHER, segment.into()), (segment, 0));
        }
        let far = (14 << 40) / BLOCK_SIZE - 1;
        for (segment, block) in [(3, 5), (8, 1 << 20), (9, far), (9, far + 1)] {
            let offset = 1 + u32::try_from(block % 2).unwrap();
            put(&mut cache, key(VOLUME, block), (segment, offset));
        }
        cache.begin_search(ID, VOLUME, extent(0, far + 1));
        let (blocks, steps) = remove_all(&mut cache, VOLUME);
        assert_eq!(blocks, [5, 1 << 20, far]);
        assert!(steps <= all + 3 * a_segment, "{steps} steps");
        assert_eq!(cache.find(key(VOLUME, far + 1)), Some(place(&cache, 9, 1)));
        assert_eq!(cache.volume(OTHER).cached, u64::from(all));
    }

    #[test]
    fn a_short_extent_costs_its_own_blocks() {
        let mut cache = cache();
        for segment in 0..cache.segments().count() {
            put(&mut cache, key(VOLUME, u64::from(segment) * 10), (segment, 0));
        }
        cache.begin_search(ID, VOLUME, extent(100, 30));
        let (blocks, steps) = remove_all(&mut cache, VOLUME);
        assert_eq!((blocks, steps), (alloc::vec![100, 110, 120], 30 * LOOKUP_STEPS));
    }

    #[test]
    fn a_search_ends_at_once_without_blocks_of_the_volume() {
        let mut cache = cache();
        put(&mut cache, key(VOLUME, 1), (0, 0));
        cache.begin_search(ID, VOLUME, extent(0, 1 << 30));
        assert_eq!(remove_all(&mut cache, VOLUME), (alloc::vec![1], 1));
        assert!(!cache.is_searching());
    }

    #[test]
    fn a_block_moved_behind_the_search_is_found() {
        let mut cache = cache();
        for block in 0..8 {
            put(&mut cache, key(VOLUME, block), (4 + u32::try_from(block).unwrap(), 0));
        }
        cache.begin_search(ID, VOLUME, extent(0, 1 << 30));
        let mut steps = 5;
        assert!(
            matches!(cache.search(VOLUME, &mut steps), SearchResult::Block(ID, block) if block.key == key(VOLUME, 0))
        );
        // Blocks before, after and at the position of the search.
        for (block, segment) in [(5, 0), (6, 100), (7, 4), (0, 1)] {
            put(&mut cache, key(VOLUME, block), (segment, 9));
        }
        assert_eq!(remove_all(&mut cache, VOLUME).0, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(cache.volume(VOLUME).cached, 0);
    }

    #[test]
    fn searches_of_a_volume_go_round_its_segments_together() {
        let mut cache = cache();
        let (count, a_segment) = (cache.segments().count(), cache.geometry().batch_blocks());
        for segment in 0..count {
            for offset in 0..a_segment {
                let block = u64::from(segment * a_segment + offset) * 1_000;
                put(&mut cache, key(VOLUME, block), (segment, offset));
            }
        }
        let begin = |cache: &mut Cache, number: u32| {
            cache.begin_search(RequestSlot(number), VOLUME, extent(u64::from(number) << 20, 1 << 20));
        };
        (0..2).for_each(|number| begin(&mut cache, number));
        let mut half = count * a_segment / 2;
        let mut found = 0;
        while half > 0 {
            if let SearchResult::Block(_, block) = cache.search(VOLUME, &mut half) {
                cache.remove(block.key);
                found += 1;
            }
        }
        begin(&mut cache, 2);
        let (blocks, steps) = remove_all(&mut cache, VOLUME);
        let wanted = (0..u64::from(count * a_segment)).filter(|number| number * 1_000 < 3 << 20).count();
        assert_eq!(blocks.len() + found, wanted);
        assert!(steps <= count * (a_segment + 1) + a_segment, "the third begins in the middle: {steps}");
    }

    #[test]
    fn segments_that_a_device_grows_by_are_looked_at_too() {
        let mut cache = cache();
        let grown = cache.geometry().with_size(80 << 20);
        for (block, segment) in [(4, 200), (3, 240), (5, 245), (1 << 30, 210)] {
            put(&mut cache, key(VOLUME, block), (segment, 0));
        }
        let mut steps = 245 + 2 * cache.geometry().batch_blocks();
        cache.begin_search(ID, VOLUME, extent(3, 1 << 20));
        assert!(matches!(cache.search(VOLUME, &mut steps), SearchResult::Block(..)));
        while cache.search(VOLUME, &mut steps) != SearchResult::Nothing {}
        // This search begins after the segment of its block.
        cache.begin_search(RequestSlot(8), VOLUME, extent(1 << 30, 1 << 20));
        cache.begin_growth(&grown).unwrap();
        while cache.grow(&grown) == crate::step::Step::More {}
        cache.use_grown(grown, crate::units::Generation::new(0));
        assert_eq!(remove_all(&mut cache, VOLUME).0, [5, 1 << 30]);
    }
}
