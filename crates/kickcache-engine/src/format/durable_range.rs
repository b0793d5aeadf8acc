//! A range of durable batches. It distinguishes rot from a torn write.

use crate::format::bytes::{Reader, Writer};
use crate::units::Sequence;

/// Sequence numbers of durable batches, both ends included. If `last` is below `first`, the range is empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DurableRange {
    /// The first number that the daemon assigned.
    pub first: Sequence,
    /// Every batch from `first` up to this number was written with success, and then flushed.
    pub last: Sequence,
}

impl DurableRange {
    /// Whether the range contains the batch of this number.
    pub fn contains(&self, sequence: Sequence) -> bool {
        self.first <= sequence && sequence <= self.last
    }

    pub(crate) fn put(&self, writer: &mut Writer) {
        writer.put_u64(self.first.get());
        writer.put_u64(self.last.get());
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Option<DurableRange> {
        Some(DurableRange { first: reader.take_sequence()?, last: reader.take_sequence()? })
    }
}
