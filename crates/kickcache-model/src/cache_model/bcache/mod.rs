//! bcache in write-back mode over one origin.
//!
//! Functions in brackets are in `drivers/md/bcache`, Linux 6.6. Leaves out: waits for the locks of btree
//! nodes, and fills that a full leaf refuses.

mod btree;
mod buckets;
mod bypass;
mod geometry;
mod journal;
mod rate;
mod writeback;

use std::collections::VecDeque;

use kickcache_engine::time::{Duration, Instant, earlier};
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};

use crate::cache_model::bcache::btree::Leaves;
use crate::cache_model::bcache::buckets::{Buckets, DirtyKey};
use crate::cache_model::bcache::bypass::Bypass;
use crate::cache_model::bcache::geometry::Geometry;
use crate::cache_model::bcache::journal::{Journal, Waiter};
use crate::cache_model::bcache::rate::Fill;
use crate::cache_model::bcache::writeback::Writeback;
use crate::cache_model::block_state::BlockState;
use crate::cache_model::parts::Parts;
use crate::device_model::ModelOperation;
use crate::replay::cache_model::{CacheModel, Demand, Tally};
use crate::replay::devices::{Devices, Errand, Place};
use crate::replay::slots::Slots;
use crate::workload::Kind;

/// The most buckets in use, in percent, while writes become dirty; with more, only writes to blocks that are being
/// written back do (`CUTOFF_WRITEBACK_SYNC`).
const WRITEBACK_MAX: u64 = 70;
/// Percentage of buckets in use above which nothing enters the cache, except writes to blocks that are being written
/// back (`CUTOFF_CACHE_ADD`).
const INSERT_MAX: u64 = 95;
const TIMER: Duration = Duration::from_millis(100);
/// Time to collect a btree node: about 1 ms on NVMe, as measured in the commit message of
/// 20250414224415.77926-2-robertpang@google.com.
const NODE_TIME: Duration = Duration::from_millis(1);
/// Nodes that are collected without a pause while clients use the cache, or a hundredth of all nodes if that
/// is more; and the pause (`MIN_GC_NODES`, `GC_SLEEP_MS`).
const COLLECT_NODES: u64 = 100;
const COLLECT_PAUSE: Duration = Duration::from_millis(100);
/// Keys of a fill: the placeholder and the key (`bch_btree_insert_check_key`).
const FILL_KEYS: u64 = 2;
const NO_EXTENT: ByteExtent = ByteExtent { start: 0, length: 0 };

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BcacheShape {
    pub cache_bytes: u64,
    pub origin_bytes: u64,
    /// The least bytes of a stream that bypasses the cache without congestion; 0 for no cut-off.
    pub sequential_cutoff: u64,
    /// Seed of the random part of the congestion limit.
    pub seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Access(u32),
    Miss {
        id: u32,
        miss: Miss,
    },
    Fill,
    JournalFlush(u64),
    Journal,
    /// A leaf of the btree.
    Leaf,
    Priorities,
    WritebackRead(DirtyKey),
    WritebackWrite(DirtyKey),
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    purpose: Purpose,
    begun: Instant,
    operation: ModelOperation,
}

#[derive(Debug)]
pub struct Bcache {
    geometry: Geometry,
    buckets: Buckets,
    leaves: Leaves,
    journal: Journal,
    bypass: Bypass,
    writeback: Writeback,
    parts: Parts,
    in_flight: Slots<InFlight>,
    /// Writes that wait for a bucket (`bch_bucket_alloc` with `wait`).
    waiting: VecDeque<Demand>,
    /// The end of the running collection; until then no bucket is prepared (`gc_mark_valid`).
    collects_until: Option<Instant>,
    accesses: u32,
    timer: Instant,
    tally: Tally,
    /// Extents and blocks inserted so far, for the mean size of a key that stays in the btree.
    inserted_keys: u64,
    inserted_blocks: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Miss {
    job: usize,
    first: u64,
    count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Inserted {
    first: u64,
    blocks: u64,
    keys: u64,
}

impl Bcache {
    pub fn new(shape: BcacheShape) -> Bcache {
        let geometry = Geometry::of(shape.cache_bytes);
        Bcache {
            geometry,
            buckets: Buckets::new(geometry, shape.origin_bytes),
            leaves: Leaves::new(geometry, shape.origin_bytes.div_ceil(BLOCK_SIZE)),
            journal: Journal::default(),
            bypass: Bypass::new(shape.sequential_cutoff, shape.seed),
            writeback: Writeback::new(),
            parts: Parts::default(),
            in_flight: Slots::default(),
            waiting: VecDeque::new(),
            collects_until: None,
            accesses: 0,
            timer: Instant::ZERO,
            tally: Tally::default(),
            inserted_keys: 0,
            inserted_blocks: 0,
        }
    }

    pub fn fill(&mut self, extent: ByteExtent) {
        for block in extent.start / BLOCK_SIZE..extent.end().div_ceil(BLOCK_SIZE) {
            if self.buckets.is_short() && self.buckets.prepare() {
                self.buckets.release();
            }
            self.buckets.insert(0, block, BlockState::Clean);
        }
    }

    fn submit(&mut self, now: Instant, to: Errand, purpose: Purpose, devices: &mut Devices) {
        let flight = InFlight { purpose, begun: now, operation: to.1 };
        devices.send(now, to, self.in_flight.insert(flight));
    }

    /// The place of metadata does not matter to a flash device.
    fn write_metadata(&mut self, now: Instant, bytes: u64, purpose: Purpose, devices: &mut Devices) {
        let extent = ByteExtent { start: 0, length: bytes };
        self.submit(now, (Place::Cache, ModelOperation::WriteDurable, extent), purpose, devices);
    }

    fn read(&mut self, now: Instant, demand: &Demand, devices: &mut Devices) {
        let bypass = self.bypass.choose(now, demand.extent) || self.buckets.in_use_percent() > INSERT_MAX;
        let (first, end) = blocks(demand.extent);
        let mut at = first;
        let mut may_keep = !bypass;
        while at < end {
            let is_cached = self.buckets.is_cached(at);
            let stop = (at + 1..end).find(|block| self.buckets.is_cached(*block) != is_cached).unwrap_or(end);
            let extent = part(demand.extent, at, stop);
            self.parts.hold(demand.id);
            let from_origin = (Place::Origin, ModelOperation::Read, extent);
            if is_cached {
                (at..stop).for_each(|block| self.buckets.touch(block));
                self.tally.hit_blocks += stop - at;
                let extent = ByteExtent { start: self.buckets.offset(at), length: extent.length };
                let purpose = Purpose::Access(demand.id);
                self.submit(now, (Place::Cache, ModelOperation::Read, extent), purpose, devices);
            } else if may_keep {
                may_keep = false;
                self.tally.miss_blocks += stop - at;
                let miss = Miss { job: demand.job, first: at, count: stop - at };
                self.submit(now, from_origin, Purpose::Miss { id: demand.id, miss }, devices);
            } else {
                self.tally.miss_blocks += stop - at;
                self.submit(now, from_origin, Purpose::Access(demand.id), devices);
            }
            at = stop;
        }
        if !bypass {
            self.buckets.on_traffic(demand.extent.length);
        }
    }

    fn write(&mut self, now: Instant, demand: Demand, devices: &mut Devices) {
        let (first, end) = blocks(demand.extent);
        let meets_writeback = (first..end).any(|block| self.writeback.is_in_flight(block));
        let in_use = self.buckets.in_use_percent();
        let bypass = (self.bypass.choose(now, demand.extent) || in_use > INSERT_MAX) && !meets_writeback;
        self.parts.hold(demand.id);
        if !bypass {
            self.buckets.on_traffic(demand.extent.length);
        }
        if !bypass && (in_use <= WRITEBACK_MAX || meets_writeback) {
            self.waiting.push_back(demand);
            return self.resume_writes(now, devices);
        }
        let to_origin = (Place::Origin, ModelOperation::Write, demand.extent);
        self.submit(now, to_origin, Purpose::Access(demand.id), devices);
        if !bypass && self.buckets.room(demand.job) >= end - first {
            return self.insert_write(now, &demand, BlockState::Clean, devices);
        }
        (first..end).for_each(|block| self.buckets.remove(block));
        self.add_keys(now, first, 1, devices);
        self.journal.add(now, 1);
    }

    fn resume_writes(&mut self, now: Instant, devices: &mut Devices) {
        while let Some(demand) = self.waiting.front().copied() {
            let (first, end) = blocks(demand.extent);
            let stop = end.min(first + self.buckets.room(demand.job));
            if stop == first {
                return self.prepare_buckets(now, devices);
            }
            let extent = part(demand.extent, first, stop);
            self.insert_write(now, &Demand { extent, ..demand }, BlockState::Dirty, devices);
            if stop == end {
                self.parts.release(demand.id);
                self.waiting.pop_front();
            } else if let Some(rest) = self.waiting.front_mut() {
                rest.extent = part(demand.extent, stop, end);
            }
        }
    }

    /// Writes an extent to the cache device; there is room for it.
    fn insert_write(&mut self, now: Instant, demand: &Demand, state: BlockState, devices: &mut Devices) {
        let (first, end) = blocks(demand.extent);
        for block in first..end {
            self.buckets.insert(demand.job, block, state);
        }
        self.tally.logged_bytes += (end - first) * BLOCK_SIZE;
        self.parts.hold(demand.id);
        let extent = ByteExtent { start: self.buckets.offset(first), length: demand.extent.length };
        let access = Purpose::Access(demand.id);
        self.submit(now, (Place::Cache, ModelOperation::Write, extent), access, devices);
        self.on_inserted(now, Inserted { first, blocks: end - first, keys: 1 }, devices);
        self.journal.add(now, 1);
    }

    fn on_inserted(&mut self, now: Instant, inserted: Inserted, devices: &mut Devices) {
        self.add_keys(now, inserted.first, inserted.keys, devices);
        self.inserted_keys += 1;
        self.inserted_blocks += inserted.blocks;
        if self.buckets.is_collection_due() {
            self.begin_collection(now);
        }
        self.prepare_buckets(now, devices);
    }

    fn add_keys(&mut self, now: Instant, block: u64, keys: u64, devices: &mut Devices) {
        if let Some(bytes) = self.leaves.insert(now, block, keys, self.journal.position()) {
            self.write_metadata(now, bytes, Purpose::Leaf, devices);
        }
    }

    fn flush(&mut self, now: Instant, id: u32, devices: &mut Devices) {
        [(); 2].into_iter().for_each(|()| self.parts.hold(id));
        self.journal.wait(Waiter::Flush(id));
        let to_origin = (Place::Origin, ModelOperation::Flush, NO_EXTENT);
        self.submit(now, to_origin, Purpose::Access(id), devices);
    }

    fn keep(&mut self, now: Instant, miss: Miss, devices: &mut Devices) {
        let Miss { job, first, count } = miss;
        let mut kept = 0;
        for block in first..first + count {
            if !self.buckets.is_cached(block) && self.buckets.insert(job, block, BlockState::Clean) {
                kept += 1;
            }
        }
        if kept > 0 {
            self.tally.promoted_bytes += kept * BLOCK_SIZE;
            let extent = ByteExtent { start: 0, length: kept * BLOCK_SIZE };
            self.submit(now, (Place::Cache, ModelOperation::Write, extent), Purpose::Fill, devices);
            self.on_inserted(now, Inserted { first, blocks: kept, keys: FILL_KEYS }, devices);
        }
        self.prepare_buckets(now, devices);
    }

    /// Prepares buckets for reuse, or begins a collection (`bch_allocator_thread`).
    fn prepare_buckets(&mut self, now: Instant, devices: &mut Devices) {
        if !self.buckets.is_short() || self.collects_until.is_some() {
            return;
        }
        if self.buckets.prepare() {
            self.write_metadata(now, self.geometry.priority_bytes(), Purpose::Priorities, devices);
        } else {
            self.begin_collection(now);
        }
    }

    fn node_count(&self) -> u64 {
        let cached = self.buckets.cached_blocks();
        let keys = cached * self.inserted_keys / self.inserted_blocks.max(1);
        self.geometry.leaf_count(keys)
    }

    /// Begins to collect garbage (`bch_btree_gc`).
    fn begin_collection(&mut self, now: Instant) {
        if self.collects_until.is_some() {
            return;
        }
        let nodes = self.node_count();
        let pauses = if self.accesses == 0 { 0 } else { nodes / COLLECT_NODES.max(nodes / 100) };
        let nanos = nodes * NODE_TIME.as_nanos() + pauses * COLLECT_PAUSE.as_nanos();
        self.collects_until = Some(now.plus(Duration::from_nanos(nanos)));
    }

    fn end_collection(&mut self, now: Instant, devices: &mut Devices) {
        self.collects_until = None;
        self.buckets.hold_nodes(self.node_count());
        self.buckets.collect();
        self.prepare_buckets(now, devices);
    }

    fn write_back(&mut self, now: Instant, devices: &mut Devices) {
        loop {
            let pass = self.writeback.poll_pass(now, &self.buckets);
            if pass.is_empty() {
                return;
            }
            for key in pass {
                let extent = ByteExtent { start: self.buckets.offset(key.first), length: key.bytes() };
                let purpose = Purpose::WritebackRead(key);
                self.submit(now, (Place::Cache, ModelOperation::Read, extent), purpose, devices);
            }
        }
    }

    fn write_due_metadata(&mut self, now: Instant, devices: &mut Devices) {
        let entry = self.journal.begin(now);
        if let Some(bytes) = entry {
            let to = (Place::Cache, ModelOperation::Flush, NO_EXTENT);
            self.submit(now, to, Purpose::JournalFlush(bytes), devices);
        }
        if entry.is_some() || self.leaves.poll_timeout().is_some_and(|due| due <= now) {
            while let Some(bytes) = self.leaves.poll_write(now, self.journal.position()) {
                self.write_metadata(now, bytes, Purpose::Leaf, devices);
            }
        }
    }

    fn end_journal(&mut self, now: Instant, devices: &mut Devices) {
        for waiter in self.journal.end() {
            match waiter {
                Waiter::Flush(id) => self.parts.release(id),
                Waiter::Buckets => {
                    self.buckets.release();
                    self.resume_writes(now, devices);
                }
            }
        }
    }

    fn fill_state(&self) -> Fill {
        Fill {
            dirty_bytes: self.buckets.dirty_bytes(),
            cache_bytes: self.buckets.cache_bytes(),
            used_buckets: self.buckets.used(),
            bucket_bytes: self.geometry.bucket_bytes,
            in_use_percent: self.buckets.in_use_percent(),
        }
    }
}

fn blocks(extent: ByteExtent) -> (u64, u64) {
    (extent.start / BLOCK_SIZE, extent.end().div_ceil(BLOCK_SIZE))
}

fn part(extent: ByteExtent, first: u64, end: u64) -> ByteExtent {
    let start = extent.start.max(first * BLOCK_SIZE);
    ByteExtent { start, length: extent.end().min(end * BLOCK_SIZE) - start }
}

impl CacheModel for Bcache {
    fn handle_demand(&mut self, now: Instant, demand: Demand, devices: &mut Devices) {
        self.accesses += 1;
        self.writeback.on_request();
        self.parts.hold(demand.id);
        match demand.kind {
            Kind::Read => self.read(now, &demand, devices),
            Kind::Write | Kind::WriteZeroes => self.write(now, demand, devices),
            Kind::Flush => self.flush(now, demand.id, devices),
            Kind::Discard => {
                let (first, end) = blocks(demand.extent);
                (first..end).for_each(|block| self.buckets.remove(block));
            }
        }
        self.parts.release(demand.id);
        self.write_due_metadata(now, devices);
    }

    fn handle_completion(&mut self, now: Instant, place: Place, token: u64, devices: &mut Devices) {
        let flight = self.in_flight.take(u32::try_from(token).expect("tokens are indices"));
        // The kernel measures data alone (`bch_bbio_count_io_errors`).
        if place == Place::Cache && matches!(flight.purpose, Purpose::Access(_) | Purpose::Fill) {
            self.bypass.on_latency(now, now.since(flight.begun), flight.operation);
        }
        match flight.purpose {
            Purpose::Access(id) => self.parts.release(id),
            Purpose::Miss { id, miss } => {
                self.parts.release(id);
                self.keep(now, miss, devices);
            }
            Purpose::JournalFlush(bytes) => self.write_metadata(now, bytes, Purpose::Journal, devices),
            Purpose::Journal => self.end_journal(now, devices),
            Purpose::Priorities => self.journal.wait(Waiter::Buckets),
            Purpose::Fill | Purpose::Leaf => {}
            Purpose::WritebackRead(key) => {
                let extent = ByteExtent { start: key.first * BLOCK_SIZE, length: key.bytes() };
                let to_origin = (Place::Origin, ModelOperation::Write, extent);
                self.submit(now, to_origin, Purpose::WritebackWrite(key), devices);
            }
            Purpose::WritebackWrite(key) => {
                self.writeback.on_written(key);
                self.buckets.set_clean(key);
                self.add_keys(now, key.first, 1, devices);
                self.write_back(now, devices);
            }
        }
        self.write_due_metadata(now, devices);
    }

    fn handle_timeout(&mut self, now: Instant, devices: &mut Devices) {
        self.timer = now.plus(TIMER);
        if self.collects_until.is_some_and(|end| end <= now) {
            self.end_collection(now, devices);
        }
        self.resume_writes(now, devices);
        self.writeback.update_rate(now, self.fill_state());
        self.write_back(now, devices);
        self.write_due_metadata(now, devices);
    }

    fn poll_reply(&mut self) -> Option<u32> {
        let reply = self.parts.poll_reply()?;
        self.accesses -= 1;
        Some(reply)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let clocks =
            [self.journal.poll_timeout(), self.collects_until, self.writeback.poll_timeout(&self.buckets)];
        clocks.into_iter().fold(Some(self.timer), earlier)
    }

    fn tally(&self) -> Tally {
        Tally { dirty_bytes: self.buckets.dirty_bytes(), ..self.tally }
    }
}

#[cfg(test)]
mod tests;
