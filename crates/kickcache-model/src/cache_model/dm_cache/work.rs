//! What dm-cache does with single blocks: parts of accesses, and work in the background.

use kickcache_engine::units::ByteExtent;

use crate::cache_model::dm_cache::smq::Want;
use crate::workload::Kind;

/// What happens to one block in the background.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Work {
    Promote { block: u64, index: u32 },
    Demote { block: u64, index: u32 },
    Writeback { block: u64, index: u32 },
}

impl Work {
    /// Its block of the origin.
    pub(super) fn block(self) -> u64 {
        match self {
            Work::Promote { block, .. } | Work::Demote { block, .. } | Work::Writeback { block, .. } => block,
        }
    }
}

/// What an operation of a device is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// A part of an access, to this block of the origin.
    Access {
        id: u32,
        block: u64,
    },
    /// A part of a flush.
    Flush(u32),
    /// A write that brings a whole block in.
    Overwrite {
        id: u32,
        block: u64,
        index: u32,
    },
    /// The first half of a copy.
    CopyRead(Work),
    /// The second half.
    CopyWrite(Work),
    /// The write, then the flush of a commit.
    CommitWrite,
    CommitFlush,
}

impl Purpose {
    /// Whether a client asked for it.
    pub(super) fn is_of_a_client(self) -> bool {
        matches!(self, Purpose::Access { .. } | Purpose::Flush(_) | Purpose::Overwrite { .. })
    }
}

/// A part of an access that lies in one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) id: u32,
    pub(super) want: Want,
    pub(super) extent: ByteExtent,
}

pub(super) fn slot(block: u64) -> usize {
    usize::try_from(block).expect("blocks are on the origin")
}

pub(super) fn wants(kind: Kind, extent: ByteExtent, block_bytes: u64) -> Want {
    match kind {
        Kind::Read => Want::Read,
        Kind::Write | Kind::WriteZeroes | Kind::Flush | Kind::Discard => {
            if extent.length == block_bytes {
                Want::WholeWrite
            } else {
                Want::Write
            }
        }
    }
}
