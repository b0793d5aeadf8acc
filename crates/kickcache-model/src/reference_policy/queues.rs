//! Blocks in several queues, each block in one at most.

use std::collections::{BTreeMap, HashMap};

/// Queues by number, the oldest block of each first.
#[derive(Debug)]
pub(crate) struct Queues<const COUNT: usize> {
    clock: u64,
    places: HashMap<u64, (usize, u64)>,
    queues: [BTreeMap<u64, u64>; COUNT],
}

impl<const COUNT: usize> Queues<COUNT> {
    pub(crate) fn new() -> Queues<COUNT> {
        Queues { clock: 0, places: HashMap::new(), queues: std::array::from_fn(|_| BTreeMap::new()) }
    }

    pub(crate) fn find(&self, block: u64) -> Option<usize> {
        self.places.get(&block).map(|place| place.0)
    }

    /// Puts a block at the young end of a queue, wherever it was before.
    pub(crate) fn push(&mut self, queue: usize, block: u64) {
        self.remove(block);
        self.clock += 1;
        self.places.insert(block, (queue, self.clock));
        self.queues[queue].insert(self.clock, block);
    }

    pub(crate) fn pop(&mut self, queue: usize) -> Option<u64> {
        let (_, block) = self.queues[queue].pop_first()?;
        self.places.remove(&block);
        Some(block)
    }

    pub(crate) fn remove(&mut self, block: u64) {
        if let Some((queue, at)) = self.places.remove(&block) {
            self.queues[queue].remove(&at);
        }
    }

    pub(crate) fn len(&self, queue: usize) -> usize {
        self.queues[queue].len()
    }
}
