//! Unused blocks that reclaim still moves: blocks of volumes that have at most their minimum of the cache.

use crate::policy::reserves::Reserves;
use crate::policy::retention::Reason;
use crate::state::State;
use crate::units::{Location, SegmentIndex, VolumeId};

/// A segment is worth emptying if minimums keep at most this share of it, in percent.
const KEPT_PERCENT_MAX: u32 = 75;

/// The blocks of a segment that stay for their volume's minimum.
#[derive(Clone, Copy)]
pub(super) struct ReservedBlocks {
    reserves: Option<Reserves>,
    /// A volume whose stale blocks its minimum does not keep.
    stale: Option<VolumeId>,
}

impl ReservedBlocks {
    /// With [`Reason::Room`] minimums do not count: the log may have no space for moved clean blocks.
    pub(super) fn choose(state: &State, reason: Reason) -> ReservedBlocks {
        let reserves = if reason == Reason::Room { None } else { state.reserves() };
        let stale = if reason == Reason::Stale { state.reclaim.shift.volume() } else { None };
        ReservedBlocks { reserves, stale }
    }

    pub(super) fn of_all(state: &State) -> ReservedBlocks {
        ReservedBlocks { reserves: state.reserves(), stale: None }
    }

    /// Whether a block of this volume stays.
    pub(super) fn has(&self, state: &State, volume: VolumeId) -> bool {
        let is_reserved = |reserves| state.is_reserved(reserves, volume) && self.stale != Some(volume);
        self.reserves.as_ref().is_some_and(is_reserved)
    }

    /// Whether minimums keep at most [`KEPT_PERCENT_MAX`] of a segment.
    pub(super) fn leaves_enough(&self, state: &State, segment: SegmentIndex) -> bool {
        let most = state.cache.geometry().batch_blocks() * KEPT_PERCENT_MAX / 100;
        self.reserves.is_none() || self.count(state, segment) <= most
    }

    fn count(&self, state: &State, segment: SegmentIndex) -> u32 {
        let stays = |location: Location| self.has(state, state.cache.slots().key(location).volume());
        state.cache.live_in(segment).map(|location| u32::from(stays(location))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Mode, Room};
    use crate::scene::Scene;

    const VOLUME: VolumeId = VolumeId::new(0);
    const PIECE: u64 = 64 << 10;

    fn left_beside_a_scan(min: Option<Room>) -> usize {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.settings(VOLUME).room_min = min;
        (0..64).for_each(|piece| scene.read(piece << 21, PIECE).0.unwrap());
        scene.add_volume(Mode::WriteThrough);
        scene.settings(scene.volume).room_min = None;
        (0..1_024).for_each(|piece| scene.read(piece << 19, PIECE).0.unwrap());
        scene.volume = VOLUME;
        (0..64).filter(|piece| scene.is_cached(piece << 21)).count()
    }

    #[test]
    fn a_scan_leaves_the_reservation_of_its_neighbour() {
        assert_eq!(left_beside_a_scan(None), 0);
        assert_eq!(left_beside_a_scan(Some(Room::Share(410))), 64);
        let of_a_fifth = left_beside_a_scan(Some(Room::Share(205)));
        assert!((40..=56).contains(&of_a_fifth), "3 of 4 MiB: {of_a_fifth}");
    }

    #[test]
    fn a_minimum_yields_to_writes_without_other_room() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.settings(VOLUME).room_min = Some(Room::Share(819));
        (0..256).for_each(|piece| scene.read(piece << 21, PIECE).0.unwrap());
        scene.add_volume(Mode::WriteBack);
        scene.settings(scene.volume).room_min = None;
        scene.settings(scene.volume).dirty_limit = 921;
        scene.settings(scene.volume).dirty_high = 921;
        scene.hold("origin write");
        for piece in 0..30 {
            scene.write(piece << 21, 56 << 10).0.unwrap();
        }
        assert_eq!(scene.engine.not_clean_blocks(scene.volume), 30 * 14);
        let own = scene.engine.state.cache.geometry().capacity_blocks() * 8 / 10;
        let left = scene.engine.cached_blocks(VOLUME);
        assert!((own / 2..own).contains(&left), "{left} of {own}");
    }
}
