//! Writebacks in flight, and the blocks for the next ones.

use alloc::vec::Vec;

use crate::cache::BlockCopy;
use crate::ids::{Ticket, WritebackSlot};
use crate::inflight::slab::Slab;
use crate::request::Durability;
use crate::units::{ByteExtent, PageIndex, VolumeId};

/// One merged write of neighbouring blocks to an origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Writeback {
    pub(crate) volume: VolumeId,
    pub(crate) extent: ByteExtent,
    pub(crate) blocks: Vec<BlockCopy>,
    pub(crate) pages: Vec<PageIndex>,
    pub(crate) ticket: Ticket,
    /// Blocks that are not read yet.
    pub(crate) missing: usize,
    /// A block could not be read, or had a wrong checksum.
    pub(crate) failed: bool,
    pub(crate) durability: Durability,
}

#[derive(Debug)]
pub(crate) struct Writebacks {
    table: Slab<Writeback>,
    /// A flush of the cache device that the next writebacks need has not ended.
    pub(crate) wait_for_flush: bool,
}

impl Writebacks {
    pub(crate) const fn new() -> Writebacks {
        Writebacks { table: Slab::new(), wait_for_flush: false }
    }

    pub(crate) fn insert(&mut self, writeback: Writeback) -> WritebackSlot {
        WritebackSlot(self.table.insert(writeback))
    }

    pub(crate) fn get_mut(&mut self, slot: WritebackSlot) -> &mut Writeback {
        self.table.get_mut(slot.0).expect("a writeback in flight")
    }

    pub(crate) fn remove(&mut self, slot: WritebackSlot) -> Writeback {
        self.table.remove(slot.0).expect("a writeback ends once")
    }

    pub(crate) fn count_for(&self, volume: VolumeId) -> usize {
        self.table.iter().filter(|(_, writeback)| writeback.volume == volume).count()
    }

    pub(crate) fn durable_count_for(&self, volume: VolumeId) -> usize {
        let is_one = |writeback: &&Writeback| {
            writeback.volume == volume && writeback.durability == Durability::Durable
        };
        self.table.iter().map(|(_, writeback)| writeback).filter(is_one).count()
    }

    pub(crate) fn blocks_for(&self, volume: VolumeId) -> usize {
        let found = self.table.iter().filter(|(_, writeback)| writeback.volume == volume);
        found.map(|(_, writeback)| writeback.blocks.len()).sum()
    }

    /// Whether some blocks are being read from the cache device.
    pub(crate) fn is_reading(&self, volume: VolumeId) -> bool {
        self.table.iter().any(|(_, writeback)| writeback.volume == volume && writeback.missing > 0)
    }
}

/// The next dirty blocks for the writeback of one volume, in LBA order.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// Descending.
    blocks: Vec<BlockCopy>,
}

impl Sweep {
    pub(crate) fn fill(&mut self, mut blocks: Vec<BlockCopy>) {
        blocks.sort_unstable_by(|one, other| other.cmp(one));
        self.blocks = blocks;
    }

    pub(crate) fn pop(&mut self) -> Option<BlockCopy> {
        self.blocks.pop()
    }

    pub(crate) fn has(&self, copy: BlockCopy) -> bool {
        self.blocks.binary_search_by(|other| copy.cmp(other)).is_ok()
    }
}
