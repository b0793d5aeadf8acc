//! The position of the last look at a volume's blocks: a clock's hand over the segments, probation first.

use crate::queue::Queue;
use crate::time::Instant;
use crate::units::{Generation, SegmentIndex};

/// A segment in one of its lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentLife {
    pub(crate) segment: SegmentIndex,
    pub(crate) generation: Generation,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hand {
    pub(crate) queue: Queue,
    /// The segment of the queue that was checked last in this round.
    pub(crate) last: Option<SegmentLife>,
    /// The earliest time of the next look.
    pub(crate) rest_until: Instant,
}

impl Hand {
    pub(crate) const fn new() -> Hand {
        Hand { queue: Queue::Probation, last: None, rest_until: Instant::ZERO }
    }
}
