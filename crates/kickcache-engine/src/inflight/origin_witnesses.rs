//! Some of the blocks that an origin has stored last and durably: an older state of the origin lacks these.
//!
//! Invariants:
//! * I-3: a block that needs a flush of the origin counts when a flush has ended that was submitted after the end of
//!   the write of the block.

use alloc::vec::Vec;
use core::mem;

use crate::units::BlockIndex;

/// The most blocks of each kind that are kept.
const KEPT: usize = 256;

#[derive(Debug, Default)]
struct Last {
    blocks: Vec<BlockIndex>,
    /// The place of the next block, once the list is full.
    next: usize,
}

impl Last {
    fn add(&mut self, block: BlockIndex) {
        if self.blocks.len() < KEPT {
            self.blocks.push(block);
            return;
        }
        self.blocks[self.next] = block;
        self.next = (self.next + 1) % KEPT;
    }

    fn oldest_first(&self) -> impl DoubleEndedIterator<Item = BlockIndex> + '_ {
        let (newer, older) = self.blocks.split_at(self.next);
        older.iter().chain(newer).copied()
    }
}

#[derive(Debug, Default)]
pub(crate) struct OriginWitnesses {
    durable: Last,
    /// Blocks that the flush in flight makes durable.
    flushing: Last,
    /// Blocks that the next flush makes durable.
    waiting: Last,
}

impl OriginWitnesses {
    pub(crate) fn add(&mut self, block: BlockIndex) {
        self.waiting.add(block);
    }

    pub(crate) fn add_durable(&mut self, block: BlockIndex) {
        self.durable.add(block);
    }

    pub(crate) fn begin_flush(&mut self) {
        self.flushing = mem::take(&mut self.waiting);
    }

    pub(crate) fn end_flush(&mut self) {
        let flushed = mem::take(&mut self.flushing);
        flushed.oldest_first().for_each(|block| self.durable.add(block));
    }

    /// A restart or a failed flush of the origin may have lost unflushed blocks.
    pub(crate) fn forget_unflushed(&mut self) {
        self.flushing = Last::default();
        self.waiting = Last::default();
    }

    /// The durable blocks, the newest first; a block may occur twice.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = BlockIndex> + '_ {
        self.durable.oldest_first().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(witnesses: &OriginWitnesses) -> Vec<u64> {
        witnesses.newest_first().map(|block| block.byte_offset() / 4096).collect()
    }

    #[test]
    fn a_block_counts_from_the_next_submitted_flush() {
        let mut witnesses = OriginWitnesses::default();
        witnesses.add(BlockIndex::new(1));
        witnesses.begin_flush();
        witnesses.add(BlockIndex::new(2));
        witnesses.add_durable(BlockIndex::new(9));
        assert_eq!(told(&witnesses), [9]);
        witnesses.end_flush();
        assert_eq!(told(&witnesses), [1, 9]);
        witnesses.begin_flush();
        witnesses.end_flush();
        assert_eq!(told(&witnesses), [2, 1, 9]);
    }

    #[test]
    fn unflushed_blocks_are_dropped_with_the_server() {
        let mut witnesses = OriginWitnesses::default();
        witnesses.add_durable(BlockIndex::new(7));
        witnesses.add(BlockIndex::new(1));
        witnesses.begin_flush();
        witnesses.add(BlockIndex::new(2));
        witnesses.forget_unflushed();
        witnesses.end_flush();
        witnesses.begin_flush();
        witnesses.end_flush();
        assert_eq!(told(&witnesses), [7]);
    }

    #[test]
    fn the_oldest_make_room() {
        let mut witnesses = OriginWitnesses::default();
        (0..1_000).for_each(|block| witnesses.add(BlockIndex::new(block)));
        witnesses.begin_flush();
        witnesses.end_flush();
        assert_eq!(told(&witnesses), (1_000 - KEPT as u64..1_000).rev().collect::<Vec<_>>());
        witnesses.add_durable(BlockIndex::new(5));
        assert_eq!(told(&witnesses)[..2], [5, 999]);
        assert_eq!(told(&witnesses).len(), KEPT);
    }
}
