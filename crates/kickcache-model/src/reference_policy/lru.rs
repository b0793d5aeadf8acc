//! The policy that demotes the least recently used block.

use crate::reference_policy::policy::Policy;
use crate::reference_policy::queues::Queues;

#[derive(Debug)]
pub struct Lru {
    capacity: usize,
    queues: Queues<1>,
}

impl Lru {
    /// Room for this many blocks, at least one.
    pub fn new(capacity: u64) -> Lru {
        Lru { capacity: usize::try_from(capacity.max(1)).unwrap_or(usize::MAX), queues: Queues::new() }
    }
}

impl Policy for Lru {
    fn touch(&mut self, block: u64) -> bool {
        let is_hit = self.queues.find(block).is_some();
        self.queues.push(0, block);
        if self.queues.len(0) > self.capacity {
            self.queues.pop(0);
        }
        is_hit
    }

    fn discard(&mut self, block: u64) {
        self.queues.remove(block);
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
