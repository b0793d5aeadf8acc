//! Queries of an engine's state.

use alloc::vec::Vec;

use crate::cache::segments::SegmentState;
use crate::cache::slots::SlotState;
use crate::engine::Engine;
use crate::inflight::writing::IfRefused;
use crate::policy::miniature::Use;
use crate::policy::passage::{Piece, Way};
use crate::queue::Queue;
use crate::redo::RedoStatus;
use crate::request::Operation;
use crate::stats::{
    CacheCounters, CacheHealth, Record, Status, VolumeCounters, VolumeStatus, Wear, WearHistory,
};
use crate::time::Instant;
use crate::units::{BlockIndex, BlockKey, ByteExtent, VolumeId};

impl Engine {
    /// Whether a part of a long stream without cached blocks would enter the cache now.
    pub fn takes_stream(&mut self, volume: VolumeId, operation: Operation, extent: ByteExtent) -> bool {
        let how = if matches!(operation, Operation::Write(_)) { Use::Write } else { Use::Read };
        let piece = Piece::new(volume, how, extent);
        self.state.retention.passage.on_missed(piece);
        self.state.choose_way(piece) == Way::Enter
    }

    /// State and counters.
    pub fn status(&self) -> Status {
        let state = &self.state;
        let segments = state.cache.segments();
        let geometry = state.cache.geometry();
        let free = segments.count_in(SegmentState::Free)
            + segments.count_in(SegmentState::Ready)
            + segments.count_in(SegmentState::Opening);
        Status {
            health: state.device.health,
            record: self.record(),
            segments: u64::from(geometry.segment_count),
            free_segments: free,
            retired_segments: segments.count_in(SegmentState::Retired),
            capacity_blocks: geometry.capacity_blocks(),
            probation_blocks: segments.live_blocks(Queue::Probation),
            main_blocks: segments.live_blocks(Queue::Main),
            probation_target: state.retention.target(),
            memory_bytes: state.cache.memory_bytes() + state.retention.memory_bytes(),
            counters: CacheCounters { refused_blocks: state.wear.refused(), ..state.device.counters },
            volumes: state.volumes.ids().map(|volume| self.volume_status(volume)).collect(),
            damaged: self.damaged_blocks(),
        }
    }

    /// The recent writes to the cache device, for [`Engine::remember_wear`] of the next engine.
    pub fn wear_history(&self, now: Instant) -> WearHistory {
        self.state.wear.history(now)
    }

    /// The writes to the cache device in the last day, and their limit.
    pub fn wear(&self, now: Instant) -> Wear {
        let wear = &self.state.wear;
        Wear {
            budget: wear.budget(),
            day_bytes: wear.day_bytes(now),
            counted: wear.counted(now),
            given_up: wear.given_up(now),
        }
    }

    fn volume_status(&self, volume: VolumeId) -> VolumeStatus {
        let found = self.state.volumes.get(volume);
        let blocks = self.state.cache.volume(volume);
        VolumeStatus {
            volume,
            mode: found.settings.mode,
            settings: found.settings,
            size: found.size,
            cached_blocks: blocks.cached,
            dirty_blocks: blocks.dirty,
            dirty_since: (blocks.dirty > 0).then_some(found.dirty_since),
            damaged_blocks: blocks.damaged,
            unflushed_blocks: blocks.unflushed,
            is_draining: found.draining,
            paused_until: found.paused_until,
            fill_window: found.window.bytes(),
            requests_in_flight: self.state.requests.count_for(volume),
            is_incomplete: self.state.marking.incomplete.is_some_and(|set| set.contains(volume)),
            counters: found.counters,
        }
    }

    /// The state of the redo journal; `None` without one.
    pub fn redo_status(&self) -> Option<RedoStatus> {
        self.state.redo.as_ref().map(|redo| redo.status())
    }

    /// The counters of a volume.
    pub fn counters(&self, volume: VolumeId) -> &VolumeCounters {
        &self.state.volumes.get(volume).counters
    }

    pub(crate) fn keep_counters_of(&mut self, before: &Engine) {
        for volume in self.state.volumes.ids() {
            if let Some(found) = before.state.volumes.find(volume) {
                self.state.volumes.get_mut(volume).counters = found.counters;
            }
        }
    }

    /// The health of the cache device.
    pub fn health(&self) -> CacheHealth {
        self.state.device.health
    }

    /// The place of the record that the cache device is out of service; `None` while it is in service.
    pub fn record(&self) -> Option<Record> {
        self.state.device.is_out_of_service().then(|| self.state.marking.record())
    }

    /// Whether the index has a copy of a block.
    pub fn is_cached(&self, volume: VolumeId, block: BlockIndex) -> bool {
        self.state.cache.find(BlockKey::new(volume, block)).is_some()
    }

    /// Whether the cache device is out of service.
    pub fn is_out_of_service(&self) -> bool {
        self.state.device.is_out_of_service()
    }

    /// The blocks of a volume that are dirty or unflushed, ascending. Walks the whole table.
    pub fn dirty_blocks(&self, volume: VolumeId) -> Vec<BlockIndex> {
        let mut blocks: Vec<_> = self.state.cache.kept_blocks(volume).collect();
        blocks.sort_unstable();
        blocks
    }

    /// The blocks of a volume that a loss of the cache device may lose, ascending; blocks that are dirty only because
    /// of an unacknowledged write through the log are left out. Walks the whole table.
    pub fn unwritten_blocks(&self, volume: VolumeId) -> Vec<BlockIndex> {
        let state = &self.state;
        let is_lost_with_cache = |block: &BlockIndex| {
            let key = BlockKey::new(volume, *block);
            let found = state.cache.find(key);
            let dirty = found.filter(|at| state.cache.slots().state(*at) == SlotState::Dirty);
            let through =
                |location| state.requests.written_through(&state.cache, state.cache.copy_at(key, location));
            dirty.is_some_and(|location| matches!(through(location), None | Some(IfRefused::StaysDirty)))
        };
        let mut blocks: Vec<_> = state.cache.kept_blocks(volume).filter(is_lost_with_cache).collect();
        blocks.sort_unstable();
        blocks
    }

    /// The damaged dirty blocks, ascending, up to a limit.
    pub fn damaged_blocks(&self) -> Vec<BlockKey> {
        self.state.damaged_blocks()
    }

    /// Checks the consistency of the cache metadata, and the count of the writes through the log.
    ///
    /// # Panics
    /// If it is inconsistent.
    pub fn check(&self) {
        self.state.cache.check();
        self.state.requests.check_through_count();
    }

    /// Pages of the pool in use.
    pub fn pool_pages_used(&self) -> u32 {
        self.state.pool.used()
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Mode;
    use crate::scene::Scene;
    use crate::time::Duration;

    #[test]
    fn a_volume_is_dirty_since_its_first_unclean_write() {
        let mut scene = Scene::new(Mode::WriteBack);
        let since = |scene: &Scene| scene.engine.status().volumes[0].dirty_since;
        assert_eq!(since(&scene), None);
        scene.write(8192, 4096).0.unwrap();
        let first = since(&scene).unwrap();
        scene.pass(Duration::from_millis(1));
        scene.write(65_536, 4096).0.unwrap();
        assert_eq!(since(&scene), Some(first), "it was dirty all the time");
        scene.drain();
        assert_eq!(since(&scene), None);
        scene.write(8192, 4096).0.unwrap();
        assert!(since(&scene).unwrap() > first);
    }
}
