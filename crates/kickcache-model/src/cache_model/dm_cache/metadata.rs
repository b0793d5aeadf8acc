//! dm-cache's metadata: when a commit is due, and its requests to the cache device.
//!
//! Functions in brackets are in `drivers/md` and `drivers/md/persistent-data`, Linux 6.6.

use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};

use crate::cache_model::dm_cache::work::{Step, Work};
use crate::device_model::ModelOperation;

/// The byte offset of the metadata on the cache device, behind the data of a cache of up to 1 TiB.
const METADATA_AT: u64 = 1 << 40;
/// Mappings in a block of the array: 8 bytes each, after a header of 24 (`calc_max_entries`, `struct array_block`).
const MAPPINGS_PER_BLOCK: u64 = (BLOCK_SIZE - 24) / 8;
/// Blocks that each commit writes in addition: the path in the array's tree, and the space map. A guess; their number
/// depends on the history of the tree.
const TREE_BLOCKS: u64 = 4;

#[derive(Debug, Default)]
pub(super) struct Awaiting {
    pub(super) demotions: Vec<Work>,
    /// Flushes of clients (`issue_after_commit`).
    pub(super) flushes: Vec<u32>,
}

#[derive(Debug)]
pub(super) struct Metadata {
    /// Mappings that were changed, or will be by waiting demotions, since the last commit began.
    changes: u64,
    awaiting: Awaiting,
    running: Option<Awaiting>,
    blocks: u64,
    array_blocks: u64,
}

impl Metadata {
    pub(super) fn new(cache_blocks: u32) -> Metadata {
        let array_blocks = u64::from(cache_blocks).div_ceil(MAPPINGS_PER_BLOCK);
        Metadata { changes: 0, awaiting: Awaiting::default(), running: None, blocks: 0, array_blocks }
    }

    pub(super) fn on_changed(&mut self) {
        self.changes += 1;
    }

    pub(super) fn wait(&mut self, demotion: Work) {
        self.changes += 1;
        self.awaiting.demotions.push(demotion);
    }

    pub(super) fn wait_flush(&mut self, id: u32) {
        self.awaiting.flushes.push(id);
    }

    pub(super) fn is_changed(&self) -> bool {
        self.changes > 0
    }

    pub(super) fn is_awaited(&self) -> bool {
        !self.awaiting.demotions.is_empty() || !self.awaiting.flushes.is_empty()
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(super) fn begin(&mut self) -> Option<Step> {
        let changes = std::mem::take(&mut self.changes);
        self.running = Some(std::mem::take(&mut self.awaiting));
        self.blocks = changes.min(self.array_blocks) + TREE_BLOCKS;
        (changes > 0).then_some(Step::Blocks)
    }

    pub(super) fn end(&mut self) -> Awaiting {
        self.running.take().expect("a commit is running")
    }

    pub(super) fn request(&self, step: Step) -> CommitRequest {
        let write = |blocks: u64| CommitRequest {
            operation: ModelOperation::Write,
            extent: ByteExtent { start: METADATA_AT, length: blocks * BLOCK_SIZE },
        };
        match step {
            Step::Blocks => write(self.blocks),
            Step::Superblock => write(1),
            Step::BlocksFlush | Step::SuperblockFlush => CommitRequest {
                operation: ModelOperation::Flush,
                extent: ByteExtent { start: METADATA_AT, length: 0 },
            },
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CommitRequest {
    pub(super) operation: ModelOperation,
    pub(super) extent: ByteExtent,
}
