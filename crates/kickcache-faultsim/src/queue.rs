//! The event queue: events in the order of virtual time; events at the same time in the order of scheduling.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kickcache_engine::time::Instant;
use kickcache_engine::units::VolumeId;

/// An event at a point in virtual time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Event {
    /// A submission takes effect on its device.
    Apply(u64),
    /// A submission ends.
    Complete(u64),
    /// A client continues.
    Client(usize),
    /// The operator does something.
    Operator,
    /// The server behind an origin restarts.
    Restart(VolumeId),
    /// The growth of the cache device begins, or continues.
    Grow,
    /// The replacement of the cache device begins, or continues.
    Replace,
}

/// Events in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    heap: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    count: u64,
}

impl Queue {
    /// Adds an event.
    pub fn push(&mut self, at: Instant, event: Event) {
        self.count += 1;
        self.heap.push(Reverse((at, self.count, event)));
    }

    /// When the next event happens.
    pub fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|entry| entry.0.0)
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<(Instant, Event)> {
        self.heap.pop().map(|entry| (entry.0.0, entry.0.2))
    }
}
