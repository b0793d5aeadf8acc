//! The buckets of a bcache: what each holds, who is reused next, and how much is in use.
//!
//! Leaves out the buckets of metadata and the time that collecting garbage takes: a second on a cache of this size.

use std::collections::VecDeque;

use kickcache_engine::units::BLOCK_SIZE;

use crate::cache_model::block_state::BlockState;

/// Bytes of a bucket.
pub(super) const BUCKET_BYTES: u64 = 512 << 10;
/// Blocks of a bucket.
const BUCKET_BLOCKS: usize = 128;
const BUCKET_BLOCKS_32: u32 = 128;
const _: () = assert!(BUCKET_BLOCKS == BUCKET_BLOCKS_32 as usize);
const _: () = assert!(BUCKET_BYTES == BUCKET_BLOCKS as u64 * BLOCK_SIZE);
/// Priority of a bucket that was just read or written.
const PRIORITY_INITIAL: u32 = 32_768;
/// Bytes of traffic that take one from every priority, as a part of the cache.
const DECAY_SHARE: u64 = 1024;
/// Bytes that are put in between two collections, as a part of the cache.
const COLLECT_SHARE: u64 = 16;
const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
struct Bucket {
    priority: u32,
    /// Blocks of the origin that were put in, in order.
    blocks: Vec<u64>,
    /// Blocks of it that still count, and those that did at the last collection.
    live: u32,
    live_collected: u32,
    dirty: u32,
    is_open: bool,
    is_free: bool,
}

/// Where each block of the origin is, and what the buckets hold.
#[derive(Debug)]
pub(super) struct Buckets {
    buckets: Vec<Bucket>,
    free: VecDeque<u32>,
    /// By block of the origin: the bucket.
    bucket_of: Vec<u32>,
    dirty_blocks: std::collections::BTreeSet<u64>,
    /// Buckets that could be had, as of the last collection, less those taken since.
    available: u64,
    traffic: u64,
    inserted: u64,
    /// Buckets that are being filled, by job.
    open: Vec<u32>,
}

impl Buckets {
    pub(super) fn new(cache_bytes: u64, origin_bytes: u64) -> Buckets {
        let count = u32::try_from(cache_bytes / BUCKET_BYTES).expect("at most 2^32 buckets");
        let fresh = Bucket { is_free: true, ..Bucket::default() };
        let blocks = usize::try_from(origin_bytes.div_ceil(BLOCK_SIZE)).expect("fits the address space");
        Buckets {
            buckets: vec![fresh; count as usize],
            free: (0..count).collect(),
            bucket_of: vec![NOWHERE; blocks],
            dirty_blocks: std::collections::BTreeSet::new(),
            available: u64::from(count),
            traffic: 0,
            inserted: 0,
            open: Vec::new(),
        }
    }

    fn count(&self) -> u64 {
        self.buckets.len() as u64
    }

    /// The part of the buckets in use, in percent.
    pub(super) fn in_use_percent(&self) -> u64 {
        (self.count() - self.available) * 100 / self.count()
    }

    pub(super) fn dirty_bytes(&self) -> u64 {
        self.dirty_blocks.len() as u64 * BLOCK_SIZE
    }

    pub(super) fn cache_bytes(&self) -> u64 {
        self.count() * BUCKET_BYTES
    }

    pub(super) fn is_cached(&self, block: u64) -> bool {
        self.bucket_of[slot(block)] != NOWHERE
    }

    /// A cached block was read; gives its place on the cache device.
    pub(super) fn touch(&mut self, block: u64) -> u64 {
        let bucket = self.bucket_of[slot(block)];
        self.buckets[bucket as usize].priority = PRIORITY_INITIAL;
        u64::from(bucket) * BUCKET_BYTES + block % BUCKET_BLOCKS as u64 * BLOCK_SIZE
    }

    /// Counts what a request moved: priorities fall with it.
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

    /// Puts a block into the job's open bucket; `false` if no bucket can be had.
    pub(super) fn insert(&mut self, job: usize, block: u64, state: BlockState) -> bool {
        let Some(bucket) = self.open_bucket(job) else { return false };
        self.remove(block);
        let found = &mut self.buckets[bucket as usize];
        found.blocks.push(block);
        found.live += 1;
        found.dirty += u32::from(state == BlockState::Dirty);
        if found.blocks.len() == BUCKET_BLOCKS {
            found.is_open = false;
            self.open[job] = NOWHERE;
        }
        self.bucket_of[slot(block)] = bucket;
        if state == BlockState::Dirty {
            self.dirty_blocks.insert(block);
        }
        self.inserted += BLOCK_SIZE;
        if self.inserted >= self.cache_bytes() / COLLECT_SHARE {
            self.collect();
        }
        true
    }

    fn open_bucket(&mut self, job: usize) -> Option<u32> {
        if job >= self.open.len() {
            self.open.resize(job + 1, NOWHERE);
        }
        if self.open[job] == NOWHERE {
            self.open[job] = self.take_bucket()?;
        }
        Some(self.open[job])
    }

    fn take_bucket(&mut self) -> Option<u32> {
        if self.free.is_empty() {
            self.refill();
        }
        let bucket = self.free.pop_front()?;
        self.available = self.available.saturating_sub(1);
        let fresh = Bucket { priority: PRIORITY_INITIAL, is_open: true, ..Bucket::default() };
        self.buckets[bucket as usize] = Bucket { live_collected: BUCKET_BLOCKS_32, ..fresh };
        Some(bucket)
    }

    /// Takes back the clean buckets that are worth least.
    fn refill(&mut self) {
        let least = self.buckets.iter().map(|bucket| bucket.priority).min().unwrap_or(0);
        let worth = |bucket: &Bucket| {
            let above = bucket.priority - least + (PRIORITY_INITIAL - least) / 8;
            u64::from(above) * u64::from(bucket.live_collected)
        };
        let can_go = |bucket: &Bucket| !bucket.is_open && !bucket.is_free && bucket.dirty == 0;
        let mut candidates: Vec<(u64, u32)> = (0..)
            .zip(&self.buckets)
            .filter(|(_, bucket)| can_go(bucket))
            .map(|(index, bucket): (u32, &Bucket)| (worth(bucket), index))
            .collect();
        candidates.sort_unstable();
        candidates.truncate((self.buckets.len() / 256).max(1));
        for (_, index) in candidates {
            let blocks = std::mem::take(&mut self.buckets[index as usize].blocks);
            for block in blocks {
                let place = &mut self.bucket_of[slot(block)];
                if *place == index {
                    *place = NOWHERE;
                }
            }
            self.buckets[index as usize].is_free = true;
            self.free.push_back(index);
        }
    }

    /// Forgets a block.
    pub(super) fn remove(&mut self, block: u64) {
        let bucket = std::mem::replace(&mut self.bucket_of[slot(block)], NOWHERE);
        if bucket == NOWHERE {
            return;
        }
        self.buckets[bucket as usize].live -= 1;
        if self.dirty_blocks.remove(&block) {
            self.buckets[bucket as usize].dirty -= 1;
        }
    }

    /// A block was copied to the origin.
    pub(super) fn set_clean(&mut self, block: u64) {
        let bucket = self.bucket_of[slot(block)];
        if bucket != NOWHERE && self.dirty_blocks.remove(&block) {
            self.buckets[bucket as usize].dirty -= 1;
        }
    }

    /// Up to `count` dirty blocks that follow each other, from a place on.
    pub(super) fn dirty_from(&self, place: u64, count: usize) -> Vec<u64> {
        let first = self.dirty_blocks.range(place..).next();
        let Some(first) = first.or_else(|| self.dirty_blocks.iter().next()).copied() else {
            return Vec::new();
        };
        let run = self.dirty_blocks.range(first..).take(count).copied().zip(first..);
        run.take_while(|(block, expected)| block == expected).map(|(block, _)| block).collect()
    }

    /// Counts what is live and what could be had.
    fn collect(&mut self) {
        self.inserted = 0;
        let mut available = 0;
        for bucket in &mut self.buckets {
            bucket.live_collected = bucket.live;
            available += u64::from(bucket.is_free || (!bucket.is_open && bucket.dirty == 0));
        }
        self.available = available;
    }
}

fn slot(block: u64) -> usize {
    usize::try_from(block).expect("blocks are on the origin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_used_bucket_is_reused_and_dirty_ones_stay() {
        let mut buckets = Buckets::new(16 * BUCKET_BYTES, 1 << 30);
        let blocks = BUCKET_BLOCKS as u64;
        let state = |block| if block < blocks { BlockState::Dirty } else { BlockState::Clean };
        (0..16 * blocks).for_each(|block| assert!(buckets.insert(0, block, state(block))));
        buckets.on_traffic(16 * BUCKET_BYTES);
        (2 * blocks..16 * blocks).for_each(|block| {
            buckets.touch(block);
        });
        assert!(buckets.insert(0, 100_000, BlockState::Clean));
        assert!(buckets.is_cached(0), "dirty");
        assert!(!buckets.is_cached(blocks), "clean and unused");
        assert!(buckets.is_cached(2 * blocks));
    }
}
