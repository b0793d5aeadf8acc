//! LIRS: the rank of a block is the number of other blocks accessed between its last two uses.
//!
//! After S. Jiang and X. Zhang, *LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy*, SIGMETRICS
//! 2002: 1 % of the cache is for blocks with a long distance. The memory of blocks that left is bounded, at twice the
//! cache.

use std::collections::{BTreeMap, HashMap};

use crate::reference_policy::policy::Policy;
use crate::reference_policy::queues::Queues;

/// The part of the cache for blocks with a long distance, in percent; at least one block.
const LONG_PERCENT: usize = 1;
/// Blocks with a long distance that are in the cache, and ghosts of such blocks that are still on the stack.
const LONG: usize = 0;
const GONE: usize = 1;

#[derive(Debug)]
pub struct Lirs {
    capacity: usize,
    long_max: usize,
    clock: u64,
    /// Blocks by their last use, down to the oldest with a short distance.
    stack: BTreeMap<u64, u64>,
    on_stack: HashMap<u64, u64>,
    /// Blocks of the stack that are in neither queue have a short distance.
    queues: Queues<2>,
    short_count: usize,
}

impl Lirs {
    /// Room for this many blocks, at least two.
    pub fn new(capacity: u64) -> Lirs {
        let capacity = usize::try_from(capacity.max(2)).unwrap_or(usize::MAX);
        let long_max = (capacity / 100 * LONG_PERCENT).max(1);
        let (stack, on_stack) = (BTreeMap::new(), HashMap::new());
        Lirs { capacity, long_max, clock: 0, stack, on_stack, queues: Queues::new(), short_count: 0 }
    }

    fn put_on_top(&mut self, block: u64) {
        self.clock += 1;
        if let Some(before) = self.on_stack.insert(block, self.clock) {
            self.stack.remove(&before);
        }
        self.stack.insert(self.clock, block);
    }

    /// Removes blocks without a short distance from the bottom of the stack.
    fn prune(&mut self) {
        while let Some((at, block)) = self.stack.first_key_value().map(|(at, block)| (*at, *block)) {
            let queue = self.queues.find(block);
            if queue.is_none() {
                return;
            }
            self.stack.remove(&at);
            self.on_stack.remove(&block);
            if queue == Some(GONE) {
                self.queues.remove(block);
            }
        }
    }

    fn demote(&mut self) {
        if let Some((_, block)) = self.stack.pop_first() {
            self.on_stack.remove(&block);
            self.queues.push(LONG, block);
            self.short_count -= 1;
        }
        self.prune();
    }

    fn promote(&mut self, block: u64) {
        self.queues.remove(block);
        self.put_on_top(block);
        self.short_count += 1;
        if self.short_count > self.capacity - self.long_max {
            self.demote();
        }
    }

    fn make_room(&mut self) {
        let Some(block) = self.queues.pop(LONG) else { return };
        if self.on_stack.contains_key(&block) {
            self.queues.push(GONE, block);
        }
        if self.queues.len(GONE) > 2 * self.capacity
            && let Some(oldest) = self.queues.pop(GONE)
            && let Some(at) = self.on_stack.remove(&oldest)
        {
            self.stack.remove(&at);
        }
    }

    fn hit_long(&mut self, block: u64) {
        if self.on_stack.contains_key(&block) {
            self.promote(block);
        } else {
            self.put_on_top(block);
            self.queues.push(LONG, block);
        }
    }

    fn miss(&mut self, block: u64) {
        if self.short_count + self.queues.len(LONG) == self.capacity {
            self.make_room();
        }
        let is_known = self.queues.find(block) == Some(GONE);
        if is_known || self.short_count < self.capacity - self.long_max {
            return self.promote(block);
        }
        self.put_on_top(block);
        self.queues.push(LONG, block);
    }
}

impl Policy for Lirs {
    fn touch(&mut self, block: u64) -> bool {
        match self.queues.find(block) {
            Some(LONG) => self.hit_long(block),
            None if self.on_stack.contains_key(&block) => {
                self.put_on_top(block);
                self.prune();
            }
            Some(_) | None => {
                self.miss(block);
                return false;
            }
        }
        true
    }

    fn discard(&mut self, block: u64) {
        let queue = self.queues.find(block);
        if queue == Some(GONE) {
            return;
        }
        self.queues.remove(block);
        if let Some(at) = self.on_stack.remove(&block) {
            self.stack.remove(&at);
            self.short_count -= usize::from(queue.is_none());
            self.prune();
        }
    }
}

#[cfg(test)]
mod tests {
    use kickcache_random::Random;

    use super::*;

    #[test]
    fn a_loop_slightly_above_the_capacity_still_hits() {
        let mut lirs = Lirs::new(100);
        let mut hits = 0;
        for round in 0..20 {
            let found = (0..110).filter(|block| lirs.touch(*block)).count();
            hits += if round < 2 { 0 } else { found };
        }
        assert!(hits > 18 * 90, "{hits}: LRU has none");
    }

    #[test]
    fn it_never_holds_more_than_its_room() {
        let mut lirs = Lirs::new(37);
        let mut random = Random::new(7);
        for _ in 0..50_000 {
            let block = random.below(20) * random.below(20);
            if random.below(50) == 0 {
                lirs.discard(block);
            } else {
                _ = lirs.touch(block);
            }
            assert!(lirs.short_count + lirs.queues.len(LONG) <= 37);
            assert!(lirs.queues.len(GONE) <= 75);
            assert_eq!(lirs.stack.len(), lirs.on_stack.len());
            let of_stack = |block: &&u64| lirs.queues.find(**block).is_none();
            assert_eq!(lirs.stack.values().filter(of_stack).count(), lirs.short_count);
        }
    }
}
