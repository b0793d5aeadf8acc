//! What a daemon knew to be durable when it wrote a structure of the log: the witness that tells rot from a torn write.

use crate::format::bytes::{Reader, Writer};
use crate::units::Sequence;

/// Sequence numbers from the first of a daemon's life to one up to which it knew every batch to be durable, both included.
/// Nothing, if the last is below the first; also two zeroes say nothing, as no batch has that number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DurableRange {
    /// The first number that the daemon gave out.
    pub first: Sequence,
    /// Every batch from there up to this number was written well, and then flushed.
    pub last: Sequence,
}

impl DurableRange {
    /// Whether the batch of this number is one of them.
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
