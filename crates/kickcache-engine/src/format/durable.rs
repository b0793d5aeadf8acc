//! The batches and journal blocks that were durable when a daemon wrote a structure of the log.

use crate::format::durable_blocks::DurableBlocks;
use crate::format::durable_range::DurableRange;
use crate::units::Sequence;

/// The batches and the journal blocks that were durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Durable {
    /// The durable batches, by their sequence numbers.
    pub batches: DurableRange,
    /// The durable journal blocks, by their numbers in the ring.
    pub journal: DurableBlocks,
}

impl Durable {
    /// No declaration.
    pub const NOTHING: Durable = Durable {
        batches: DurableRange { first: Sequence::new(0), last: Sequence::new(0) },
        journal: DurableBlocks { first: 0, end: 0 },
    };
}
