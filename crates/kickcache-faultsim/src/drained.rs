//! The blocks that may be dirty: those that clients wrote, or fills may have read, since the last drain of their volume.

use kickcache_engine::config::FILL_WINDOW_MAX;
use kickcache_engine::units::{BLOCK_SIZE, BlockIndex, ByteExtent, VolumeId};

use crate::index::index;
use crate::workload::Ask;

/// The state of the drains of one volume.
#[derive(Clone, Debug)]
struct Drained {
    /// By number: whether a block may be dirty.
    blocks: Vec<bool>,
    /// A drain was requested and has not ended.
    is_asked: bool,
}

impl Drained {
    fn touch(&mut self, extent: ByteExtent) {
        let end = index(extent.end().div_ceil(BLOCK_SIZE)).min(self.blocks.len());
        let start = index(extent.start / BLOCK_SIZE).min(end);
        self.blocks[start..end].fill(true);
    }
}

/// The drains of a run.
#[derive(Clone, Debug)]
pub(crate) struct Drains {
    volumes: Vec<Drained>,
    ended: u64,
}

impl Drains {
    /// No block of origins of these sizes is dirty.
    pub(crate) fn new(origin_sizes: &[u64]) -> Drains {
        let drained =
            |size: &u64| Drained { blocks: vec![false; index(size.div_ceil(BLOCK_SIZE))], is_asked: false };
        Drains { volumes: origin_sizes.iter().map(drained).collect(), ended: 0 }
    }

    fn of(&mut self, volume: VolumeId) -> &mut Drained {
        &mut self.volumes[usize::from(volume.get())]
    }

    /// A client issues a request. A fill may read more than the request, and its blocks are not clean before the next
    /// flush of the origin.
    pub(crate) fn note_request(&mut self, ask: &Ask) {
        let ByteExtent { start, length } = ask.extent;
        let from = start.saturating_sub(FILL_WINDOW_MAX);
        let widened = ByteExtent { start: from, length: start - from + length + FILL_WINDOW_MAX };
        let extent = if ask.changes_nothing() { widened } else { ask.extent };
        if length > 0 {
            self.of(ask.volume).touch(extent);
        }
    }

    /// The operator requests a drain.
    pub(crate) fn note_asked(&mut self, volume: VolumeId) {
        self.of(volume).is_asked = true;
    }

    /// The volumes with a drain that has not ended.
    pub(crate) fn asked(&self) -> impl Iterator<Item = usize> {
        self.volumes.iter().enumerate().filter(|(_, drained)| drained.is_asked).map(|(number, _)| number)
    }

    /// A drain ended, while these requests are in flight.
    pub(crate) fn end<'a>(&mut self, volume: VolumeId, in_flight: impl Iterator<Item = &'a Ask>) {
        self.ended += 1;
        let drained = self.of(volume);
        drained.is_asked = false;
        drained.blocks.fill(false);
        in_flight.filter(|ask| ask.volume == volume).for_each(|ask| self.note_request(ask));
    }

    /// A drain ended, and blocks have become dirty since.
    pub(crate) fn end_unseen(&mut self, volume: VolumeId) {
        self.of(volume).is_asked = false;
    }

    /// A life ends: no drain continues.
    pub(crate) fn stop(&mut self) {
        self.volumes.iter_mut().for_each(|drained| drained.is_asked = false);
    }

    /// The drains that have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }

    /// The first of these blocks that cannot be dirty.
    pub(crate) fn find_clean(&self, volume: VolumeId, dirty: &[BlockIndex]) -> Option<BlockIndex> {
        let blocks = &self.volumes[usize::from(volume.get())].blocks;
        dirty.iter().copied().find(|block| !blocks[index(block.get())])
    }
}
