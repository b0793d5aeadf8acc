//! SIEVE: a queue in order of arrival, and a hand that moves from old to young; it spares blocks that were
//! hit and removes the others.
//!
//! After Y. Zhang and others, *SIEVE is Simpler than LRU*, NSDI 2024. It does not resist scans, as its
//! authors state.

use std::collections::{BTreeMap, HashMap};

use crate::reference_policy::policy::Policy;

#[derive(Debug)]
pub struct Sieve {
    capacity: usize,
    clock: u64,
    /// By block: the time of its arrival, and whether it was hit since the hand passed.
    known: HashMap<u64, (u64, bool)>,
    by_time: BTreeMap<u64, u64>,
    /// The hand points at the first block that arrived at this time or later.
    hand: u64,
}

impl Sieve {
    /// Room for this many blocks, at least one.
    pub fn new(capacity: u64) -> Sieve {
        let capacity = usize::try_from(capacity.max(1)).unwrap_or(usize::MAX);
        Sieve { capacity, clock: 0, known: HashMap::new(), by_time: BTreeMap::new(), hand: 0 }
    }

    fn candidate(&self) -> Option<(u64, u64)> {
        let ahead = self.by_time.range(self.hand..).next();
        ahead.or_else(|| self.by_time.first_key_value()).map(|(at, block)| (*at, *block))
    }

    fn make_room(&mut self) {
        while let Some((at, block)) = self.candidate() {
            self.hand = at + 1;
            match self.known.get_mut(&block) {
                Some(entry) if entry.1 => entry.1 = false,
                Some(_) | None => {
                    self.known.remove(&block);
                    self.by_time.remove(&at);
                    // A block that arrives after the youngest is visited only after the oldest.
                    let is_youngest = self.by_time.range(self.hand..).next().is_none();
                    self.hand = if is_youngest { 0 } else { self.hand };
                    return;
                }
            }
        }
    }
}

impl Policy for Sieve {
    fn touch(&mut self, block: u64) -> bool {
        if let Some(entry) = self.known.get_mut(&block) {
            entry.1 = true;
            return true;
        }
        if self.known.len() == self.capacity {
            self.make_room();
        }
        self.clock += 1;
        self.known.insert(block, (self.clock, false));
        self.by_time.insert(self.clock, block);
        false
    }

    fn discard(&mut self, block: u64) {
        if let Some((at, _)) = self.known.remove(&block) {
            self.by_time.remove(&at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the paper's figure 1 in small.
    #[test]
    fn the_hand_spares_hit_blocks_and_moves_on() {
        let mut sieve = Sieve::new(3);
        assert!([1, 2, 3].into_iter().all(|block| !sieve.touch(block)));
        assert!(sieve.touch(1));
        assert!(!sieve.touch(4), "1 is spared, 2 leaves");
        assert!(!sieve.touch(5), "the hand is at 3, which is removed");
        assert!(sieve.touch(1) && sieve.touch(4) && sieve.touch(5));
        assert!(
            !sieve.touch(6),
            "all were hit: the hand wraps around once, and the first spared block is removed"
        );
        assert!(!sieve.touch(4));
    }

    #[test]
    fn a_block_that_is_discarded_makes_room() {
        let mut sieve = Sieve::new(2);
        assert!([1, 2].into_iter().all(|block| !sieve.touch(block)));
        sieve.discard(1);
        assert!(!sieve.touch(3));
        assert!(sieve.touch(2) && sieve.touch(3));
    }
}
