//! Chooses the route of a write.

use alloc::vec::Vec;

use crate::cache::slots::SlotState;
use crate::config::{FILL_WINDOW_MAX, Mode, SequentialCutoff};
use crate::ids::RequestSlot;
use crate::inflight::blocks::blocks_of;
use crate::inflight::requests::Stage;
use crate::inflight::writing::{Route, WriteData};
use crate::policy::miniature::Use;
use crate::policy::passage::{Piece, Way};
use crate::policy::wear::Rank;
use crate::state::State;
use crate::task::Task;
use crate::units::{BLOCK_SIZE, BlockKey, ByteExtent, SECTOR_SIZE, VolumeId};

/// A flush can be hastened if at least one in this number of a volume's dirty and unflushed blocks is unflushed.
const UNFLUSHED_PART: u64 = 4;

impl State {
    /// Chooses the route of the current part of a write, and may shorten the part.
    pub(crate) fn choose_route(&mut self, slot: RequestSlot) -> Route {
        let volume = self.requests.get(slot).volume;
        if self.is_point_in_time(volume) {
            return Route::Log;
        }
        if self.device.is_out_of_service() {
            return Route::Through;
        }
        if self.are_long_zeroes(slot) {
            return Route::Supersede;
        }
        if self.prefers_around(slot) && self.may_go_around(slot) || self.is_kept_out(slot) {
            return Route::Around;
        }
        if self.supersedes(slot) {
            return Route::Supersede;
        }
        let settings = self.volumes.get(volume).settings;
        let is_at_limit = self.dirty_share(volume) >= u64::from(settings.dirty_limit);
        if settings.mode == Mode::WriteBack && !is_at_limit {
            return Route::Log;
        }
        self.hurry_flush(slot);
        if self.is_log_overdrawn(volume) {
            return self.choose_for_overdrawn(slot);
        }
        let stays = settings.mode == Mode::WriteBack && self.keys(slot).all(|key| self.is_not_clean(key));
        if stays { Route::Log } else { Route::LogThrough }
    }

    /// Whether a write of a volume that is written back in cuts waits for the group: the log has no more space for its
    /// volume, or the redo journal none for more dirty blocks. A write that only replaces dirty or unflushed blocks
    /// needs no more space in the log.
    pub(crate) fn must_wait_for_group(&mut self, slot: RequestSlot) -> bool {
        let volume = self.requests.get(slot).volume;
        if !self.is_point_in_time(volume) {
            return false;
        }
        let new =
            self.keys(slot).filter(|key| self.cache.state_of(*key) != Some(SlotState::Dirty)).count() as u64;
        let stays = self.keys(slot).all(|key| self.is_not_clean(key));
        let is_too_much = new > 0 && self.dirty_in_group() + new > self.redo().dirty_max();
        let must_wait = is_too_much || !stays && self.is_log_overdrawn(volume);
        if must_wait {
            self.redo().is_awaited = true;
            self.agenda.push_back(Task::Redo);
        }
        must_wait
    }

    /// Whether write-zeroes are too long for the log, and the log may have blocks of the extent.
    fn are_long_zeroes(&mut self, slot: RequestSlot) -> bool {
        let (volume, length) = (self.requests.get(slot).volume, self.part(slot).length);
        let is_zeroes = self.requests.get_mut(slot).writing().source == WriteData::Zeroes;
        is_zeroes && length > self.logged_zeroes_max() && self.cache.volume(volume).cached > 0
    }

    /// The most bytes of write-zeroes that the log takes.
    pub(crate) fn logged_zeroes_max(&self) -> u64 {
        FILL_WINDOW_MAX.min(self.logged_max())
    }

    /// The most bytes of a write that the log takes together.
    pub(crate) fn logged_max(&self) -> u64 {
        self.retention.capacity() / 8 * BLOCK_SIZE
    }

    fn part(&self, slot: RequestSlot) -> ByteExtent {
        match &self.requests.get(slot).stage {
            Stage::Write(writing) => writing.extent,
            Stage::Simple | Stage::Cursor(_) => panic!("only writes have a route"),
        }
    }

    /// The blocks of the current part of a write.
    pub(crate) fn keys(&self, slot: RequestSlot) -> impl Iterator<Item = BlockKey> + use<> {
        let volume = self.requests.get(slot).volume;
        blocks_of(self.part(slot)).map(move |block| BlockKey::new(volume, block))
    }

    /// Whether the log has a dirty or unflushed copy of a block.
    fn is_not_clean(&self, key: BlockKey) -> bool {
        self.cache.state_of(key).is_some_and(SlotState::is_not_clean)
    }

    fn prefers_around(&mut self, slot: RequestSlot) -> bool {
        let pending = self.requests.get_mut(slot);
        let volume = pending.volume;
        let writing = pending.writing();
        let (extent, source) = (writing.extent, writing.source);
        let found = self.volumes.get_mut(volume);
        let settings = found.settings;
        let stream = if source == WriteData::Payload { found.write_streams.observe(extent) } else { 0 };
        match settings.mode {
            Mode::WriteAround | Mode::Bypass => true,
            Mode::WriteThrough | Mode::WriteBack => {
                source == WriteData::Zeroes
                    || stream > 0 && self.passes_by(slot, settings.sequential_cutoff, stream)
                    || self.is_sooner_past_log(volume, extent)
            }
        }
    }

    fn may_go_around(&mut self, slot: RequestSlot) -> bool {
        is_aligned(self.part(slot)) && !self.must_be_logged(slot)
    }

    /// Whether a write should use the origin although the log has dirty copies of its blocks. Copies that are not
    /// durable in the log prevent that: a power cut could restore an older copy, even as clean.
    fn supersedes(&mut self, slot: RequestSlot) -> bool {
        let volume = self.requests.get(slot).volume;
        let writing = self.requests.get_mut(slot).writing();
        let (extent, source) = (writing.extent, writing.source);
        source == WriteData::Payload
            && self.is_sooner_past_log(volume, extent)
            && self.requests.get_mut(slot).writing().partial_blocks().next().is_none()
            && !self.keys(slot).any(|key| self.is_volatile(key))
    }

    /// Whether the log has a dirty or unflushed copy of a block that a power cut could lose.
    fn is_volatile(&self, key: BlockKey) -> bool {
        let found = self.older_copy(self.cache.find(key));
        found.is_some_and(|location| !self.is_durable(location))
    }

    fn is_sooner_past_log(&self, volume: VolumeId, extent: ByteExtent) -> bool {
        self.volumes.get(volume).settings.mode == Mode::WriteBack
            && self.is_origin_sooner(volume, extent.length)
    }

    /// Whether the write budget keeps a write out of the log that uses the origin anyway. Other writes enter the log
    /// independent of the budget.
    fn is_kept_out(&mut self, slot: RequestSlot) -> bool {
        if self.wear.budget().is_none() {
            return false;
        }
        let volume = self.requests.get(slot).volume;
        let blocks = self.keys(slot).count() as u64;
        if self.volumes.get(volume).settings.mode != Mode::WriteThrough || !self.may_go_around(slot) {
            self.wear.on_wanted(self.now, blocks);
            return false;
        }
        let is_cached = self.keys(slot).any(|key| self.cache.find(key).is_some());
        let rank = if is_cached { Rank::JustNow } else { Rank::Unknown };
        let is_kept_out = !self.wear.allows(self.now, rank, blocks);
        if is_kept_out {
            self.keys(slot).for_each(|key| self.retention.remember(key));
        }
        is_kept_out
    }

    /// Whether new blocks of a stream of this length so far bypass the cache.
    fn passes_by(&mut self, slot: RequestSlot, cutoff: SequentialCutoff, stream: u64) -> bool {
        let is_new = |state: &State| state.keys(slot).all(|key| state.cache.find(key).is_none());
        let piece = Piece::new(self.requests.get(slot).volume, Use::Write, self.part(slot));
        self.retention.passage.on_missed(piece);
        let passes_by = match cutoff {
            SequentialCutoff::Off => false,
            SequentialCutoff::Above(length) => stream > length && is_new(self),
            SequentialCutoff::Auto(length) => {
                stream > length && is_new(self) && self.choose_way(piece) == Way::PassBy
            }
        };
        if passes_by {
            self.volumes.get_mut(piece.volume).counters.stream_blocks += piece.blocks;
        }
        passes_by
    }

    /// Whether a write must not go around the log.
    fn must_be_logged(&mut self, slot: RequestSlot) -> bool {
        let volume = self.requests.get(slot).volume;
        if self.cache.volume(volume).cached == 0 {
            return false;
        }
        let partial: Vec<_> = self.requests.get_mut(slot).writing().partial_blocks().collect();
        self.keys(slot).any(|key| match self.cache.state_of(key) {
            // An unflushed block may be lost at the origin, together with this write, by a power cut.
            Some(SlotState::Dirty) => true,
            Some(SlotState::Unflushed) => !mutant!(UnflushedPassedBy),
            Some(SlotState::Clean) => partial.contains(&key.block()),
            Some(SlotState::Dead) | None => false,
        })
    }

    /// Shortens the part to the blocks at its start with the same route, and returns this route.
    fn choose_for_overdrawn(&mut self, slot: RequestSlot) -> Route {
        let keys: Vec<BlockKey> = self.keys(slot).collect();
        let stays = self.is_not_clean(keys[0]);
        let volume = self.requests.get(slot).volume;
        let mode = self.volumes.get(volume).settings.mode;
        let length = keys.iter().take_while(|key| self.is_not_clean(**key) == stays).count();
        if let Some(next) = keys.get(length) {
            let extent = &mut self.requests.get_mut(slot).writing().extent;
            extent.length = next.block().byte_offset() - extent.start;
        }
        match mode {
            Mode::WriteBack if stays => Route::Log,
            _ if stays || !is_aligned(self.part(slot)) => Route::LogThrough,
            Mode::WriteThrough | Mode::WriteBack | Mode::WriteAround | Mode::Bypass => Route::Around,
        }
    }

    fn hurry_flush(&mut self, slot: RequestSlot) {
        let volume = self.requests.get(slot).volume;
        let blocks = *self.cache.volume(volume);
        if blocks.unflushed > 0 && blocks.unflushed * UNFLUSHED_PART >= blocks.not_clean() {
            self.volumes.get_mut(volume).flush.want();
        }
    }
}

fn is_aligned(extent: ByteExtent) -> bool {
    const _: () = assert!(BLOCK_SIZE.is_multiple_of(SECTOR_SIZE));
    extent.start.is_multiple_of(SECTOR_SIZE) && extent.end().is_multiple_of(SECTOR_SIZE)
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::num::NonZeroU64;

    use super::*;
    use crate::scene::Scene;

    #[test]
    fn each_mode_has_its_way() {
        let ways = [
            (Mode::WriteThrough, ["cache log 4096", "origin write 8192+4096"].as_slice()),
            (Mode::WriteBack, &["cache log 4096"]),
            (Mode::WriteAround, &["origin write 8192+4096"]),
            (Mode::Bypass, &["origin write 8192+4096"]),
        ];
        for (mode, way) in ways {
            let (result, seen) = Scene::new(mode).write(8192, 4096);
            assert_eq!((result, seen.iter().map(String::as_str).collect::<Vec<_>>()), (Ok(()), way.to_vec()));
        }
    }

    #[test]
    fn without_a_write_budget_only_needed_blocks_are_logged() {
        for (mode, cached) in [(Mode::WriteThrough, false), (Mode::WriteBack, true)] {
            let mut scene = Scene::new(mode);
            scene.engine.set_write_budget(scene.now, NonZeroU64::new(1));
            scene.write(8192, 4096).0.unwrap();
            assert_eq!(scene.is_cached(8192), cached, "{mode:?}");
            scene.engine.set_write_budget(scene.now, None);
            scene.write(65_536, 4096).0.unwrap();
            assert!(scene.is_cached(65_536), "{mode:?}");
        }
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.write(8192, 4096).0.unwrap();
        scene.flush().0.unwrap();
        scene.engine.set_write_budget(scene.now, NonZeroU64::new(1));
        scene.write(8192, 4096).0.unwrap();
        assert!(!scene.is_cached(8192), "an older copy does not stay");
        let refused = |scene: &Scene| scene.engine.status().counters.refused_blocks;
        let before = refused(&scene);
        scene.write(16_384 + 100, 100).0.unwrap();
        assert!(scene.is_cached(16_384), "the log alone takes parts of sectors");
        assert_eq!(refused(&scene), before, "what comes in was not refused");
    }

    #[test]
    fn write_around_logs_a_block_that_the_origin_lacks() {
        let mut scene = Scene::new(Mode::WriteAround);
        scene.write(8192, 4096).0.unwrap();
        scene.read(8192, 4096).0.unwrap();
        let (result, seen) = scene.write(8192, 4096);
        assert_eq!((result, &seen[0][..]), (Ok(()), "cache log 12288, durable"), "{seen:?}");
        scene.flush().0.unwrap();
        let around = ["cache log 0", "cache flush", "origin write 8192+4096"];
        assert_eq!(scene.write(8192, 4096).1, around, "it is clean now, and dropped first");
        assert!(!scene.is_cached(8192));
    }
}
