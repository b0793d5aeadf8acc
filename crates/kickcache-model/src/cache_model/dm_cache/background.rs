//! Background work: the queued work and the work in progress, and the choice of the next work
//! (`dm-cache-background-tracker.c`, and its callers in `dm-cache-policy-smq.c`).

use std::collections::BTreeMap;

use crate::cache_model::dm_cache::age::{Age, CleansForRoom};
use crate::cache_model::dm_cache::smq::{Smq, Writebacks};
use crate::cache_model::dm_cache::work::{Part, Work};

/// While this much work is queued or in progress, no promotion is queued, nor a demotion that makes room for
/// one.
const WORK_MAX: usize = 4096;
/// The part of the cache, in percent, that should be free before it is needed, or clean (`FREE_TARGET`,
/// `CLEAN_TARGET`).
const TARGET: u32 = 25;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pressure {
    /// No watched access was in flight for a second, and the threshold allows one migration more.
    Idle,
    Busy,
}

/// A block has one work at most.
#[derive(Debug)]
pub(super) struct Background {
    age: Age,
    queued: Vec<Work>,
    /// Blocks with work, queued or in progress, and the parts of accesses that wait for its end.
    busy: BTreeMap<u64, Vec<Part>>,
    demotions: u32,
    writebacks: u32,
}

impl Background {
    pub(super) fn new(age: Age) -> Background {
        Background { age, queued: Vec::new(), busy: BTreeMap::new(), demotions: 0, writebacks: 0 }
    }

    pub(super) fn queued(&self) -> usize {
        self.queued.len()
    }

    pub(super) fn takes(&self, block: u64) -> bool {
        !self.busy.contains_key(&block) && self.busy.len() < WORK_MAX
    }

    pub(super) fn wait(&mut self, block: u64, part: Part) -> bool {
        let waiting = self.busy.get_mut(&block);
        let is_busy = waiting.is_some();
        waiting.into_iter().for_each(|waiting| waiting.push(part));
        is_busy
    }

    pub(super) fn begin(&mut self, block: u64) {
        self.busy.insert(block, Vec::new());
    }

    pub(super) fn queue(&mut self, work: Work) {
        self.begin(work.block());
        match work {
            Work::Promote { .. } => {}
            Work::Demote { .. } => self.demotions += 1,
            Work::Writeback { .. } => self.writebacks += 1,
        }
        self.queued.push(work);
    }

    pub(super) fn end(&mut self, work: Work) {
        match work {
            Work::Promote { .. } => {}
            Work::Demote { .. } => self.demotions -= 1,
            Work::Writeback { .. } => self.writebacks -= 1,
        }
    }

    pub(super) fn unlock(&mut self, block: u64) -> Vec<Part> {
        self.busy.remove(&block).expect("the block was busy")
    }

    /// Whether a quarter of the cache is free, or will be (`free_target_met`).
    pub(super) fn has_room(&self, policy: &Smq) -> bool {
        policy.free_count() + self.demotions >= policy.blocks() * TARGET / 100
    }

    /// Whether a quarter of the cache is not dirty, or will not be (`clean_target_met`).
    fn has_clean_quarter(&self, policy: &Smq) -> bool {
        policy.blocks() - policy.dirty_count() + self.writebacks >= policy.blocks() * TARGET / 100
    }

    /// Queues a demotion, or a writeback if there is no victim and the version provides that.
    pub(super) fn queue_demotion(&mut self, policy: &mut Smq, block_of: &[u64]) {
        if let Some(index) = policy.take_victim() {
            return self.queue(Work::Demote { block: block_of[index as usize], index });
        }
        let cleans = match self.age.cleans_for_room {
            CleansForRoom::BelowQuarter => !self.has_clean_quarter(policy),
            CleansForRoom::Always => true,
        };
        if cleans {
            self.queue_writeback(policy, block_of, Pressure::Busy);
        }
    }

    fn queue_writeback(&mut self, policy: &mut Smq, block_of: &[u64], pressure: Pressure) {
        // `can_cross_sentinel`
        let may_cross = self.age.cleans_all_when_idle && pressure == Pressure::Idle;
        let which = if may_cross { Writebacks::Any } else { Writebacks::Rested };
        if let Some(index) = policy.take_writeback(which) {
            self.queue(Work::Writeback { block: block_of[index as usize], index });
        }
    }

    /// The next work: queued work, the newest first, else work ahead of need (`smq_get_background_work`).
    pub(super) fn next(&mut self, policy: &mut Smq, block_of: &[u64], pressure: Pressure) -> Option<Work> {
        if self.queued.is_empty() {
            let is_clean = match pressure {
                Pressure::Idle => policy.dirty_count() == 0,
                Pressure::Busy => !self.age.cleans_when_busy || self.has_clean_quarter(policy),
            };
            if self.age.frees_when_idle && pressure == Pressure::Idle && !self.has_room(policy) {
                self.queue_demotion(policy, block_of);
            } else if !is_clean {
                self.queue_writeback(policy, block_of, pressure);
            }
        }
        self.queued.pop()
    }
}
