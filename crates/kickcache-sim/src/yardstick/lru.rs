//! The least recently used block leaves.

use std::collections::{BTreeMap, HashMap};

use crate::yardstick::Policy;

/// LRU over a number of blocks.
#[derive(Debug)]
pub struct Lru {
    capacity: usize,
    clock: u64,
    used: HashMap<u64, u64>,
    by_time: BTreeMap<u64, u64>,
}

impl Lru {
    /// Room for so many blocks, at least one.
    pub fn new(capacity: u64) -> Lru {
        let capacity = usize::try_from(capacity.max(1)).unwrap_or(usize::MAX);
        Lru { capacity, clock: 0, used: HashMap::new(), by_time: BTreeMap::new() }
    }
}

impl Policy for Lru {
    fn touch(&mut self, block: u64) -> bool {
        self.clock += 1;
        let before = self.used.insert(block, self.clock);
        if let Some(before) = before {
            self.by_time.remove(&before);
        }
        self.by_time.insert(self.clock, block);
        if self.used.len() > self.capacity
            && let Some((_, oldest)) = self.by_time.pop_first()
        {
            self.used.remove(&oldest);
        }
        before.is_some()
    }

    fn discard(&mut self, block: u64) {
        if let Some(before) = self.used.remove(&block) {
            self.by_time.remove(&before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_leaves() {
        let mut lru = Lru::new(2);
        assert!([1, 2].into_iter().all(|block| !lru.touch(block)));
        assert!(lru.touch(1));
        assert!(!lru.touch(3));
        assert!(lru.touch(1) && !lru.touch(2));
        lru.discard(1);
        assert!(!lru.touch(1));
    }
}
