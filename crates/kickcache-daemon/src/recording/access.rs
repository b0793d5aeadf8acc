//! An access as the loop records it: time, type, durability and place, never the data.

use kickcache_engine::request::{Durability, Operation};
use kickcache_engine::units::ByteExtent;

/// Of a recorded access.
pub(crate) const WORDS: usize = 3;
/// Of a recorded access.
pub(crate) const BYTES: usize = 8 * WORDS;
/// The position of the length in the third word; below it are kind and durability.
const LENGTH_SHIFT: u32 = 8;
const KIND: u64 = 0b111;
const DURABLE: u64 = 1 << 3;
/// The code of a gap in place of a kind.
const GAP: u64 = 7;

/// The type of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessKind {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedAccess {
    /// Nanoseconds since the recording began.
    pub at: u64,
    pub kind: AccessKind,
    /// Whether a write, or a write of zeroes, has FUA.
    pub durability: Durability,
    /// Empty for flushes.
    pub extent: ByteExtent,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordingEntry {
    Access(RecordedAccess),
    /// The number of lost accesses.
    Gap(u64),
}

impl RecordedAccess {
    /// `None` for requests that neither access data nor make data durable.
    pub(crate) fn of(at: u64, operation: Operation, extent: ByteExtent) -> Option<RecordedAccess> {
        let (kind, durability) = match operation {
            Operation::Read => (AccessKind::Read, Durability::Volatile),
            Operation::Write(durability) => (AccessKind::Write, durability),
            Operation::Flush => (AccessKind::Flush, Durability::Volatile),
            Operation::Discard => (AccessKind::Discard, Durability::Volatile),
            Operation::WriteZeroes { durability, .. } => (AccessKind::WriteZeroes, durability),
            Operation::Promote => return None,
        };
        let extent = if kind == AccessKind::Flush { ByteExtent { start: 0, length: 0 } } else { extent };
        Some(RecordedAccess { at, kind, durability, extent })
    }
}

impl RecordingEntry {
    pub(crate) fn to_words(self) -> [u64; WORDS] {
        match self {
            RecordingEntry::Gap(count) => [0, count, GAP],
            RecordingEntry::Access(RecordedAccess { at, kind, durability, extent }) => {
                let durable = if durability == Durability::Durable { DURABLE } else { 0 };
                [at, extent.start, extent.length << LENGTH_SHIFT | durable | code(kind)]
            }
        }
    }

    /// `None` if the kind is unknown.
    pub(crate) fn of_words([at, start, rest]: [u64; WORDS]) -> Option<RecordingEntry> {
        if rest & KIND == GAP {
            return Some(RecordingEntry::Gap(start));
        }
        let durability = if rest & DURABLE == 0 { Durability::Volatile } else { Durability::Durable };
        let extent = ByteExtent { start, length: rest >> LENGTH_SHIFT };
        Some(RecordingEntry::Access(RecordedAccess { at, kind: kind(rest & KIND)?, durability, extent }))
    }
}

const fn code(kind: AccessKind) -> u64 {
    match kind {
        AccessKind::Read => 0,
        AccessKind::Write => 1,
        AccessKind::Flush => 2,
        AccessKind::Discard => 3,
        AccessKind::WriteZeroes => 4,
    }
}

fn kind(code: u64) -> Option<AccessKind> {
    Some(match code {
        0 => AccessKind::Read,
        1 => AccessKind::Write,
        2 => AccessKind::Flush,
        3 => AccessKind::Discard,
        4 => AccessKind::WriteZeroes,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use kickcache_engine::request::Unmap;

    use super::*;

    #[test]
    fn an_encoded_access_is_decoded_unchanged() {
        let zeroes = Operation::WriteZeroes { unmap: Unmap::Allow, durability: Durability::Durable };
        let operations = [
            Operation::Read,
            Operation::Write(Durability::Volatile),
            Operation::Write(Durability::Durable),
            Operation::Flush,
            Operation::Discard,
            zeroes,
        ];
        for operation in operations {
            let extent = ByteExtent { start: 1 << 50, length: 5 << 32 };
            let noted = RecordingEntry::Access(RecordedAccess::of(77, operation, extent).unwrap());
            assert_eq!(RecordingEntry::of_words(noted.to_words()), Some(noted));
        }
        assert_eq!(
            RecordingEntry::of_words(RecordingEntry::Gap(12).to_words()),
            Some(RecordingEntry::Gap(12))
        );
        assert_eq!(RecordingEntry::of_words([0, 0, 6]), None);
        assert_eq!(RecordedAccess::of(0, Operation::Promote, ByteExtent { start: 0, length: 4096 }), None);
    }
}
