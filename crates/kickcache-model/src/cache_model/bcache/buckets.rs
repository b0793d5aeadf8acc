//! The buckets of a bcache: their contents, the order in which they are reused, and the part in use.
//!
//! Functions in brackets are in `drivers/md/bcache/alloc.c` and `btree.c`, Linux 6.6. Leaves out moving live data out of
//! sparse buckets (`copy_gc_enabled`, which is off by default).

use std::collections::{BTreeSet, VecDeque};

use kickcache_engine::units::BLOCK_SIZE;

use crate::cache_model::bcache::geometry::Geometry;
use crate::cache_model::block_state::BlockState;

/// Priority of a bucket when its filling begins, and after each read of its blocks (`INITIAL_PRIO`).
const PRIORITY_INITIAL: u32 = 32_768;
/// Traffic of one part in this many of the cache takes one from every priority (`bch_rescale_priorities`).
const DECAY_SHARE: u64 = 1024;
/// A collection is due once one part in this many of the cache was inserted since the last one
/// (`set_gc_sectors`).
const COLLECT_SHARE: u64 = 16;
const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
struct Bucket {
    priority: u32,
    blocks: Vec<u64>,
    /// Blocks that are still valid.
    live: u32,
    live_collected: u32,
    dirty: u32,
    /// Whether the bucket was dirty at the last collection or later (`GC_MARK_DIRTY`).
    is_marked_dirty: bool,
    use_now: Use,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Use {
    #[default]
    Unused,
    Free,
    Open,
    Full,
    Metadata,
}

/// A dirty extent of one bucket, which bcache writes back as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DirtyKey {
    pub(super) first: u64,
    pub(super) count: u64,
    /// Place of the first block, in blocks of the cache device.
    place: u32,
}

impl DirtyKey {
    pub(super) fn blocks(self) -> std::ops::Range<u64> {
        self.first..self.first + self.count
    }

    pub(super) fn end(self) -> u64 {
        self.first + self.count
    }

    pub(super) fn bytes(self) -> u64 {
        self.count * BLOCK_SIZE
    }
}

#[derive(Debug)]
pub(super) struct Buckets {
    geometry: Geometry,
    buckets: Vec<Bucket>,
    free: VecDeque<u32>,
    /// Buckets with new generations that are not durable yet (`free_inc`).
    prepared: Vec<u32>,
    /// By block of the origin: its place, in blocks of the cache device; `NOWHERE` if it is not cached.
    place_of: Vec<u32>,
    dirty_blocks: BTreeSet<u64>,
    /// Buckets that can be reused, as of the last collection, less those taken since (`avail_nbuckets`).
    available: u64,
    cached_blocks: u64,
    nodes: u64,
    traffic: u64,
    inserted: u64,
    /// The bucket that each job fills; `NOWHERE` if it has none.
    open: Vec<u32>,
}

impl Buckets {
    pub(super) fn new(geometry: Geometry, origin_bytes: u64) -> Buckets {
        let blocks = usize::try_from(origin_bytes.div_ceil(BLOCK_SIZE)).expect("fits the address space");
        let mut all = vec![Bucket::default(); geometry.bucket_count as usize];
        let fixed = usize::try_from(geometry.fixed_buckets()).expect("fewer than all");
        all[..fixed].iter_mut().for_each(|bucket| bucket.use_now = Use::Metadata);
        let mut buckets = Buckets {
            geometry,
            buckets: all,
            free: VecDeque::new(),
            prepared: Vec::new(),
            place_of: vec![NOWHERE; blocks],
            dirty_blocks: BTreeSet::new(),
            available: u64::from(geometry.bucket_count) - geometry.fixed_buckets(),
            cached_blocks: 0,
            nodes: 0,
            traffic: 0,
            inserted: 0,
            open: Vec::new(),
        };
        buckets.prepare();
        buckets.release();
        buckets
    }

    fn count(&self) -> u64 {
        self.buckets.len() as u64
    }

    pub(super) fn in_use_percent(&self) -> u64 {
        self.used() * 100 / self.count()
    }

    pub(super) fn used(&self) -> u64 {
        self.count() - self.available
    }

    pub(super) fn dirty_bytes(&self) -> u64 {
        self.dirty_blocks.len() as u64 * BLOCK_SIZE
    }

    pub(super) fn cache_bytes(&self) -> u64 {
        self.count() * self.geometry.bucket_bytes
    }

    pub(super) fn cached_blocks(&self) -> u64 {
        self.cached_blocks
    }

    pub(super) fn is_cached(&self, block: u64) -> bool {
        self.place_of[slot(block)] != NOWHERE
    }

    fn bucket_of(&self, block: u64) -> Option<usize> {
        let place = self.place_of[slot(block)];
        (place != NOWHERE).then(|| (place / self.geometry.bucket_blocks()) as usize)
    }

    pub(super) fn offset(&self, block: u64) -> u64 {
        u64::from(self.place_of[slot(block)]) * BLOCK_SIZE
    }

    pub(super) fn touch(&mut self, block: u64) {
        if let Some(bucket) = self.bucket_of(block) {
            self.buckets[bucket].priority = PRIORITY_INITIAL;
        }
    }

    pub(super) fn on_traffic(&mut self, bytes: u64) {
        self.traffic += bytes;
        let step = (self.cache_bytes() / DECAY_SHARE).max(1);
        while self.traffic >= step {
            self.traffic -= step;
            for bucket in &mut self.buckets {
                bucket.priority = bucket.priority.saturating_sub(1);
            }
        }
    }

    /// Blocks that a job can insert without waiting for a bucket.
    pub(super) fn room(&self, job: usize) -> u64 {
        let bucket_blocks = u64::from(self.geometry.bucket_blocks());
        let open = self.open.get(job).filter(|bucket| **bucket != NOWHERE);
        let left =
            open.map_or(0, |bucket| bucket_blocks - self.buckets[*bucket as usize].blocks.len() as u64);
        left + self.free.len() as u64 * bucket_blocks
    }

    pub(super) fn insert(&mut self, job: usize, block: u64, state: BlockState) -> bool {
        let Some(bucket) = self.open_bucket(job) else { return false };
        self.remove(block);
        let bucket_blocks = self.geometry.bucket_blocks();
        let found = &mut self.buckets[bucket as usize];
        let within = u32::try_from(found.blocks.len()).expect("at most a bucket");
        found.blocks.push(block);
        found.live += 1;
        if state == BlockState::Dirty {
            found.dirty += 1;
            found.is_marked_dirty = true;
            self.dirty_blocks.insert(block);
        }
        if within + 1 == bucket_blocks {
            found.use_now = Use::Full;
            self.open[job] = NOWHERE;
        }
        self.place_of[slot(block)] = bucket * bucket_blocks + within;
        self.cached_blocks += 1;
        self.inserted += BLOCK_SIZE;
        true
    }

    fn open_bucket(&mut self, job: usize) -> Option<u32> {
        if job >= self.open.len() {
            self.open.resize(job + 1, NOWHERE);
        }
        if self.open[job] == NOWHERE {
            self.open[job] = self.take_free(Use::Open)?;
        }
        Some(self.open[job])
    }

    fn take_free(&mut self, use_now: Use) -> Option<u32> {
        let bucket = self.free.pop_front()?;
        self.available = self.available.saturating_sub(1);
        let live_collected = self.geometry.bucket_blocks();
        self.buckets[bucket as usize] =
            Bucket { priority: PRIORITY_INITIAL, live_collected, use_now, ..Bucket::default() };
        Some(bucket)
    }

    pub(super) fn hold_nodes(&mut self, count: u64) {
        while self.nodes < count && self.take_free(Use::Metadata).is_some() {
            self.nodes += 1;
        }
    }

    pub(super) fn is_short(&self) -> bool {
        self.free.len() <= self.geometry.reserve() && self.prepared.is_empty()
    }

    /// Takes buckets for reuse, up to the number that is prepared at a time (`invalidate_buckets_lru`);
    /// `false` if there are none.
    pub(super) fn prepare(&mut self) -> bool {
        let in_use = self.buckets.iter().filter(|bucket| bucket.use_now == Use::Full);
        let least = in_use.map(|bucket| bucket.priority).min().unwrap_or(0);
        let value = |bucket: &Bucket| {
            let above = bucket.priority.saturating_sub(least) + (PRIORITY_INITIAL - least) / 8;
            u64::from(above) * u64::from(bucket.live_collected)
        };
        let mut candidates: Vec<(u64, u32)> = (0..)
            .zip(&self.buckets)
            .filter_map(|(index, bucket): (u32, &Bucket)| match bucket.use_now {
                Use::Unused => Some((0, index)),
                Use::Full if !bucket.is_marked_dirty => Some((value(bucket).max(1), index)),
                Use::Full | Use::Free | Use::Open | Use::Metadata => None,
            })
            .collect();
        candidates.sort_unstable();
        candidates.truncate(self.geometry.prepared_max());
        for (_, index) in &candidates {
            self.empty(*index);
        }
        self.prepared.extend(candidates.iter().map(|(_, index)| *index));
        !candidates.is_empty()
    }

    fn empty(&mut self, index: u32) {
        let bucket_blocks = self.geometry.bucket_blocks();
        let blocks = std::mem::take(&mut self.buckets[index as usize].blocks);
        for block in blocks {
            let place = &mut self.place_of[slot(block)];
            if *place != NOWHERE && *place / bucket_blocks == index {
                *place = NOWHERE;
                self.cached_blocks -= 1;
            }
        }
        self.buckets[index as usize] = Bucket { use_now: Use::Free, ..Bucket::default() };
    }

    pub(super) fn release(&mut self) {
        self.free.extend(self.prepared.drain(..));
    }

    pub(super) fn remove(&mut self, block: u64) {
        let Some(bucket) = self.bucket_of(block) else { return };
        self.place_of[slot(block)] = NOWHERE;
        self.cached_blocks -= 1;
        self.buckets[bucket].live -= 1;
        if self.dirty_blocks.remove(&block) {
            self.buckets[bucket].dirty -= 1;
        }
    }

    /// Marks the blocks of a key clean unless they were written or dropped since.
    pub(super) fn set_clean(&mut self, key: DirtyKey) {
        for (block, place) in key.blocks().zip(key.place..) {
            if self.place_of[slot(block)] == place && self.dirty_blocks.remove(&block) {
                self.buckets[(place / self.geometry.bucket_blocks()) as usize].dirty -= 1;
            }
        }
    }

    /// The first dirty key that begins at a block or behind it.
    pub(super) fn dirty_key(&self, from: u64) -> Option<DirtyKey> {
        let mut run = self.dirty_blocks.range(from..).map(|block| (*block, self.place_of[slot(*block)]));
        let (first, place) = run.next()?;
        let bucket = |place: u32| place / self.geometry.bucket_blocks();
        let follows = |(number, found): &(u32, (u64, u32))| {
            *found == (first + u64::from(*number), place + number) && bucket(found.1) == bucket(place)
        };
        let count = 1 + (1..).zip(run).take_while(follows).count() as u64;
        Some(DirtyKey { first, count, place })
    }

    /// Whether none of a key's blocks was written or dropped since the key was found.
    pub(super) fn is_current(&self, key: DirtyKey) -> bool {
        key.blocks().zip(key.place..).all(|(block, place)| self.place_of[slot(block)] == place)
    }

    pub(super) fn is_collection_due(&self) -> bool {
        self.inserted >= self.cache_bytes() / COLLECT_SHARE
    }

    pub(super) fn collect(&mut self) {
        self.inserted = 0;
        self.available = 0;
        for bucket in &mut self.buckets {
            bucket.live_collected = bucket.live;
            bucket.is_marked_dirty = bucket.dirty > 0;
            let is_available = match bucket.use_now {
                Use::Unused | Use::Free => true,
                Use::Full => !bucket.is_marked_dirty,
                Use::Open | Use::Metadata => false,
            };
            self.available += u64::from(is_available);
        }
    }
}

fn slot(block: u64) -> usize {
    usize::try_from(block).expect("blocks are on the origin")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: u64 = 128;

    fn buckets() -> Buckets {
        Buckets::new(Geometry { bucket_bytes: BLOCKS * BLOCK_SIZE, bucket_count: 20 }, 1 << 30)
    }

    fn insert(buckets: &mut Buckets, block: u64, state: BlockState) {
        if buckets.is_short() {
            buckets.prepare();
            buckets.release();
        }
        assert!(buckets.insert(0, block, state), "{block}");
    }

    #[test]
    fn least_used_bucket_is_reused_and_dirty_ones_stay() {
        let mut buckets = buckets();
        let state = |block| if block < BLOCKS { BlockState::Dirty } else { BlockState::Clean };
        (0..14 * BLOCKS).for_each(|block| insert(&mut buckets, block, state(block)));
        buckets.on_traffic(20 * buckets.geometry.bucket_bytes);
        (5 * BLOCKS..14 * BLOCKS).for_each(|block| buckets.touch(block));
        assert!(buckets.prepare());
        assert!(buckets.is_cached(0), "dirty");
        assert!(!buckets.is_cached(BLOCKS), "clean and unused");
        assert!(buckets.is_cached(5 * BLOCKS));
    }

    #[test]
    fn written_back_bucket_is_reused_after_a_collection() {
        let mut buckets = buckets();
        (0..16 * BLOCKS).for_each(|block| insert(&mut buckets, block, BlockState::Dirty));
        while let Some(key) = buckets.dirty_key(0) {
            buckets.set_clean(key);
        }
        assert!(!buckets.prepare());
        buckets.collect();
        assert!(buckets.prepare());
    }

    #[test]
    fn dirty_key_ends_where_the_place_or_the_block_jumps() {
        let mut buckets = buckets();
        for block in [5, 6, 7, 20, 8] {
            insert(&mut buckets, block, BlockState::Dirty);
        }
        let key = buckets.dirty_key(0).unwrap();
        assert_eq!((key.blocks(), buckets.is_current(key)), (5..8, true));
        assert_eq!(buckets.dirty_key(8).unwrap().blocks(), 8..9);
        insert(&mut buckets, 6, BlockState::Dirty);
        assert!(!buckets.is_current(key));
        buckets.set_clean(key);
        assert_eq!(buckets.dirty_key(0).unwrap().blocks(), 6..7);
    }
}
