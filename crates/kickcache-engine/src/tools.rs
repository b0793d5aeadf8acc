//! Access to the cache metadata, mainly for offline tools.
//!
//! Some of these functions walk whole tables.

use alloc::vec::Vec;
use core::ops::Range;

use crate::cache::segments::SegmentState;
use crate::cache::slots::SlotState;
use crate::engine::Engine;
use crate::format::journal::Fact;
use crate::order::DurableWaiter;
use crate::queue::Queue;
use crate::task::Task;
use crate::units::{BlockIndex, BlockKey, Checksum, Generation, Location, SegmentIndex, VolumeId};

/// A cached block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CachedBlock {
    /// The location of the block on the cache device.
    pub location: Location,
    /// The volume of the block.
    pub volume: VolumeId,
    /// The number of the block in its volume.
    pub block: BlockIndex,
    /// CRC32C of the block's data.
    pub checksum: Checksum,
    /// Whether the block is dirty or unflushed.
    pub is_dirty: bool,
}

/// A segment in the cache metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentStatus {
    /// The use of the segment.
    pub usage: SegmentUsage,
    /// The generation of the segment.
    pub generation: Generation,
    /// The queue that the segment belongs to.
    pub queue: Queue,
    /// Live blocks in the segment.
    pub live_blocks: u32,
}

/// The use of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentUsage {
    /// The segment's content does not count.
    Free,
    /// The segment is in use.
    InUse,
    /// It receives no new blocks; its live blocks stay.
    Retired,
}

/// How an attempt to demote a block ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demotion {
    /// The cache has dropped the block.
    Done,
    /// The block is not cached.
    Absent,
    /// The block is dirty or unflushed, and stays.
    Dirty,
    /// The journal has no space for the record yet.
    Wait,
}

impl Engine {
    /// A segment in the cache metadata.
    pub fn segment_status(&self, segment: SegmentIndex) -> SegmentStatus {
        let found = self.state.cache.segments().get(segment);
        let usage = match found.state {
            SegmentState::Free => SegmentUsage::Free,
            SegmentState::Opening
            | SegmentState::Ready
            | SegmentState::Open
            | SegmentState::Sealing
            | SegmentState::Sealed
            | SegmentState::Reclaiming => SegmentUsage::InUse,
            SegmentState::Retired => SegmentUsage::Retired,
        };
        SegmentStatus { usage, generation: found.generation, queue: found.queue, live_blocks: found.live }
    }

    /// The cached blocks of a segment, in order of location.
    pub fn blocks_in(&self, segment: SegmentIndex) -> impl Iterator<Item = CachedBlock> {
        let slots = self.state.cache.slots();
        self.state.cache.live_in(segment).map(move |location| {
            let key = slots.key(location);
            CachedBlock {
                location,
                volume: key.volume(),
                block: key.block(),
                checksum: slots.checksum(location),
                is_dirty: slots.state(location).is_not_clean(),
            }
        })
    }

    /// Cached blocks of a volume, served or not.
    pub fn cached_blocks(&self, volume: VolumeId) -> u64 {
        self.state.cache.volume(volume).cached
    }

    /// The numbers of the journal blocks that recovery needs, and of the next one to be written.
    pub fn journal_span(&self) -> Range<u64> {
        self.state.device.journal.span()
    }

    /// Demotes a clean block.
    pub fn demote(&mut self, volume: VolumeId, block: BlockIndex) -> Demotion {
        self.is_stirred = true;
        let key = BlockKey::new(volume, block);
        match self.state.cache.state_of(key) {
            None | Some(SlotState::Dead) => Demotion::Absent,
            Some(SlotState::Dirty | SlotState::Unflushed) => Demotion::Dirty,
            Some(SlotState::Clean) if !self.state.device.journal.has_room() => {
                self.state.agenda.push_back(Task::Checkpoint);
                Demotion::Wait
            }
            Some(SlotState::Clean) => {
                self.state.forget(key);
                Demotion::Done
            }
        }
    }

    /// Drops every block of a volume, **dirty ones too**, by one record. For a volume without requests or writebacks in
    /// flight: if it is not served, or before its first request.
    pub fn drop_volume(&mut self, volume: VolumeId) {
        self.is_stirred = true;
        let slots = self.state.cache.slots();
        let keys: Vec<BlockKey> = (0..slots.count())
            .map(Location::new)
            .filter(|location| slots.state(*location) != SlotState::Dead)
            .map(|location| slots.key(location))
            .filter(|key| key.volume() == volume)
            .collect();
        for key in keys {
            self.state.cache.remove(key);
        }
        self.state.device.record(Fact::Dropped(volume));
        self.state.device.note_gone();
        self.state.agenda.push_back(Task::Reclaim);
        self.state.agenda.push_back(Task::Barrier(DurableWaiter::Nobody));
    }

    /// Names blocks to be dropped, **dirty ones too**, because the origin has newer data than a cache device out of
    /// service.
    ///
    /// # Panics
    /// Once recovery is over.
    pub fn set_overtaken(&mut self, blocks: Vec<BlockKey>) {
        assert!(self.state.recovery.is_some(), "writeback may have begun");
        self.state.overtaken = blocks;
    }

    /// Whether all batches and records are durable, or the cache device is out of service.
    pub fn is_all_durable(&self) -> bool {
        self.state.device.order.is_durable(self.state.device.order.newest())
            || self.state.device.is_out_of_service()
    }
}
