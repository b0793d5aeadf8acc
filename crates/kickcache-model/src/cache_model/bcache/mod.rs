//! bcache.
//!
//! Leaves out: the btree's own reads and writes, the time that collecting garbage takes, moving what is live out of
//! sparse buckets, and the table of priorities. The journal is one write and a flush for each 100 ms with writes.

mod buckets;
mod bypass;
mod writeback;

use std::collections::BTreeMap;

use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};

use crate::cache_model::bcache::buckets::Buckets;
use crate::cache_model::bcache::bypass::Bypass;
use crate::cache_model::bcache::writeback::Rate;
use crate::cache_model::block_state::BlockState;
use crate::cache_model::parts::Parts;
use crate::device_model::ModelOperation;
use crate::replay::cache_model::{CacheModel, Demand, Tally};
use crate::replay::devices::{Devices, Errand, Place};
use crate::replay::slots::Slots;
use crate::workload::Kind;

/// The part of the buckets in use, in percent, up to which writes become dirty, and above which nothing comes in.
const WRITEBACK_MAX: u64 = 70;
const INSERT_MAX: u64 = 95;
const JOURNAL_DELAY: Duration = Duration::from_millis(100);
const TIMER: Duration = Duration::from_millis(100);
/// Blocks of a writeback.
const WRITEBACK_BLOCKS: usize = 128;
/// Writebacks in flight.
const WRITEBACKS_MAX: u32 = 64;

/// What a bcache is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BcacheShape {
    /// Bytes of the cache.
    pub cache_bytes: u64,
    /// Bytes of the origin.
    pub origin_bytes: u64,
    /// Bytes from which on a stream goes past the cache; 0 is never.
    pub sequential_cutoff: u64,
    /// Seed of the congestion's dice.
    pub seed: u64,
}

/// What an operation of a device is for.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Purpose {
    /// A part of an access.
    Access(u32),
    /// A read of the origin that is to be kept.
    Miss {
        id: u32,
        job: usize,
        first: u64,
        count: u64,
    },
    /// What was read goes to the cache device.
    Fill,
    Journal,
    JournalFlush,
    WritebackRead(Vec<u64>),
    WritebackWrite(Vec<u64>),
}

#[derive(Clone, Debug)]
struct InFlight {
    purpose: Purpose,
    begun: Instant,
    operation: ModelOperation,
}

/// bcache in write-back mode over one origin.
#[derive(Debug)]
pub struct Bcache {
    buckets: Buckets,
    bypass: Bypass,
    rate: Rate,
    parts: Parts,
    in_flight: Slots<InFlight>,
    /// Blocks that a writeback is copying: writes of them begin it anew.
    writing_back: BTreeMap<u64, bool>,
    writebacks: u32,
    /// Where the sweep over the dirty blocks is.
    sweep: u64,
    journal_due: Option<Instant>,
    last_access: Instant,
    accesses: u32,
    timer: Instant,
    tally: Tally,
}

/// Blocks of a job that were read from the origin.
#[derive(Clone, Copy)]
struct Miss {
    job: usize,
    /// The first block.
    first: u64,
    /// How many there are.
    count: u64,
}

impl Bcache {
    /// An empty cache.
    pub fn new(shape: BcacheShape) -> Bcache {
        Bcache {
            buckets: Buckets::new(shape.cache_bytes, shape.origin_bytes),
            bypass: Bypass::new(shape.sequential_cutoff, shape.seed),
            rate: Rate::new(),
            parts: Parts::default(),
            in_flight: Slots::default(),
            writing_back: BTreeMap::new(),
            writebacks: 0,
            sweep: 0,
            journal_due: None,
            last_access: Instant::ZERO,
            accesses: 0,
            timer: Instant::ZERO,
            tally: Tally::default(),
        }
    }

    /// Puts an extent into the cache, as something that was written and copied to the origin since.
    pub fn fill(&mut self, extent: ByteExtent) {
        for block in extent.start / BLOCK_SIZE..extent.end().div_ceil(BLOCK_SIZE) {
            self.buckets.insert(0, block, BlockState::Clean);
        }
    }

    fn submit(&mut self, now: Instant, to: Errand, purpose: Purpose, devices: &mut Devices) {
        let flight = InFlight { purpose, begun: now, operation: to.1 };
        devices.send(now, to, self.in_flight.insert(flight));
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
                let place = (at..stop).map(|block| self.buckets.touch(block)).min().unwrap_or(0);
                self.tally.hit_blocks += stop - at;
                let extent = ByteExtent { start: place, length: extent.length };
                let purpose = Purpose::Access(demand.id);
                self.submit(now, (Place::Cache, ModelOperation::Read, extent), purpose, devices);
            } else if may_keep {
                may_keep = false;
                self.tally.miss_blocks += stop - at;
                let purpose = Purpose::Miss { id: demand.id, job: demand.job, first: at, count: stop - at };
                self.submit(now, from_origin, purpose, devices);
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

    fn write(&mut self, now: Instant, demand: &Demand, devices: &mut Devices) {
        let (first, end) = blocks(demand.extent);
        let meets_writeback = (first..end).any(|block| self.writing_back.contains_key(&block));
        let in_use = self.buckets.in_use_percent();
        let bypass = (self.bypass.choose(now, demand.extent) || in_use > INSERT_MAX) && !meets_writeback;
        self.parts.hold(demand.id);
        let access = Purpose::Access(demand.id);
        if bypass {
            (first..end).for_each(|block| self.buckets.remove(block));
            self.journal(now);
            return self.submit(now, (Place::Origin, ModelOperation::Write, demand.extent), access, devices);
        }
        let dirty = in_use <= WRITEBACK_MAX || meets_writeback;
        if !dirty {
            self.parts.hold(demand.id);
            self.submit(now, (Place::Origin, ModelOperation::Write, demand.extent), access.clone(), devices);
        }
        let state = if dirty { BlockState::Dirty } else { BlockState::Clean };
        for block in first..end {
            self.writing_back.entry(block).and_modify(|is_stale| *is_stale = true);
            if self.buckets.insert(demand.job, block, state) {
                self.tally.logged_bytes += BLOCK_SIZE;
            }
        }
        self.submit(now, (Place::Cache, ModelOperation::Write, demand.extent), access, devices);
        self.buckets.on_traffic(demand.extent.length);
        self.journal(now);
    }

    fn journal(&mut self, now: Instant) {
        self.journal_due.get_or_insert_with(|| now.plus(JOURNAL_DELAY));
    }

    fn flush(&mut self, now: Instant, id: u32, devices: &mut Devices) {
        let none = ByteExtent { start: 0, length: 0 };
        let journal = ByteExtent { start: 0, length: BLOCK_SIZE };
        for (to, extent) in [
            ((Place::Cache, ModelOperation::WriteDurable), journal),
            ((Place::Origin, ModelOperation::Flush), none),
        ] {
            self.parts.hold(id);
            self.submit(now, (to.0, to.1, extent), Purpose::Access(id), devices);
        }
        self.journal_due = None;
    }

    /// A miss was answered; what was read goes to the cache device, if nobody wrote it meanwhile.
    fn keep(&mut self, now: Instant, miss: Miss, devices: &mut Devices) {
        let Miss { job, first, count } = miss;
        let mut kept = 0;
        for block in first..first + count {
            if !self.buckets.is_cached(block) && self.buckets.insert(job, block, BlockState::Clean) {
                kept += BLOCK_SIZE;
            }
        }
        if kept > 0 {
            self.tally.promoted_bytes += kept;
            let extent = ByteExtent { start: first * BLOCK_SIZE, length: kept };
            self.submit(now, (Place::Cache, ModelOperation::Write, extent), Purpose::Fill, devices);
        }
    }

    /// Copies dirty blocks to the origin as fast as the rate allows.
    fn write_back(&mut self, now: Instant, devices: &mut Devices) {
        let idle = self.accesses == 0 && now.since(self.last_access) > Duration::from_millis(30_000);
        if idle {
            self.rate.lift();
        } else {
            self.rate.update(now, self.buckets.dirty_bytes(), self.buckets.cache_bytes());
        }
        while self.writebacks < WRITEBACKS_MAX && self.rate.may_write(now) {
            let run = self.buckets.dirty_from(self.sweep, WRITEBACK_BLOCKS);
            let Some((first, last)) = run.first().copied().zip(run.last().copied()) else { return };
            if run.iter().any(|block| self.writing_back.contains_key(block)) {
                return;
            }
            self.sweep = last + 1;
            self.writebacks += 1;
            run.iter().for_each(|block| {
                self.writing_back.insert(*block, false);
            });
            let extent = ByteExtent { start: first * BLOCK_SIZE, length: run.len() as u64 * BLOCK_SIZE };
            self.rate.on_written(now, extent.length);
            let purpose = Purpose::WritebackRead(run);
            self.submit(now, (Place::Cache, ModelOperation::Read, extent), purpose, devices);
        }
    }

    fn end_writeback(&mut self, run: Vec<u64>) {
        self.writebacks -= 1;
        for block in run {
            if self.writing_back.remove(&block) == Some(false) {
                self.buckets.set_clean(block);
            }
        }
    }
}

fn blocks(extent: ByteExtent) -> (u64, u64) {
    (extent.start / BLOCK_SIZE, extent.end().div_ceil(BLOCK_SIZE))
}

/// What of an extent lies in some blocks.
fn part(extent: ByteExtent, first: u64, end: u64) -> ByteExtent {
    let start = extent.start.max(first * BLOCK_SIZE);
    ByteExtent { start, length: extent.end().min(end * BLOCK_SIZE) - start }
}

impl CacheModel for Bcache {
    fn handle_demand(&mut self, now: Instant, demand: Demand, devices: &mut Devices) {
        self.accesses += 1;
        self.parts.hold(demand.id);
        match demand.kind {
            Kind::Read => self.read(now, &demand, devices),
            Kind::Write | Kind::WriteZeroes => self.write(now, &demand, devices),
            Kind::Flush => self.flush(now, demand.id, devices),
            Kind::Discard => {
                let (first, end) = blocks(demand.extent);
                (first..end).for_each(|block| self.buckets.remove(block));
            }
        }
        self.parts.release(demand.id);
    }

    fn handle_completion(&mut self, now: Instant, place: Place, token: u64, devices: &mut Devices) {
        let flight = self.in_flight.take(u32::try_from(token).expect("tokens are indices"));
        if place == Place::Cache {
            self.bypass.on_latency(now, now.since(flight.begun), flight.operation);
        }
        match flight.purpose {
            Purpose::Access(id) => self.parts.release(id),
            Purpose::Miss { id, job, first, count } => {
                self.parts.release(id);
                self.keep(now, Miss { job, first, count }, devices);
            }
            Purpose::Journal => {
                let none = ByteExtent { start: 0, length: 0 };
                self.submit(now, (Place::Cache, ModelOperation::Flush, none), Purpose::JournalFlush, devices);
            }
            Purpose::Fill | Purpose::JournalFlush => {}
            Purpose::WritebackRead(run) => {
                let first = run.first().copied().unwrap_or(0);
                let extent = ByteExtent { start: first * BLOCK_SIZE, length: run.len() as u64 * BLOCK_SIZE };
                let purpose = Purpose::WritebackWrite(run);
                self.submit(now, (Place::Origin, ModelOperation::Write, extent), purpose, devices);
            }
            Purpose::WritebackWrite(run) => {
                self.end_writeback(run);
                self.write_back(now, devices);
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant, devices: &mut Devices) {
        self.timer = now.plus(TIMER);
        if self.journal_due.is_some_and(|due| due <= now) {
            self.journal_due = None;
            let extent = ByteExtent { start: 0, length: BLOCK_SIZE };
            self.submit(now, (Place::Cache, ModelOperation::Write, extent), Purpose::Journal, devices);
        }
        self.write_back(now, devices);
    }

    fn poll_reply(&mut self) -> Option<u32> {
        let reply = self.parts.poll_reply()?;
        self.accesses -= 1;
        Some(reply)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.timer)
    }

    fn tally(&self) -> Tally {
        Tally { dirty_bytes: self.buckets.dirty_bytes(), ..self.tally }
    }
}
