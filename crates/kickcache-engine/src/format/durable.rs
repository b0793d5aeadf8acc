//! The structures that were durable when another one was written.

use crate::format::durable_blocks::DurableBlocks;
use crate::format::durable_range::DurableRange;
use crate::units::Sequence;

/// Durable batches and journal blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Durable {
    /// The durable batches.
    pub batches: DurableRange,
    /// The durable journal blocks.
    pub journal: DurableBlocks,
}

impl Durable {
    /// No declaration.
    pub const NOTHING: Durable = Durable {
        batches: DurableRange { first: Sequence::new(0), last: Sequence::new(0) },
        journal: DurableBlocks { first: 0, end: 0 },
    };
}
