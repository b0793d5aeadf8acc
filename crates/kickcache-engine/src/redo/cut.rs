//! A cut in progress: its members, and the chunks that are written to the redo journal.

use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::cache::BlockCopy;
use crate::cache::cut_search::CutMember;
use crate::format::redo::CHUNK_BLOCKS_MAX;
use crate::redo::group::ChunkBlocks;
use crate::units::{Checksum, PageIndex};

/// The phase of a cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CutPhase {
    /// Its members are searched, and become durable on the cache device.
    Searching,
    /// Its members are read from the cache device and written to the journal.
    Writing,
    /// The journal is flushed.
    Flushing,
    /// The commit is written.
    Committing,
}

/// A chunk that is in flight: its members are read, and then written to the journal in one slot.
#[derive(Debug)]
pub(crate) struct CutChunk {
    /// Ascending by key.
    pub(crate) copies: Vec<BlockCopy>,
    pub(crate) pages: Vec<PageIndex>,
    /// Members that are not read yet.
    pub(crate) missing: usize,
    /// Reads that failed and were repeated.
    pub(crate) repeated: u32,
}

/// A cut in progress.
#[derive(Debug)]
pub(crate) struct Cut {
    /// Number of its group.
    pub(crate) number: u64,
    /// The instant of the cut, in nanoseconds since 1970.
    pub(crate) instant: u64,
    pub(crate) phase: CutPhase,
    /// All members have landed on the cache device, durably.
    pub(crate) is_durable: bool,
    pub(crate) is_searched: bool,
    /// The cut will not be committed: it ends when none of its operations is in flight.
    pub(crate) is_abandoned: bool,
    members: Members,
    /// The blocks of the chunks that were begun.
    pub(crate) chunks: Vec<ChunkBlocks>,
    /// The chunks in flight, by number.
    pub(crate) flights: BTreeMap<usize, CutChunk>,
    /// CRC32C of the header of each chunk, once it was encoded.
    pub(crate) header_sums: Vec<Checksum>,
    /// Chunks, flushes and commits in flight.
    pub(crate) in_flight: u32,
}

impl Cut {
    pub(crate) fn new(number: u64, instant: u64) -> Cut {
        Cut {
            number,
            instant,
            phase: CutPhase::Searching,
            is_durable: false,
            is_searched: false,
            is_abandoned: false,
            members: Members::default(),
            chunks: Vec::new(),
            flights: BTreeMap::new(),
            header_sums: Vec::new(),
            in_flight: 0,
        }
    }

    /// Adds members, ascending by key.
    pub(crate) fn add(&mut self, members: Vec<CutMember>) {
        self.members.add(members);
    }

    /// The members of the next chunk, ascending by key; empty if there are no more.
    pub(crate) fn next_members(&mut self) -> Vec<CutMember> {
        core::iter::from_fn(|| self.members.next()).take(CHUNK_BLOCKS_MAX).collect()
    }

    /// Whether all members are in chunks.
    pub(crate) fn is_divided(&self) -> bool {
        self.members.heap.is_empty()
    }
}

/// Members of several runs, each ascending by key; merged in order.
#[derive(Debug, Default)]
struct Members {
    runs: Vec<alloc::vec::IntoIter<CutMember>>,
    /// The next member of each run, with the number of the run.
    heap: BinaryHeap<Reverse<(CutMember, usize)>>,
}

impl Members {
    fn add(&mut self, members: Vec<CutMember>) {
        let mut run = members.into_iter();
        if let Some(first) = run.next() {
            self.heap.push(Reverse((first, self.runs.len())));
            self.runs.push(run);
        }
    }

    fn next(&mut self) -> Option<CutMember> {
        let Reverse((member, run)) = self.heap.pop()?;
        if let Some(next) = self.runs[run].next() {
            self.heap.push(Reverse((next, run)));
        }
        Some(member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{BlockIndex, BlockKey, Location, VolumeId};

    #[test]
    fn members_of_all_segments_are_divided_in_order() {
        let member = |block| {
            let key = BlockKey::new(VolumeId::new(0), BlockIndex::new(block));
            CutMember { key, location: Location::new(0) }
        };
        let mut cut = Cut::new(1, 0);
        for start in [2, 0, 1] {
            cut.add((0..30).map(|number| member(start + 3 * number)).collect());
        }
        cut.add(Vec::new());
        let blocks = |cut: &mut Cut| -> Vec<u64> {
            cut.next_members().iter().map(|member| member.key.block().get()).collect()
        };
        assert_eq!(blocks(&mut cut), (0..63).collect::<Vec<_>>());
        assert!(!cut.is_divided());
        assert_eq!(blocks(&mut cut), (63..90).collect::<Vec<_>>());
        assert!(cut.is_divided() && cut.next_members().is_empty());
    }
}
