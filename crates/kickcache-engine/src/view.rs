//! What an engine shows of itself.

use alloc::vec::Vec;

use crate::cache::segments::SegmentState;
use crate::engine::Engine;
use crate::queue::Queue;
use crate::stats::{CacheHealth, Status, VolumeStatus};
use crate::units::{BlockIndex, BlockKey, VolumeId};

impl Engine {
    /// State and counters.
    pub fn status(&self) -> Status {
        let state = &self.state;
        let segments = state.cache.segments();
        let geometry = state.cache.geometry();
        let free = segments.count_in(SegmentState::Free)
            + segments.count_in(SegmentState::Ready)
            + segments.count_in(SegmentState::Opening);
        Status {
            health: state.health,
            segments: u64::from(geometry.segment_count),
            free_segments: free,
            capacity_blocks: geometry.capacity_blocks(),
            probation_blocks: segments.live_blocks(Queue::Probation),
            main_blocks: segments.live_blocks(Queue::Main),
            probation_target: state.retention.target(),
            memory_bytes: state.cache.memory_bytes() + state.retention.memory_bytes(),
            counters: state.counters,
            volumes: state.volume_ids().map(|volume| self.volume_status(volume)).collect(),
        }
    }

    fn volume_status(&self, volume: VolumeId) -> VolumeStatus {
        let found = self.state.volume(volume);
        let blocks = self.state.cache.volume(volume);
        VolumeStatus {
            volume,
            mode: found.settings.mode,
            size: found.size,
            cached_blocks: blocks.cached,
            dirty_blocks: blocks.dirty,
            unflushed_blocks: blocks.unflushed,
            fill_window: found.window.bytes(),
            requests_in_flight: self.state.requests.count_for(volume),
            counters: found.counters,
        }
    }

    /// How the cache device is doing, without the work of [`Engine::status`].
    pub fn health(&self) -> CacheHealth {
        self.state.health
    }

    /// Whether the newest data of a block is in the cache, at any place of the log.
    pub fn is_cached(&self, volume: VolumeId, block: BlockIndex) -> bool {
        self.state.cache.find(BlockKey::new(volume, block)).is_some()
    }

    /// Whether the cache device is used no longer, after too many errors or by order.
    pub fn is_out_of_service(&self) -> bool {
        self.state.is_out_of_service()
    }

    /// The blocks of a volume whose newest data the origin does not have, or has not flushed, ascending. Walks the
    /// whole table: not for hot paths.
    pub fn dirty_blocks(&self, volume: VolumeId) -> Vec<BlockIndex> {
        let mut blocks: Vec<_> = self.state.cache.kept_blocks(volume).collect();
        blocks.sort_unstable();
        blocks
    }

    /// Whether the books agree with each other, recomputed from scratch.
    ///
    /// # Panics
    /// If they do not.
    pub fn check(&self) {
        self.state.cache.check();
        self.state.check_through_writes();
    }

    /// Pages of the pool in use.
    pub fn pool_pages_used(&self) -> u32 {
        self.state.pool.used()
    }
}
