//! A volume above its space limit gives back unused clean blocks.

use alloc::vec::Vec;

use crate::cache::segments::SegmentState;
use crate::cache::slots::SlotState;
use crate::path::reclaim::demote::demote;
use crate::policy::hand::{Hand, SegmentLife};
use crate::queue::Queue;
use crate::state::State;
use crate::time::{Duration, Instant};
use crate::units::{Location, SegmentIndex, VolumeId};

/// A round of checks can end after this many dropped blocks.
const BLOCKS_MAX: u64 = 512;
/// The most segments in one round of checks.
const SEGMENTS_MAX: usize = 16;
/// Pause after a round of checks.
const REST: Duration = Duration::from_millis(1);
/// Pause after a pass over all segments.
const REST_AFTER_ROUND: Duration = Duration::from_millis(100);

/// Makes volumes above their limits give back clean blocks.
pub(super) fn go_on(state: &mut State) {
    for volume in state.volumes.ids() {
        if is_due(state, volume) && state.now >= state.volumes.get(volume).hand.rest_until {
            let rest = look(state, volume);
            state.volumes.get_mut(volume).hand.rest_until = state.now.plus(rest);
        }
    }
}

/// When a volume gives back blocks next, without another event.
pub(super) fn poll_timeout(state: &State) -> Option<Instant> {
    let due = state.volumes.ids().filter(|volume| is_due(state, *volume));
    due.map(|volume| state.volumes.get(volume).hand.rest_until.max(state.now)).min()
}

fn is_due(state: &State, volume: VolumeId) -> bool {
    let has_more = state.room_excess(volume) > u64::from(state.cache.geometry().batch_blocks() / 4);
    has_more && !state.is_ending && state.device.journal.has_room()
}

fn look(state: &mut State, volume: VolumeId) -> Duration {
    let most = state.room_excess(volume).min(BLOCKS_MAX);
    let mut given = 0;
    for _ in 0..SEGMENTS_MAX {
        let Some(segment) = next_segment(state, volume) else { return REST_AFTER_ROUND };
        given += give_back(state, volume, segment);
        if given >= most {
            break;
        }
    }
    REST
}

/// Drops the volume's clean blocks without hits in a segment, and takes a hit from each of its other clean blocks;
/// returns the number of dropped blocks.
fn give_back(state: &mut State, volume: VolumeId, segment: SegmentIndex) -> u64 {
    let queue = state.cache.segments().get(segment).queue;
    let is_own = |location: &Location| is_own(state, volume, *location);
    let own: Vec<Location> = state.cache.live_in(segment).filter(is_own).collect();
    let mut given = 0;
    for location in own {
        match state.cache.slots().hits(location) {
            0 => {
                demote(state, queue, location);
                given += 1;
            }
            hits => state.cache.set_hits(location, hits - 1),
        }
    }
    given
}

fn is_own(state: &State, volume: VolumeId, location: Location) -> bool {
    let slots = state.cache.slots();
    let may_leave = slots.state(location) == SlotState::Clean || mutant!(DirtyGivenBack);
    slots.key(location).volume() == volume && may_leave
}

/// The segment after the hand, which advances; `None` at the end of a pass.
fn next_segment(state: &mut State, volume: VolumeId) -> Option<SegmentIndex> {
    let hand = state.volumes.get(volume).hand;
    let found = segment_after(state, hand);
    let next = match (found, hand.queue) {
        (Some(segment), queue) => {
            let generation = state.cache.segments().get(segment).generation;
            Hand { queue, last: Some(SegmentLife { segment, generation }), ..hand }
        }
        (None, Queue::Probation) => Hand { queue: Queue::Main, last: None, ..hand },
        (None, Queue::Main) => Hand::new(),
    };
    state.volumes.get_mut(volume).hand = next;
    match found {
        None if next.queue == Queue::Main => next_segment(state, volume),
        found => found,
    }
}

/// The next one in the hand's queue; the oldest if there is no last one, or if that left the queue meanwhile.
fn segment_after(state: &State, hand: Hand) -> Option<SegmentIndex> {
    let segments = state.cache.segments();
    let last = hand.last.filter(|last| {
        let found = segments.get(last.segment);
        (found.state, found.queue, found.generation) == (SegmentState::Sealed, hand.queue, last.generation)
    });
    match last {
        Some(last) => segments.newer(last.segment),
        None => segments.oldest_first(hand.queue).next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Mode, Room, VolumeSettings};
    use crate::scene::Scene;

    const VOLUME: VolumeId = VolumeId::new(0);
    const PIECE: u64 = 64 << 10;
    /// A quarter of the cache's capacity.
    const QUARTER: Room = Room::Share(256);

    fn read(mode: Mode, pieces: u64) -> Scene {
        let mut scene = Scene::new(mode);
        (0..pieces).for_each(|piece| scene.read(piece << 21, PIECE).0.unwrap());
        scene
    }

    fn cached(scene: &Scene) -> u64 {
        scene.engine.state.cache.volume(VOLUME).cached
    }

    fn capacity(scene: &Scene) -> u64 {
        scene.engine.state.cache.geometry().capacity_blocks()
    }

    #[test]
    fn a_volume_at_its_maximum_drops_its_oldest_unused_blocks() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.settings(VOLUME).room_max = Some(QUARTER);
        scene.engine.state.volumes.get_mut(VOLUME).window.set_max(PIECE);
        scene.read(0, PIECE).0.unwrap();
        scene.read(0, PIECE).0.unwrap();
        for piece in 1..150 {
            scene.read(piece << 21, PIECE).0.unwrap();
            scene.pass(REST);
            let most =
                capacity(&scene) / 4 + 5 * u64::from(scene.engine.state.cache.geometry().batch_blocks());
            assert!(cached(&scene) <= most, "piece {piece}: {}", cached(&scene));
        }
        let counts = scene.engine.status().counters;
        assert_eq!(counts.reclaimed_segments, 0, "there is room for more");
        let held = |scene: &Scene, piece: u64| scene.is_cached(piece << 21);
        let all: Vec<u64> = (0..150).filter(|piece| held(&scene, *piece)).collect();
        assert!(held(&scene, 149) && held(&scene, 140) && !held(&scene, 2) && !held(&scene, 20), "{all:?}");
        assert!(held(&scene, 0), "it was used");
    }

    #[test]
    fn a_lowered_maximum_is_met_without_requests() {
        let mut scene = read(Mode::WriteThrough, 150);
        assert!(cached(&scene) > capacity(&scene) / 2);
        let wanted = VolumeSettings { room_max: Some(QUARTER), ..*scene.settings(VOLUME) };
        scene.engine.change_settings(scene.now, &wanted);
        scene.pass(Duration::from_millis(1_000));
        let most = capacity(&scene) / 4 + u64::from(scene.engine.state.cache.geometry().batch_blocks());
        assert!(cached(&scene) <= most, "{} of {most}", cached(&scene));
        assert_eq!(scene.engine.state.reclaim.starved_since, None);
        assert_eq!(poll_timeout(&scene.engine.state), None, "it rests");
    }

    #[test]
    fn dirty_blocks_stay_beyond_the_maximum() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.settings(VOLUME).dirty_low = 716;
        scene.settings(VOLUME).dirty_high = 716;
        (0..100).for_each(|piece| scene.write(piece << 21, PIECE).0.unwrap());
        let wanted = VolumeSettings { room_max: Some(Room::Share(51)), ..*scene.settings(VOLUME) };
        scene.hold("origin write");
        scene.engine.change_settings(scene.now, &wanted);
        scene.pass(Duration::from_millis(1_000));
        assert_eq!((cached(&scene), scene.not_clean().0), (1_600, 1_600));
        scene.end_held();
        scene.drain();
        scene.pass(Duration::from_millis(1_000));
        assert!(cached(&scene) < capacity(&scene) / 10, "{}", cached(&scene));
    }

    #[test]
    fn dirty_blocks_fill_only_their_share_of_the_maximum() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.settings(VOLUME).room_max = Some(QUARTER);
        scene.settings(VOLUME).dirty_low = 1024;
        scene.settings(VOLUME).dirty_high = 1024;
        for piece in 0..150 {
            scene.write(piece << 21, PIECE).0.unwrap();
            assert!(scene.not_clean().0 <= capacity(&scene) / 4 * 716 / 1024 + 32, "{:?}", scene.not_clean());
        }
        assert!(scene.not_clean().0 > capacity(&scene) / 4 * 6 / 10, "{:?}", scene.not_clean());
    }
}
