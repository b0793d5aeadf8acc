//! While main is frozen, segments are examined in the order of age: blocks without hits make space for blocks that miss
//! often.

use alloc::vec::Vec;

use crate::config::RESERVED_SEGMENTS;
use crate::path::reclaim::reserved_blocks::ReservedBlocks;
use crate::path::reclaim::victim::{Used, can_be_emptied, count_used};
use crate::policy::turn::is_worth_emptying;
use crate::queue::Queue;
use crate::state::State;
use crate::units::{Location, SegmentIndex};

impl State {
    /// Whether the next segment is due for a check while main is frozen.
    pub(crate) fn is_look_due(&self) -> bool {
        self.retention.hold.wants_look(sealed_count(self))
    }
}

fn sealed_count(state: &State) -> u64 {
    Queue::ALL.into_iter().map(|queue| u64::from(state.cache.segments().sealed_count(queue))).sum()
}

/// Checks the next segment if it is due: returns it if it is worth emptying and may be, else halves its hits.
pub(super) fn look(state: &mut State) -> Option<SegmentIndex> {
    let count = sealed_count(state);
    if !state.retention.hold.wants_look(count) {
        return None;
    }
    state.retention.hold.on_look(count);
    let segments = state.cache.segments();
    let probation = segments.live_blocks(Queue::Probation);
    let queue = state.retention.choose_queue(probation, segments.sealed_count(Queue::Main));
    let oldest = segments.oldest_first(queue).next()?;
    let Used { live, hot } = count_used(state, oldest);
    let blocks = state.cache.geometry().batch_blocks();
    let is_cold = is_worth_emptying((live - hot).into(), blocks.into());
    let is_worth_it = is_cold || state.retention.is_mostly_dead(live, blocks);
    if is_worth_it && may_be_emptied(state, oldest) {
        return Some(oldest);
    }
    halve(state, oldest);
    None
}

fn may_be_emptied(state: &State, segment: SegmentIndex) -> bool {
    let blocks = state.cache.geometry().batch_blocks();
    let is_wanted = state.retention.hold.wants_room(blocks.into());
    let has_room = state.segments_coming() > RESERVED_SEGMENTS && state.device.journal.has_room();
    is_wanted
        && has_room
        && can_be_emptied(state, segment)
        && ReservedBlocks::of_all(state).leaves_enough(state, segment)
}

/// The segment becomes main's newest, each block with half of its hits.
pub(super) fn halve(state: &mut State, segment: SegmentIndex) {
    let live: Vec<Location> = state.cache.live_in(segment).collect();
    for location in live {
        let hits = state.cache.slots().hits(location);
        state.cache.set_hits(location, hits / 2);
    }
    state.cache.move_to(segment, Queue::Main);
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use crate::config::{Admission, Mode};
    use crate::request::Operation;
    use crate::scene::Scene;
    use crate::units::VolumeId;

    const VOLUME: VolumeId = VolumeId::new(0);

    fn narrow() -> (Scene, u64) {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.engine.state.volumes.get_mut(VOLUME).window.set_max(4096);
        let capacity = scene.engine.state.retention.capacity();
        (scene, capacity)
    }

    fn read(scene: &mut Scene, length: u64, passes: u64) -> u64 {
        let is_hit = |number: u64| {
            let (result, lines) = scene.read((number % length) << 17, 4096);
            result.unwrap();
            !lines.iter().any(|line| line.starts_with("origin"))
        };
        (0..length * passes).map(is_hit).filter(|is_hit| *is_hit).count() as u64
    }

    #[test]
    fn unused_blocks_make_room_for_frequent_misses() {
        let (mut scene, capacity) = narrow();
        read(&mut scene, 2 * capacity, 6);
        let is_held = |scene: &Scene| scene.engine.state.retention.hold.is_on();
        assert!(is_held(&scene));
        let promoted = |scene: &Scene| scene.engine.state.volumes.get(VOLUME).counters.promoted_blocks;
        let before = promoted(&scene);
        let hits = read(&mut scene, 2 * capacity, 3);
        assert!(hits > 3 * capacity * 17 / 20, "{hits} of {capacity} three times");
        assert_eq!(promoted(&scene), before, "and no block was written");
        let hits: Vec<u64> = (0..24).map(|_| read(&mut scene, capacity * 5 / 4, 1)).collect();
        assert!(is_held(&scene) && promoted(&scene) > before, "{hits:?}");
        assert!(hits[0] < capacity * 15 / 20 && hits[23] > capacity * 16 / 20, "{hits:?} of {capacity}");
    }

    #[test]
    fn free_room_is_filled_while_main_is_frozen() {
        let (mut scene, capacity) = narrow();
        read(&mut scene, 2 * capacity, 6);
        scene.ask(Operation::Discard, 0, capacity << 18).0.unwrap();
        assert!(scene.engine.cached_blocks(VOLUME) < capacity / 4);
        read(&mut scene, 2 * capacity, 6);
        assert!(scene.engine.state.retention.hold.is_on());
        let hits = read(&mut scene, 2 * capacity, 1);
        assert!(hits > capacity * 8 / 10, "{hits} of {capacity} after a discard");
    }

    #[test]
    fn a_cache_empty_at_the_freeze_is_filled() {
        let (mut scene, capacity) = narrow();
        scene.settings(VOLUME).admission = Admission::SecondTouch;
        read(&mut scene, 2 * capacity, 2);
        assert!(scene.engine.cached_blocks(VOLUME) < capacity / 10);
        read(&mut scene, 2 * capacity, 10);
        assert!(scene.engine.state.retention.hold.is_on());
        let hits = read(&mut scene, 2 * capacity, 1);
        assert!(hits > capacity * 8 / 10, "{hits} of {capacity}");
    }
}
