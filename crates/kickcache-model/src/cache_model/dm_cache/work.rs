//! Operations of dm-cache on single blocks: parts of accesses, and background work.

use kickcache_engine::units::ByteExtent;

use crate::cache_model::dm_cache::smq::Want;
use crate::workload::Kind;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Work {
    Promote { block: u64, index: u32 },
    Demote { block: u64, index: u32 },
    Writeback { block: u64, index: u32 },
}

impl Work {
    pub(super) fn block(self) -> u64 {
        match self {
            Work::Promote { block, .. } | Work::Demote { block, .. } | Work::Writeback { block, .. } => block,
        }
    }
}

/// Each of two rounds is a write and a flush (`dm_tm_pre_commit`, `dm_tm_commit`: `dm_bm_flush`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Blocks of the array, the tree and the space map.
    Blocks,
    BlocksFlush,
    Superblock,
    SuperblockFlush,
}

impl Step {
    pub(super) fn next(self) -> Option<Step> {
        match self {
            Step::Blocks => Some(Step::BlocksFlush),
            Step::BlocksFlush => Some(Step::Superblock),
            Step::Superblock => Some(Step::SuperblockFlush),
            Step::SuperblockFlush => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    Access { id: u32, block: u64 },
    Flush(u32),
    Overwrite { id: u32, block: u64, index: u32 },
    CopyRead(Work),
    CopyWrite(Work),
    Commit(Step),
}

impl Purpose {
    pub(super) fn is_of_a_client(self) -> bool {
        matches!(self, Purpose::Access { .. } | Purpose::Flush(_) | Purpose::Overwrite { .. })
    }
}

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
