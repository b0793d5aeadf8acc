//! S3-FIFO (Yang and others, SOSP 2023): a small queue for new blocks, a main queue with a second chance, and
//! a ghost list of the small queue.

use std::collections::{HashMap, VecDeque};

use crate::reference_policy::policy::Policy;

/// The part of the cache, in percent, above which the small queue loses blocks before the main one.
const SMALL_PERCENT: usize = 10;
/// The least hits of a block that moves to the main queue when it leaves the small one.
const PROMOTION_HITS: u8 = 2;
const HITS_MAX: u8 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Small(u8),
    Main(u8),
    Ghost,
}

#[derive(Debug)]
pub struct S3Fifo {
    capacity: usize,
    places: HashMap<u64, Place>,
    small: VecDeque<u64>,
    main: VecDeque<u64>,
    ghost: VecDeque<u64>,
}

impl S3Fifo {
    /// Room for this many blocks, at least two.
    pub fn new(capacity: u64) -> S3Fifo {
        let capacity = usize::try_from(capacity.max(2)).unwrap_or(usize::MAX);
        let queue = VecDeque::new();
        S3Fifo { capacity, places: HashMap::new(), small: queue.clone(), main: queue.clone(), ghost: queue }
    }

    fn make_room(&mut self) {
        while self.small.len() + self.main.len() > self.capacity {
            let is_small = self.small.len() > (self.capacity * SMALL_PERCENT / 100).max(1);
            if is_small || self.main.is_empty() { self.shrink_small() } else { self.shrink_main() }
        }
    }

    fn shrink_small(&mut self) {
        let Some(block) = self.small.pop_front() else { return };
        match self.places.get(&block) {
            Some(Place::Small(hits)) if *hits >= PROMOTION_HITS => {
                self.places.insert(block, Place::Main(0));
                self.main.push_back(block);
            }
            Some(Place::Small(_)) => {
                self.places.insert(block, Place::Ghost);
                self.ghost.push_back(block);
                self.shrink_ghost();
            }
            Some(Place::Main(_) | Place::Ghost) | None => {}
        }
    }

    fn shrink_ghost(&mut self) {
        while self.ghost.len() > self.capacity * (100 - SMALL_PERCENT) / 100 {
            let Some(block) = self.ghost.pop_front() else { return };
            if self.places.get(&block) == Some(&Place::Ghost) {
                self.places.remove(&block);
            }
        }
    }

    fn shrink_main(&mut self) {
        let Some(block) = self.main.pop_front() else { return };
        match self.places.get(&block) {
            Some(Place::Main(hits)) if *hits > 0 => {
                let hits = *hits - 1;
                self.places.insert(block, Place::Main(hits));
                self.main.push_back(block);
            }
            Some(Place::Main(_)) => {
                self.places.remove(&block);
            }
            Some(Place::Small(_) | Place::Ghost) | None => {}
        }
    }
}

impl Policy for S3Fifo {
    fn touch(&mut self, block: u64) -> bool {
        match self.places.get_mut(&block) {
            Some(Place::Small(hits) | Place::Main(hits)) => {
                *hits = (*hits + 1).min(HITS_MAX);
                return true;
            }
            Some(Place::Ghost) => {
                self.places.insert(block, Place::Main(0));
                self.main.push_back(block);
            }
            None => {
                self.places.insert(block, Place::Small(0));
                self.small.push_back(block);
            }
        }
        self.make_room();
        false
    }

    fn discard(&mut self, block: u64) {
        if matches!(self.places.get(&block), Some(Place::Small(_) | Place::Main(_))) {
            self.places.remove(&block);
            self.small.retain(|other| *other != block);
            self.main.retain(|other| *other != block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_does_not_displace_used_blocks() {
        let mut cache = S3Fifo::new(100);
        for _ in 0..3 {
            (0..50).for_each(|block| {
                cache.touch(block);
            });
        }
        (1_000..3_000).for_each(|block| {
            cache.touch(block);
        });
        let left = (0..50).filter(|block| cache.touch(*block)).count();
        assert!(left > 45, "{left}");
        assert!(cache.small.len() + cache.main.len() <= 100);
    }

    #[test]
    fn blocks_in_the_ghost_list_return_to_the_main_queue() {
        let mut cache = S3Fifo::new(10);
        (0..20).for_each(|block| {
            cache.touch(block);
        });
        assert_eq!(cache.places.get(&8), Some(&Place::Ghost));
        assert!(!cache.touch(8));
        assert_eq!(cache.places.get(&8), Some(&Place::Main(0)));
    }
}
