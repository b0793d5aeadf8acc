//! Fills in flight.

use alloc::vec::Vec;

use crate::config::FILL_WINDOW_MAX;
use crate::ids::{FillSlot, RequestSlot, Ticket};
use crate::inflight::slab::Slab;
use crate::units::{BLOCK_SIZE, BlockIndex, ByteExtent, PageIndex, VolumeId};

const BLOCKS_MAX: usize = (FILL_WINDOW_MAX / BLOCK_SIZE) as usize;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct BlockSet([u64; BLOCKS_MAX / 64]);

impl BlockSet {
    pub(crate) fn insert(&mut self, offset: usize) {
        self.0[offset / 64] |= 1 << (offset % 64);
    }

    pub(crate) fn contains(&self, offset: usize) -> bool {
        self.0[offset / 64] & (1 << (offset % 64)) != 0
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FillWaiter {
    pub(crate) request: RequestSlot,
    /// Bytes of the volume that the waiter requested.
    pub(crate) extent: ByteExtent,
    /// Whether the bytes go into the request's memory.
    pub(crate) wants_data: bool,
}

/// An origin read into pages of the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fill {
    pub(crate) volume: VolumeId,
    pub(crate) extent: ByteExtent,
    pub(crate) pages: Vec<PageIndex>,
    /// Blocks that a client requested.
    pub(crate) wanted: BlockSet,
    /// Blocks that may be outdated: they are not promoted, nor returned to later requests.
    pub(crate) stale: BlockSet,
    /// Blocks that enter the main queue if the fill is promoted.
    pub(crate) main: BlockSet,
    pub(crate) promote: bool,
    pub(crate) waiters: Vec<FillWaiter>,
    pub(crate) ticket: Ticket,
}

impl Fill {
    pub(crate) fn first_block(&self) -> BlockIndex {
        BlockIndex::containing(self.extent.start)
    }

    fn will_bring(&self, volume: VolumeId, block: BlockIndex) -> bool {
        let is_fresh = |offset: usize| !self.stale.contains(offset) || mutant!(StaleFillJoined);
        self.volume == volume && self.offset_of(block).is_some_and(is_fresh)
    }

    pub(crate) fn offset_of(&self, block: BlockIndex) -> Option<usize> {
        let offset = block.get().checked_sub(self.first_block().get())?;
        let offset = usize::try_from(offset).ok()?;
        (offset < self.pages.len()).then_some(offset)
    }
}

#[derive(Debug)]
pub(crate) struct Fills {
    table: Slab<Fill>,
}

impl Fills {
    pub(crate) const fn new() -> Fills {
        Fills { table: Slab::new() }
    }

    pub(crate) fn insert(&mut self, fill: Fill) -> FillSlot {
        FillSlot(self.table.insert(fill))
    }

    pub(crate) fn remove(&mut self, slot: FillSlot) -> Fill {
        self.table.remove(slot.0).expect("a fill ends once")
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Whether a fill reads the block in its current version.
    pub(crate) fn covers(&self, volume: VolumeId, block: BlockIndex) -> bool {
        self.table.iter().any(|(_, fill)| fill.will_bring(volume, block))
    }

    pub(crate) fn covering(&mut self, volume: VolumeId, block: BlockIndex) -> Option<&mut Fill> {
        self.table.iter_mut().map(|(_, fill)| fill).find(|fill| fill.will_bring(volume, block))
    }

    /// The data of an extent is about to change (I-5).
    pub(crate) fn invalidate(&mut self, volume: VolumeId, extent: ByteExtent) {
        for (_, fill) in self.table.iter_mut() {
            if mutant!(FillOverwritesNewerWrite) || fill.volume != volume || !fill.extent.overlaps(extent) {
                continue;
            }
            let first = fill.first_block();
            for offset in 0..fill.pages.len() {
                let block = first.plus(offset as u64);
                let bytes = ByteExtent { start: block.byte_offset(), length: BLOCK_SIZE };
                if bytes.overlaps(extent) {
                    fill.stale.insert(offset);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const VOLUME: VolumeId = VolumeId::new(1);

    fn extent(first: u64, blocks: u64) -> ByteExtent {
        ByteExtent { start: first * BLOCK_SIZE, length: blocks * BLOCK_SIZE }
    }

    fn fills() -> Fills {
        let mut fills = Fills::new();
        fills.insert(Fill {
            volume: VOLUME,
            extent: extent(8, 4),
            pages: vec![PageIndex::new(1); 4],
            wanted: BlockSet::default(),
            stale: BlockSet::default(),
            main: BlockSet::default(),
            promote: true,
            waiters: Vec::new(),
            ticket: Ticket(1),
        });
        fills
    }

    fn covered(fills: &Fills) -> Vec<u64> {
        (6..14).filter(|block| fills.covers(VOLUME, BlockIndex::new(*block))).collect()
    }

    #[test]
    fn a_fill_covers_its_blocks_until_they_change() {
        let mut fills = fills();
        assert_eq!(covered(&fills), [8, 9, 10, 11]);
        // The last byte of block 9 and the first byte of block 10.
        fills.invalidate(VOLUME, ByteExtent { start: 10 * BLOCK_SIZE - 1, length: 2 });
        assert_eq!(covered(&fills), [8, 11]);
        assert!(fills.covering(VOLUME, BlockIndex::new(9)).is_none());
        fills.invalidate(VOLUME, extent(0, 8));
        fills.invalidate(VolumeId::new(0), extent(8, 4));
        assert_eq!(covered(&fills), [8, 11]);
    }
}
