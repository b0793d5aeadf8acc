//! dm-cache, what lvmcache uses, with the policy smq.
//!
//! Leaves out: discards, flushes of the origin at a commit, the limit of kcopyd's memory, the wait of a migration
//! until the accesses of before have ended, and metadata reads. The metadata is one write and a flush for each
//! commit.

pub mod age;
mod levels;
mod smq;
mod work;

use std::collections::BTreeMap;

use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};

use crate::cache_model::block_state::BlockState;
use crate::cache_model::dm_cache::age::Age;
use crate::cache_model::dm_cache::smq::{Smq, Want};
use crate::cache_model::dm_cache::work::{Part, Purpose, Work, slot, wants};
use crate::cache_model::parts::Parts;
use crate::device_model::{ModelOperation, ModelRequest};
use crate::replay::cache_model::{CacheModel, Demand, Tally};
use crate::replay::devices::{Devices, Errand, Place};
use crate::workload::Kind;

const NONE: u32 = u32::MAX;
const SECOND: Duration = Duration::from_millis(1000);
/// Work that may be queued or under way.
const WORK_MAX: usize = 4096;
/// Bytes of the migrations that may be under way where that is limited.
const MIGRATION_THRESHOLD: u64 = 1 << 20;
/// Where the metadata lies: behind the data.
const METADATA_AT: u64 = 1 << 40;
/// The free part of the cache, in percent, below which blocks are demoted.
const FREE_TARGET: u32 = 25;

/// When a write is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteMode {
    /// From the cache device.
    Back,
    /// From both.
    Through,
}

/// What a cache is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DmCacheShape {
    /// Version of the policy.
    pub age: Age,
    /// Bytes of a block of the cache (lvm has a word of its own for it), a multiple of 4 KiB.
    pub block_bytes: u64,
    /// Bytes of the cache.
    pub cache_bytes: u64,
    /// Bytes of the origin.
    pub origin_bytes: u64,
    /// Write mode.
    pub mode: WriteMode,
}

/// dm-cache over one origin.
#[derive(Debug)]
pub struct DmCache {
    shape: DmCacheShape,
    policy: Smq,
    /// By block of the origin: its block of the cache.
    index_of: Vec<u32>,
    /// By block of the cache.
    block_of: Vec<u64>,
    parts: Parts,
    purposes: Vec<Purpose>,
    unused: Vec<u32>,
    /// Work by block of the origin; a block has one at most.
    queued: Vec<Work>,
    busy_blocks: BTreeMap<u64, Vec<Part>>,
    migrations: u32,
    demotions: u32,
    /// Demotions that wait for a commit, and those that the commit under way covers.
    uncommitted: Vec<Work>,
    committing: Option<Vec<Work>>,
    accesses: u32,
    idle_since: Instant,
    tick_due: Instant,
    timer: Instant,
    tally: Tally,
}

impl DmCache {
    /// An empty cache.
    pub fn new(shape: DmCacheShape) -> DmCache {
        let cache_blocks = u32::try_from(shape.cache_bytes / shape.block_bytes).expect("at most 2^32 blocks");
        let origin_blocks = shape.origin_bytes.div_ceil(shape.block_bytes);
        DmCache {
            shape,
            policy: Smq::new(shape.age, cache_blocks, origin_blocks),
            index_of: vec![NONE; usize::try_from(origin_blocks).expect("fits the address space")],
            block_of: vec![0; cache_blocks as usize],
            parts: Parts::default(),
            purposes: Vec::new(),
            unused: Vec::new(),
            queued: Vec::new(),
            busy_blocks: BTreeMap::new(),
            migrations: 0,
            demotions: 0,
            uncommitted: Vec::new(),
            committing: None,
            accesses: 0,
            idle_since: Instant::ZERO,
            tick_due: Instant::ZERO,
            timer: Instant::ZERO.plus(SECOND),
            tally: Tally::default(),
        }
    }

    /// Fills the cache with clean blocks from `start` of the origin on, as an earlier load left them.
    pub fn fill_with_stale_data(&mut self, start: u64) {
        let first = start / self.shape.block_bytes;
        for (number, index) in (0..).zip(self.policy.fill()) {
            self.map(first + number, index);
        }
    }

    fn map(&mut self, block: u64, index: u32) {
        self.index_of[slot(block)] = index;
        self.block_of[index as usize] = block;
    }

    fn submit(&mut self, now: Instant, to: Errand, purpose: Purpose, devices: &mut Devices) {
        let token = match self.unused.pop() {
            Some(token) => {
                self.purposes[token as usize] = purpose;
                token
            }
            None => {
                self.purposes.push(purpose);
                u32::try_from(self.purposes.len() - 1).expect("few are in flight")
            }
        };
        let (place, operation, extent) = to;
        let request =
            ModelRequest { operation, offset: extent.start, length: extent.length, token: u64::from(token) };
        devices.submit(now, place, request);
    }

    /// Where a part of a block lies on the cache device.
    fn on_cache(&self, index: u32, extent: ByteExtent) -> ByteExtent {
        let into = extent.start % self.shape.block_bytes;
        ByteExtent { start: u64::from(index) * self.shape.block_bytes + into, length: extent.length }
    }

    fn whole(&self, block: u64) -> ByteExtent {
        ByteExtent { start: block * self.shape.block_bytes, length: self.shape.block_bytes }
    }

    /// Serves the part of an access that lies in one block.
    fn serve(&mut self, now: Instant, part: Part, devices: &mut Devices) {
        let block = part.extent.start / self.shape.block_bytes;
        let index = self.index_of[slot(block)];
        let is_read = part.want == Want::Read;
        // A block on the move takes no writes, and before 4.12 no reads either.
        let may_pass = is_read && !self.shape.age.waits_for_copy;
        if !may_pass && let Some(waiting) = self.busy_blocks.get_mut(&block) {
            waiting.push(part);
            return;
        }
        if is_read {
            let blocks = part.extent.length.div_ceil(BLOCK_SIZE);
            let count = if index == NONE { &mut self.tally.miss_blocks } else { &mut self.tally.hit_blocks };
            *count += blocks;
        }
        if index == NONE {
            self.serve_miss(now, part, block, devices);
        } else {
            self.policy.on_hit(index, block);
            self.serve_hit(now, part, index, devices);
        }
    }

    fn serve_hit(&mut self, now: Instant, part: Part, index: u32, devices: &mut Devices) {
        let extent = self.on_cache(index, part.extent);
        let access = Purpose::Access(part.id);
        if part.want == Want::Read {
            return self.submit(now, (Place::Cache, ModelOperation::Read, extent), access, devices);
        }
        self.submit(now, (Place::Cache, ModelOperation::Write, extent), access, devices);
        if self.shape.mode == WriteMode::Back {
            self.policy.set_state(index, BlockState::Dirty);
        } else if !self.policy.is_dirty(index) {
            self.parts.hold(part.id);
            self.submit(now, (Place::Origin, ModelOperation::Write, part.extent), access, devices);
        }
    }

    fn serve_miss(&mut self, now: Instant, part: Part, block: u64, devices: &mut Devices) {
        let is_worth_it = self.policy.on_miss(block, part.want);
        let comes_whole = part.want == Want::WholeWrite && self.shape.mode == WriteMode::Back;
        if is_worth_it
            && comes_whole
            && let Some(index) = self.policy.take_free()
        {
            self.busy_blocks.insert(block, Vec::new());
            let purpose = Purpose::Overwrite { id: part.id, block, index };
            let extent = self.on_cache(index, part.extent);
            return self.submit(now, (Place::Cache, ModelOperation::Write, extent), purpose, devices);
        }
        let waits = is_worth_it && self.queue_promotion(block) && self.shape.age.waits_for_copy;
        if waits {
            self.busy_blocks.entry(block).or_default().push(part);
        } else {
            let operation =
                if part.want == Want::Read { ModelOperation::Read } else { ModelOperation::Write };
            self.submit(now, (Place::Origin, operation, part.extent), Purpose::Access(part.id), devices);
        }
        self.start_work(now, devices);
    }

    /// Queues the promotion of a block, or what must come before it; whether the block will be promoted.
    fn queue_promotion(&mut self, block: u64) -> bool {
        if self.busy_blocks.contains_key(&block) || self.busy_blocks.len() >= WORK_MAX {
            return false;
        }
        // Before 4.12 what is over the limit is not queued but refused.
        if self.shape.age.waits_for_copy && !self.may_start() {
            return false;
        }
        if let Some(index) = self.policy.take_free() {
            self.busy_blocks.insert(block, Vec::new());
            self.queued.push(Work::Promote { block, index });
            return true;
        }
        if self.shape.age.waits_for_copy {
            return self.replace(block);
        }
        let blocks = u32::try_from(self.block_of.len()).expect("came from 32 bits");
        if self.policy.free_count() + self.demotions < blocks * FREE_TARGET / 100 {
            self.queue_demotion();
        }
        false
    }

    /// Before 4.12: a victim leaves at once, and its place is taken.
    fn replace(&mut self, block: u64) -> bool {
        let Some(index) = self.policy.take_victim() else { return false };
        self.index_of[slot(self.block_of[index as usize])] = NONE;
        self.busy_blocks.insert(block, Vec::new());
        self.queued.push(Work::Promote { block, index });
        true
    }

    fn queue_demotion(&mut self) {
        if let Some(index) = self.policy.take_victim() {
            let block = self.block_of[index as usize];
            self.demotions += 1;
            self.busy_blocks.insert(block, Vec::new());
            self.queued.push(Work::Demote { block, index });
        } else {
            self.queue_writeback();
        }
    }

    fn queue_writeback(&mut self) {
        if let Some(index) = self.policy.take_writeback() {
            let block = self.block_of[index as usize];
            self.busy_blocks.insert(block, Vec::new());
            self.queued.push(Work::Writeback { block, index });
        }
    }

    /// Whether one migration more stays within the threshold.
    fn may_start(&self) -> bool {
        let running = u64::from(self.migrations) + self.queued.len() as u64;
        (running + 1) * self.shape.block_bytes <= MIGRATION_THRESHOLD
    }

    /// Starts the work that is queued, the newest first.
    fn start_work(&mut self, now: Instant, devices: &mut Devices) {
        while !self.queued.is_empty() {
            let running = u64::from(self.migrations + 1) * self.shape.block_bytes;
            if self.shape.age.is_throttled && running > MIGRATION_THRESHOLD {
                break;
            }
            let Some(work) = self.queued.pop() else { break };
            match work {
                Work::Demote { .. } => self.uncommitted.push(work),
                Work::Promote { block, .. } => {
                    self.migrations += 1;
                    let from = (Place::Origin, ModelOperation::Read, self.whole(block));
                    self.submit(now, from, Purpose::CopyRead(work), devices);
                }
                Work::Writeback { index, block } => {
                    self.migrations += 1;
                    let extent = self.on_cache(index, self.whole(block));
                    let from = (Place::Cache, ModelOperation::Read, extent);
                    self.submit(now, from, Purpose::CopyRead(work), devices);
                }
            }
        }
        self.commit(now, devices);
    }

    fn commit(&mut self, now: Instant, devices: &mut Devices) {
        if self.committing.is_none() && !self.uncommitted.is_empty() {
            self.committing = Some(std::mem::take(&mut self.uncommitted));
            let extent = ByteExtent { start: METADATA_AT, length: 4 * BLOCK_SIZE };
            self.submit(now, (Place::Cache, ModelOperation::Write, extent), Purpose::CommitWrite, devices);
        }
    }

    /// The other half of a copy.
    fn write_copy(&mut self, now: Instant, work: Work, devices: &mut Devices) {
        let (place, extent) = match work {
            Work::Promote { block, index } => (Place::Cache, self.on_cache(index, self.whole(block))),
            Work::Writeback { block, .. } => (Place::Origin, self.whole(block)),
            Work::Demote { .. } => unreachable!("a demotion copies nothing"),
        };
        self.submit(now, (place, ModelOperation::Write, extent), Purpose::CopyWrite(work), devices);
    }

    fn end_work(&mut self, now: Instant, work: Work, devices: &mut Devices) {
        let block = match work {
            Work::Promote { block, index } => {
                self.migrations -= 1;
                self.map(block, index);
                self.policy.on_promoted(index, BlockState::Clean);
                self.tally.promoted_bytes += self.shape.block_bytes;
                block
            }
            Work::Writeback { block, index } => {
                self.migrations -= 1;
                self.policy.set_state(index, BlockState::Clean);
                self.policy.requeue(index);
                block
            }
            Work::Demote { block, index } => {
                self.demotions -= 1;
                self.index_of[slot(block)] = NONE;
                self.policy.give_back(index);
                block
            }
        };
        self.unlock(now, block, devices);
    }

    /// What waited for a block goes on.
    fn unlock(&mut self, now: Instant, block: u64, devices: &mut Devices) {
        let waiting = self.busy_blocks.remove(&block).expect("the block was locked");
        waiting.into_iter().for_each(|part| self.serve(now, part, devices));
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.accesses == 0 && now.since(self.idle_since) >= SECOND
    }

    /// What is done while nobody asks for anything.
    fn work_while_idle(&mut self, now: Instant, devices: &mut Devices) {
        while self.is_idle(now) && self.may_start() && self.policy.dirty_count() > 0 {
            self.queue_writeback();
        }
        let blocks = u32::try_from(self.block_of.len()).expect("came from 32 bits");
        let wanted = blocks * FREE_TARGET / 100;
        while self.shape.age.frees_when_idle
            && self.is_idle(now)
            && self.policy.dirty_count() == 0
            && self.policy.free_count() + self.demotions < wanted
            && self.busy_blocks.len() < WORK_MAX
        {
            let before = self.demotions;
            self.queue_demotion();
            if self.demotions == before {
                break;
            }
        }
        self.start_work(now, devices);
    }

    fn tick(&mut self, now: Instant) {
        if now >= self.tick_due {
            self.policy.tick(now);
            // A tick travels with an access, so that its interval is about a latency.
            self.tick_due = now.plus(Duration::from_micros(150));
        }
    }
}

impl CacheModel for DmCache {
    fn handle_demand(&mut self, now: Instant, demand: Demand, devices: &mut Devices) {
        self.tick(now);
        self.accesses += 1;
        self.parts.hold(demand.id);
        let (mut at, end) = (demand.extent.start, demand.extent.end());
        let is_data = !matches!(demand.kind, Kind::Flush | Kind::Discard);
        while is_data && at < end {
            let next = (at / self.shape.block_bytes + 1) * self.shape.block_bytes;
            let extent = ByteExtent { start: at, length: next.min(end) - at };
            self.parts.hold(demand.id);
            let want = wants(demand.kind, extent, self.shape.block_bytes);
            self.serve(now, Part { id: demand.id, want, extent }, devices);
            at = extent.end();
        }
        if demand.kind == Kind::Flush {
            for place in [Place::Cache, Place::Origin] {
                self.parts.hold(demand.id);
                let none = ByteExtent { start: 0, length: 0 };
                self.submit(now, (place, ModelOperation::Flush, none), Purpose::Access(demand.id), devices);
            }
        }
        self.parts.release(demand.id);
    }

    fn handle_completion(&mut self, now: Instant, _: Place, token: u64, devices: &mut Devices) {
        let token = u32::try_from(token).expect("tokens are indices");
        let purpose = self.purposes[token as usize];
        self.unused.push(token);
        match purpose {
            Purpose::Access(id) => {
                self.idle_since = now;
                self.parts.release(id);
            }
            Purpose::Overwrite { id, block, index } => {
                self.map(block, index);
                self.policy.on_promoted(index, BlockState::Dirty);
                self.tally.logged_bytes += self.shape.block_bytes;
                self.parts.release(id);
                self.unlock(now, block, devices);
            }
            Purpose::CopyRead(work) => self.write_copy(now, work, devices),
            Purpose::CopyWrite(work) => {
                self.end_work(now, work, devices);
                if self.is_idle(now) {
                    self.work_while_idle(now, devices);
                }
                self.start_work(now, devices);
            }
            Purpose::CommitWrite => {
                let none = ByteExtent { start: 0, length: 0 };
                self.submit(now, (Place::Cache, ModelOperation::Flush, none), Purpose::CommitFlush, devices);
            }
            Purpose::CommitFlush => {
                let done = self.committing.take().unwrap_or_default();
                done.into_iter().for_each(|work| self.end_work(now, work, devices));
                self.start_work(now, devices);
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant, devices: &mut Devices) {
        self.timer = now.plus(SECOND);
        self.tick(now);
        self.work_while_idle(now, devices);
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
        let dirty_bytes = u64::from(self.policy.dirty_count()) * self.shape.block_bytes;
        Tally { dirty_bytes, ..self.tally }
    }
}
