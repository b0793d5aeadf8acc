//! Opens empty segments.

use alloc::vec::Vec;

use crate::cache::segments::SegmentState;
use crate::config::{FreedSegments, RESERVED_SEGMENTS};
use crate::device::{Device, DeviceError, DeviceOperation};
use crate::format::journal::Fact;
use crate::inflight::purpose::Purpose;
use crate::order::DurableWaiter;
use crate::state::State;
use crate::task::Task;
use crate::units::{ByteExtent, Generation, SegmentIndex};

/// Opens empty segments once the copies and records that replace their blocks are durable: otherwise a power cut could
/// keep the record of the opening and lose the copies. The openings wait for space in the journal.
pub(super) fn open_emptied(state: &mut State) {
    let has_more = state.device.log.ready_count() > RESERVED_SEGMENTS + 1;
    if state.reclaim.emptied.is_empty() || !state.reclaim.emptying.is_empty() && has_more {
        return;
    }
    if !state.device.journal.has_room() {
        state.agenda.push_back(Task::Checkpoint);
        return;
    }
    let segments = core::mem::take(&mut state.reclaim.emptied);
    state.reclaim.opening += segments.len();
    segments.iter().for_each(|segment| state.cache.check_empty(*segment));
    if mutant!(OpenedBeforeCopiesAreDurable) {
        return on_emptied(state, segments, state.device.failed_batches());
    }
    await_copies(state, segments);
}

fn await_copies(state: &mut State, segments: Vec<SegmentIndex>) {
    let failed_batches = state.device.failed_batches();
    state.agenda.push_back(Task::Barrier(DurableWaiter::Emptied { segments, failed_batches }));
}

/// Records the opening of empty segments. A batch that failed meanwhile may have contained a copy, which is being
/// written again.
pub(crate) fn on_emptied(state: &mut State, segments: Vec<SegmentIndex>, failed_batches: u32) {
    if state.device.failed_batches() != failed_batches && !mutant!(EmptiedDespiteFailure) {
        await_copies(state, segments);
        return;
    }
    assert!(state.device.failed_batches() == failed_batches, "I-4: a copy may be lost");
    for segment in &segments {
        state.cache.set_segment_state(*segment, SegmentState::Opening);
        let found = state.cache.segment_mut(*segment);
        found.generation = Generation::new(found.generation.get() + 1);
        let generation = found.generation;
        state.device.record(Fact::Opened(*segment, generation));
    }
    if mutant!(ReuseBeforeOpenedIsDurable) {
        state.agenda.push_back(Task::Durable(DurableWaiter::Opening(segments)));
        return;
    }
    state.agenda.push_back(Task::Barrier(DurableWaiter::Opening(segments)));
}

/// The openings are durable: heads may use the segments, after a discard if configured.
pub(crate) fn on_opened(state: &mut State, segments: &[SegmentIndex]) {
    let is_wanted = state.settings.freed_segments == FreedSegments::Discarded;
    if !is_wanted || state.reclaim.cannot_discard || state.device.is_out_of_service() {
        return make_ready(state, segments);
    }
    for segment in segments {
        let geometry = state.cache.geometry();
        let start = geometry.byte_offset(geometry.first_location(*segment));
        let extent = ByteExtent { start, length: geometry.segment_size };
        let operation = DeviceOperation::Discard { device: Device::Cache, extent };
        state.submit(Purpose::SegmentDiscard { segment: *segment }, operation);
    }
}

/// If the discard failed, the segment is used without it, and no more discards begin.
pub(crate) fn on_discarded(state: &mut State, segment: SegmentIndex, result: Result<(), DeviceError>) {
    match result {
        Ok(()) => state.device.counters.discarded_bytes += state.cache.geometry().segment_size,
        Err(_) => state.reclaim.cannot_discard = true,
    }
    make_ready(state, &[segment]);
}

fn make_ready(state: &mut State, segments: &[SegmentIndex]) {
    state.reclaim.opening -= segments.len();
    for segment in segments {
        state.cache.set_segment_state(*segment, SegmentState::Ready);
        let generation = state.cache.segments().get(*segment).generation;
        state.device.log.add_ready(*segment, generation);
    }
    if !mutant!(SpaceWaitersForgotten) {
        state.agenda.push_back(Task::Append);
    }
    state.agenda.push_back(Task::Reclaim);
}

/// The openings are given up; their records may still become durable.
pub(crate) fn on_not_opened(state: &mut State, segments: &[SegmentIndex]) {
    state.reclaim.opening -= segments.len();
    for segment in segments {
        state.cache.set_segment_state(*segment, SegmentState::Retired);
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;
    use crate::cache::segments::Segment;
    use crate::config::Mode;
    use crate::scene::Scene;

    fn written(scene: &mut Scene) -> Vec<String> {
        scene.engine.state.settings.freed_segments = FreedSegments::Discarded;
        (0..100).flat_map(|piece| scene.write(piece << 19, 1 << 18).1).collect()
    }

    #[test]
    fn segments_are_discarded_once_their_opening_is_durable() {
        let mut scene = Scene::new(Mode::WriteThrough);
        let seen = written(&mut scene);
        let is_discard = |line: &String| line.starts_with("cache discard");
        let segment = scene.engine.state.cache.geometry().segment_size;
        let discards = seen.iter().filter(|line| is_discard(line)).count() as u64;
        assert!(discards > 4, "{seen:?}");
        assert_eq!(scene.engine.status().counters.discarded_bytes, discards * segment);
        for (at, _) in seen.iter().enumerate().filter(|(_, line)| is_discard(line)) {
            let before = seen[..at].iter().rev().find(|line| !is_discard(line) && line.starts_with("cache"));
            assert_eq!(before.map(String::as_str), Some("cache flush"), "{at}: {seen:?}");
        }
    }

    #[test]
    fn a_device_without_discard_is_used_without_it() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.fail("cache discard", DeviceError::Unsupported);
        let seen = written(&mut scene);
        let discards = seen.iter().filter(|line| line.starts_with("cache discard")).count();
        assert!((1..=4 + 16).contains(&discards), "{discards}");
        assert_eq!(scene.engine.status().counters.discarded_bytes, 0);
        assert!(scene.is_cached(99 << 19));
    }

    #[test]
    fn segments_are_not_reused_after_a_failed_batch() {
        let mut scene = Scene::new(Mode::WriteBack);
        let state = &mut scene.engine.state;
        let is_free = |(_, segment): &(_, &Segment)| segment.state == SegmentState::Free;
        let (free, _) = state.cache.segments().iter().find(is_free).unwrap();
        let failed_batches = state.device.failed_batches();
        state.device.note_failed_batch();
        on_emptied(state, alloc::vec![free], failed_batches);
        assert_eq!(state.cache.segments().get(free).state, SegmentState::Free);
        on_emptied(state, alloc::vec![free], failed_batches + 1);
        assert_eq!(state.cache.segments().get(free).state, SegmentState::Opening);
    }
}
