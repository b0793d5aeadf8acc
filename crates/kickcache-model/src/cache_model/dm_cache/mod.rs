//! dm-cache, which lvmcache uses, with the policy smq.
//!
//! Leaves out: discards, the limit of kcopyd's memory, and metadata reads. A commit holds the metadata's
//! lock: no block enters the cache meanwhile (`dm_cache_commit`, `dm_cache_insert_mapping`). Functions that
//! comments name are those of `dm-cache-target.c` and `dm-cache-policy-smq.c`.

pub mod age;
mod background;
mod idle;
mod levels;
mod locks;
mod metadata;
mod smq;
mod work;

use std::collections::BTreeMap;

use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};

use crate::cache_model::block_state::BlockState;
use crate::cache_model::dm_cache::age::{Age, BusyAccesses};
use crate::cache_model::dm_cache::background::{Background, Pressure};
use crate::cache_model::dm_cache::idle::Idle;
use crate::cache_model::dm_cache::locks::Locks;
use crate::cache_model::dm_cache::metadata::Metadata;
use crate::cache_model::dm_cache::smq::{Smq, Want};
use crate::cache_model::dm_cache::work::{Part, Purpose, Step, Work, slot, wants};
use crate::cache_model::parts::Parts;
use crate::device_model::ModelOperation;
use crate::replay::cache_model::{CacheModel, Demand, Tally};
use crate::replay::devices::{Devices, Errand, Place};
use crate::replay::slots::Slots;
use crate::workload::Kind;

const NONE: u32 = u32::MAX;
const SECOND: Duration = Duration::from_millis(1000);
/// The most bytes of migrations in flight in a busy cache of an age that limits migrations.
const MIGRATION_THRESHOLD: u64 = 1 << 20;
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteMode {
    /// A write to a cached block is acknowledged when the cache device has it; to another block, mostly when
    /// the origin has it.
    Back,
    /// A write to a clean cached block is acknowledged when both devices have it; to a dirty block, when the
    /// cache device has it; to another block, when the origin has it.
    Through,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DmCacheShape {
    pub age: Age,
    /// Bytes of a block of the cache, a multiple of 4 KiB.
    pub block_bytes: u64,
    pub cache_bytes: u64,
    pub origin_bytes: u64,
    pub mode: WriteMode,
}

#[derive(Debug)]
pub struct DmCache {
    shape: DmCacheShape,
    policy: Smq,
    /// By block of the origin: its block of the cache.
    index_of: Vec<u32>,
    block_of: Vec<u64>,
    parts: Parts,
    in_flight: Slots<Purpose>,
    background: Background,
    locks: Locks,
    quiescing: BTreeMap<u64, Work>,
    migrations: u32,
    metadata: Metadata,
    entering: Vec<Purpose>,
    idle: Idle,
    /// The operation that carries the policy's clock (`check_if_tick_bio_needed`).
    tick: Option<u32>,
    timer: Instant,
    tally: Tally,
}

impl DmCache {
    pub fn new(shape: DmCacheShape) -> DmCache {
        let cache_blocks = u32::try_from(shape.cache_bytes / shape.block_bytes).expect("at most 2^32 blocks");
        let origin_blocks = shape.origin_bytes.div_ceil(shape.block_bytes);
        DmCache {
            shape,
            policy: Smq::new(shape.age, cache_blocks, origin_blocks),
            index_of: vec![NONE; usize::try_from(origin_blocks).expect("fits the address space")],
            block_of: vec![0; cache_blocks as usize],
            parts: Parts::default(),
            in_flight: Slots::default(),
            background: Background::new(shape.age),
            locks: Locks::default(),
            quiescing: BTreeMap::new(),
            migrations: 0,
            metadata: Metadata::new(cache_blocks),
            entering: Vec::new(),
            idle: Idle::new(),
            tick: None,
            timer: Instant::ZERO.plus(SECOND),
            tally: Tally::default(),
        }
    }

    pub fn fill_with_stale_data(&mut self, start: u64, state: BlockState) {
        let first = start / self.shape.block_bytes;
        for (number, index) in (0..).zip(self.policy.fill()) {
            self.map(first + number, index);
            self.policy.set_state(index, state);
        }
    }

    fn map(&mut self, block: u64, index: u32) {
        self.index_of[slot(block)] = index;
        self.block_of[index as usize] = block;
    }

    fn submit(&mut self, now: Instant, to: Errand, purpose: Purpose, devices: &mut Devices) {
        if self.is_watched(purpose, to.0) {
            self.idle.begin();
        }
        let token = self.in_flight.insert(purpose);
        if let Purpose::Access { block, .. } = purpose {
            self.locks.hold(block);
            self.tick.get_or_insert(token);
        }
        devices.send(now, to, token);
    }

    fn watch_end(&mut self, now: Instant, purpose: Purpose, place: Place) {
        if self.is_watched(purpose, place) {
            self.idle.end(now);
        } else if self.shape.age.watched == BusyAccesses::OriginAndEnds && purpose.is_of_a_client() {
            self.idle.disturb(now);
        }
    }

    fn is_watched(&self, purpose: Purpose, place: Place) -> bool {
        let is_data = purpose.is_of_a_client() && !matches!(purpose, Purpose::Flush(_));
        is_data && (self.shape.age.watched == BusyAccesses::Both || place == Place::Origin)
    }

    fn on_cache(&self, index: u32, extent: ByteExtent) -> ByteExtent {
        let into = extent.start % self.shape.block_bytes;
        ByteExtent { start: u64::from(index) * self.shape.block_bytes + into, length: extent.length }
    }

    fn whole(&self, block: u64) -> ByteExtent {
        ByteExtent { start: block * self.shape.block_bytes, length: self.shape.block_bytes }
    }

    fn serve(&mut self, now: Instant, part: Part, devices: &mut Devices) {
        let block = part.extent.start / self.shape.block_bytes;
        let index = self.index_of[slot(block)];
        let is_read = part.want == Want::Read;
        // A block that is being moved accepts no writes, and before 4.12 no reads either.
        let may_pass = is_read && !self.shape.age.waits_for_copy;
        if !may_pass && self.background.wait(block, part) {
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
        let block = part.extent.start / self.shape.block_bytes;
        let access = Purpose::Access { id: part.id, block };
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
            self.background.begin(block);
            let purpose = Purpose::Overwrite { id: part.id, block, index };
            let extent = self.on_cache(index, part.extent);
            return self.submit(now, (Place::Cache, ModelOperation::Write, extent), purpose, devices);
        }
        let is_queued = is_worth_it && self.queue_promotion(block);
        let waits = is_queued && self.shape.age.waits_for_copy && self.background.wait(block, part);
        if !waits {
            let operation =
                if part.want == Want::Read { ModelOperation::Read } else { ModelOperation::Write };
            let access = Purpose::Access { id: part.id, block };
            self.submit(now, (Place::Origin, operation, part.extent), access, devices);
        }
        // A miss that could store the whole block queues work without waking the worker (`map_bio`).
        if is_worth_it && !comes_whole {
            self.work(now, devices);
        }
    }

    fn queue_promotion(&mut self, block: u64) -> bool {
        if !self.background.takes(block) {
            return false;
        }
        // Before 4.12, a promotion over the limit is not queued but refused.
        if self.shape.age.waits_for_copy && !self.may_start() {
            return false;
        }
        if let Some(index) = self.policy.take_free() {
            self.background.queue(Work::Promote { block, index });
            return true;
        }
        if self.shape.age.waits_for_copy {
            return self.replace(block);
        }
        if !self.background.has_room(&self.policy) {
            self.background.queue_demotion(&mut self.policy, &self.block_of);
        }
        false
    }

    /// Before 4.12: a victim is removed at once, and its place is used.
    fn replace(&mut self, block: u64) -> bool {
        let Some(index) = self.policy.take_victim() else { return false };
        self.index_of[slot(self.block_of[index as usize])] = NONE;
        self.background.queue(Work::Promote { block, index });
        true
    }

    fn may_start(&self) -> bool {
        let running = u64::from(self.migrations) + self.background.queued() as u64;
        (running + 1) * self.shape.block_bytes <= MIGRATION_THRESHOLD
    }

    /// Starts background work (`check_migrations`).
    fn work(&mut self, now: Instant, devices: &mut Devices) {
        loop {
            let is_idle = self.idle.is_idle(now);
            let has_bandwidth =
                u64::from(self.migrations + 1) * self.shape.block_bytes <= MIGRATION_THRESHOLD;
            if self.shape.age.is_throttled && !is_idle && !has_bandwidth {
                break;
            }
            let pressure = if is_idle && has_bandwidth { Pressure::Idle } else { Pressure::Busy };
            let next = self.background.next(&mut self.policy, &self.block_of, pressure);
            let Some(work) = next else { break };
            self.migrations += 1;
            if self.locks.are_held(work.block()) {
                self.quiescing.insert(work.block(), work);
            } else {
                self.start(now, work, devices);
            }
        }
        self.commit(now, devices);
    }

    fn start(&mut self, now: Instant, work: Work, devices: &mut Devices) {
        let from = match work {
            Work::Demote { .. } => return self.metadata.wait(work),
            Work::Promote { block, .. } => (Place::Origin, ModelOperation::Read, self.whole(block)),
            Work::Writeback { index, block } => {
                (Place::Cache, ModelOperation::Read, self.on_cache(index, self.whole(block)))
            }
        };
        self.submit(now, from, Purpose::CopyRead(work), devices);
    }

    /// Commits the metadata if a demotion or a flush waits for that (`schedule_commit`).
    fn commit(&mut self, now: Instant, devices: &mut Devices) {
        if self.metadata.is_awaited() {
            self.begin_commit(now, devices);
        }
    }

    /// Without changes no commit is needed (`commit_op`).
    fn begin_commit(&mut self, now: Instant, devices: &mut Devices) {
        if self.metadata.is_running() {
            return;
        }
        match self.metadata.begin() {
            Some(step) => self.submit_step(now, step, devices),
            None => self.end_commit(now, devices),
        }
    }

    fn submit_step(&mut self, now: Instant, step: Step, devices: &mut Devices) {
        let request = self.metadata.request(step);
        let to = (Place::Cache, request.operation, request.extent);
        self.submit(now, to, Purpose::Commit(step), devices);
    }

    fn write_copy(&mut self, now: Instant, work: Work, devices: &mut Devices) {
        let (place, extent) = match work {
            Work::Promote { block, index } => (Place::Cache, self.on_cache(index, self.whole(block))),
            Work::Writeback { block, .. } => (Place::Origin, self.whole(block)),
            Work::Demote { .. } => unreachable!("a demotion copies nothing"),
        };
        self.submit(now, (place, ModelOperation::Write, extent), Purpose::CopyWrite(work), devices);
    }

    fn end_work(&mut self, now: Instant, work: Work, devices: &mut Devices) {
        self.migrations -= 1;
        self.background.end(work);
        match work {
            Work::Promote { block, index } => {
                self.map(block, index);
                self.metadata.on_changed();
                self.policy.on_promoted(index, BlockState::Clean);
                self.tally.promoted_bytes += self.shape.block_bytes;
            }
            Work::Writeback { index, .. } => {
                self.policy.set_state(index, BlockState::Clean);
                self.policy.requeue(index);
            }
            Work::Demote { block, index } => {
                self.index_of[slot(block)] = NONE;
                self.policy.give_back(index);
            }
        }
        self.unlock(now, work.block(), devices);
    }

    fn enter(&mut self, now: Instant, purpose: Purpose, devices: &mut Devices) {
        if self.metadata.is_running() {
            return self.entering.push(purpose);
        }
        self.bring_in(now, purpose, devices);
        self.work(now, devices);
    }

    fn bring_in(&mut self, now: Instant, purpose: Purpose, devices: &mut Devices) {
        match purpose {
            Purpose::Overwrite { id, block, index } => {
                self.map(block, index);
                self.metadata.on_changed();
                self.policy.on_promoted(index, BlockState::Dirty);
                self.tally.logged_bytes += self.shape.block_bytes;
                self.parts.release(id);
                self.unlock(now, block, devices);
            }
            Purpose::CopyWrite(work) => self.end_work(now, work, devices),
            _ => unreachable!("nothing else brings a block in"),
        }
    }

    fn end_commit(&mut self, now: Instant, devices: &mut Devices) {
        let done = self.metadata.end();
        done.demotions.into_iter().for_each(|work| self.end_work(now, work, devices));
        for id in done.flushes {
            for place in [Place::Cache, Place::Origin] {
                let none = ByteExtent { start: 0, length: 0 };
                self.submit(now, (place, ModelOperation::Flush, none), Purpose::Flush(id), devices);
            }
        }
        let entering = std::mem::take(&mut self.entering);
        entering.into_iter().for_each(|purpose| self.bring_in(now, purpose, devices));
        self.work(now, devices);
    }

    fn unlock(&mut self, now: Instant, block: u64, devices: &mut Devices) {
        let waiting = self.background.unlock(block);
        waiting.into_iter().for_each(|part| self.serve(now, part, devices));
    }
}

impl CacheModel for DmCache {
    fn handle_demand(&mut self, now: Instant, demand: Demand, devices: &mut Devices) {
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
            [Place::Cache, Place::Origin].into_iter().for_each(|_| self.parts.hold(demand.id));
            self.metadata.wait_flush(demand.id);
            self.commit(now, devices);
        }
        self.parts.release(demand.id);
    }

    fn handle_completion(&mut self, now: Instant, place: Place, token: u64, devices: &mut Devices) {
        let token = u32::try_from(token).expect("tokens are indices");
        let purpose = self.in_flight.take(token);
        self.watch_end(now, purpose, place);
        if self.tick == Some(token) {
            self.tick = None;
            self.policy.tick(now);
        }
        match purpose {
            Purpose::Access { id, block } => {
                self.parts.release(id);
                if self.locks.release(block)
                    && let Some(work) = self.quiescing.remove(&block)
                {
                    self.start(now, work, devices);
                    self.commit(now, devices);
                }
            }
            Purpose::Flush(id) => self.parts.release(id),
            Purpose::Overwrite { .. } | Purpose::CopyWrite(Work::Promote { .. }) => {
                self.enter(now, purpose, devices);
            }
            Purpose::CopyRead(work) => self.write_copy(now, work, devices),
            Purpose::CopyWrite(work) => {
                self.end_work(now, work, devices);
                self.work(now, devices);
            }
            Purpose::Commit(step) => match step.next() {
                Some(next) => self.submit_step(now, next, devices),
                None => self.end_commit(now, devices),
            },
        }
    }

    fn handle_timeout(&mut self, now: Instant, devices: &mut Devices) {
        self.timer = now.plus(SECOND);
        self.policy.tick(now);
        self.work(now, devices);
        // Other changes are committed each second (`do_waker`).
        if self.metadata.is_changed() {
            self.begin_commit(now, devices);
        }
    }

    fn poll_reply(&mut self) -> Option<u32> {
        self.parts.poll_reply()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.timer)
    }

    fn tally(&self) -> Tally {
        let dirty_bytes = u64::from(self.policy.dirty_count()) * self.shape.block_bytes;
        Tally { dirty_bytes, ..self.tally }
    }
}

#[cfg(test)]
mod tests;
