//! One access of a trace, independent of its format.

use kickcache_engine::request::Durability;
use kickcache_engine::time::Duration;
use kickcache_engine::units::ByteExtent;

use crate::workload::Kind;

/// An access that begins behind this address is refused.
const OFFSET_MAX: u64 = 1 << 52;
/// Bytes of the longest read or write, and of the longest piece of a discard or write of zeroes.
const LENGTH_MAX: u64 = 1 << 30;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The time of the access, from a zero that each trace chooses; `None` if the trace has no times.
    pub at: Option<Duration>,
    /// The number of its device: in a recording of kickcache the stored number; otherwise devices are numbered in the
    /// order of their first records.
    pub device: u32,
    pub kind: Kind,
    /// For writes and zeroes: FUA, as far as the format records it.
    pub durability: Durability,
    /// The extent on the device.
    pub extent: ByteExtent,
}

impl Record {
    /// The record, if a volume can hold its extent; otherwise a sentence with the reason.
    pub(crate) fn checked(self) -> Result<Record, String> {
        let ByteExtent { start, length } = self.extent;
        if self.kind != Kind::Flush && length == 0 {
            return Err("an access of 0 bytes; at least one was expected".into());
        }
        let (length_max, words) = match self.kind {
            Kind::Read | Kind::Write => (LENGTH_MAX, "at most 1 GiB, below 4 PiB,"),
            Kind::Flush | Kind::Discard | Kind::WriteZeroes => (OFFSET_MAX, "at most 4 PiB, below 4 PiB,"),
        };
        if length > length_max || start > OFFSET_MAX {
            return Err(format!("{length} bytes at offset {start}; {words} was expected"));
        }
        Ok(self)
    }

    /// Cuts a long discard or write of zeroes to its first piece; returns the rest.
    pub(crate) fn cut_piece(&mut self) -> Option<Record> {
        let ByteExtent { start, length } = self.extent;
        let rest = length.checked_sub(LENGTH_MAX).filter(|rest| *rest > 0)?;
        self.extent.length = LENGTH_MAX;
        Some(Record { extent: ByteExtent { start: start + LENGTH_MAX, length: rest }, ..*self })
    }
}
