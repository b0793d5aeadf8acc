//! ARC: a queue of blocks used once and a queue of blocks used more often; ghost lists of both adapt their
//! shares.
//!
//! After figure 4 of N. Megiddo and D. S. Modha, *ARC: A Self-Tuning, Low Overhead Replacement Cache*, FAST 2003.

use crate::reference_policy::policy::Policy;
use crate::reference_policy::queues::Queues;

/// Blocks that were used once recently (the paper's T1), and its ghost list (B1).
const ONCE: usize = 0;
const ONCE_GONE: usize = 1;
/// Blocks that were used at least twice recently (T2), and its ghost list (B2).
const OFTEN: usize = 2;
const OFTEN_GONE: usize = 3;

#[derive(Debug)]
pub struct Arc {
    capacity: usize,
    queues: Queues<4>,
    /// The target number of blocks used once in the cache (the paper's p).
    target: f64,
}

#[expect(clippy::cast_precision_loss, reason = "blocks of a trace are far below 2^53")]
fn float(count: usize) -> f64 {
    count as f64
}

impl Arc {
    /// Room for this many blocks, at least one.
    pub fn new(capacity: u64) -> Arc {
        let capacity = usize::try_from(capacity.max(1)).unwrap_or(usize::MAX);
        Arc { capacity, queues: Queues::new(), target: 0.0 }
    }

    fn len(&self, queue: usize) -> usize {
        self.queues.len(queue)
    }

    fn step(&self, hit: usize, other: usize) -> f64 {
        (float(self.len(other)) / float(self.len(hit))).max(1.0)
    }

    fn replace(&mut self, comes_from: Option<usize>) {
        let once = self.len(ONCE);
        if once + self.len(OFTEN) < self.capacity {
            return;
        }
        let length = float(once);
        let is_due = length > self.target
            || (comes_from == Some(OFTEN_GONE) && (length - self.target).abs() < f64::EPSILON);
        let (from, to) = if once > 0 && is_due { (ONCE, ONCE_GONE) } else { (OFTEN, OFTEN_GONE) };
        if let Some(block) = self.queues.pop(from) {
            self.queues.push(to, block);
        }
    }

    fn make_room(&mut self) {
        let once = self.len(ONCE) + self.len(ONCE_GONE);
        let all = once + self.len(OFTEN) + self.len(OFTEN_GONE);
        if once == self.capacity {
            if self.len(ONCE) == self.capacity {
                self.queues.pop(ONCE);
                return;
            }
            self.queues.pop(ONCE_GONE);
        } else if all >= 2 * self.capacity {
            self.queues.pop(OFTEN_GONE);
        }
        self.replace(None);
    }
}

impl Policy for Arc {
    fn touch(&mut self, block: u64) -> bool {
        let found = self.queues.find(block);
        match found {
            Some(ONCE | OFTEN) => {
                self.queues.push(OFTEN, block);
                return true;
            }
            Some(ONCE_GONE) => {
                self.target = (self.target + self.step(ONCE_GONE, OFTEN_GONE)).min(float(self.capacity));
            }
            Some(_) => self.target = (self.target - self.step(OFTEN_GONE, ONCE_GONE)).max(0.0),
            None => {
                self.make_room();
                self.queues.push(ONCE, block);
                return false;
            }
        }
        self.replace(found);
        self.queues.push(OFTEN, block);
        false
    }

    fn discard(&mut self, block: u64) {
        if matches!(self.queues.find(block), Some(ONCE | OFTEN)) {
            self.queues.remove(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use kickcache_random::Random;

    use super::*;

    #[test]
    fn blocks_used_twice_survive_a_scan() {
        let mut arc = Arc::new(100);
        for _ in 0..2 {
            (0..50).for_each(|block| {
                arc.touch(block);
            });
        }
        (1_000..3_000).for_each(|block| {
            arc.touch(block);
        });
        assert!((0..50).all(|block| arc.touch(block)));
    }

    #[test]
    fn the_lists_keep_the_bounds_of_the_paper() {
        let mut arc = Arc::new(37);
        let mut random = Random::new(7);
        for _ in 0..50_000 {
            let block = random.below(20) * random.below(20);
            if random.below(50) == 0 {
                arc.discard(block);
            } else {
                _ = arc.touch(block);
            }
            let [once, once_gone, often, often_gone] =
                [ONCE, ONCE_GONE, OFTEN, OFTEN_GONE].map(|q| arc.len(q));
            assert!(once + often <= 37);
            assert!(once + once_gone <= 37);
            assert!(once + once_gone + often + often_gone <= 74);
        }
    }
}
