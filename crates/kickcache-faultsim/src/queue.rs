//! The event queue: events in the order of virtual time; events at the same time in the order of scheduling.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kickcache_engine::time::Instant;
use kickcache_engine::units::VolumeId;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Event {
    Apply(u64),
    Complete(u64),
    Client(usize),
    Operator,
    Restart(VolumeId),
    Grow,
    Replace,
}

#[derive(Clone, Debug, Default)]
pub struct Queue {
    heap: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    count: u64,
}

impl Queue {
    pub fn push(&mut self, at: Instant, event: Event) {
        self.count += 1;
        self.heap.push(Reverse((at, self.count, event)));
    }

    pub fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|entry| entry.0.0)
    }

    pub fn pop(&mut self) -> Option<(Instant, Event)> {
        self.heap.pop().map(|entry| (entry.0.0, entry.0.2))
    }
}
