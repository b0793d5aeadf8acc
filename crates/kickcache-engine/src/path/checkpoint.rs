//! A checkpoint lists the live blocks of each segment; it is written chunk by chunk into the journal while requests
//! continue.
//!
//! A chunk is written only when all changes that precede it are durable: a block that the chunk calls dead is then
//! superseded or dropped durably. If a batch fails, the chunks that are not yet written are made again.

use alloc::vec;
use alloc::vec::Vec;

use crate::cache::segments::{Segment, SegmentState};
use crate::device::{Device, DeviceError, DeviceOperation};
use crate::format::journal::{Chunk, SegmentImage, SegmentKind, chunk_count, segments_per_chunk};
use crate::inflight::jobs::{Checkpoint, Position};
use crate::inflight::purpose::Purpose;
use crate::order::{DurableWaiter, FlushCount, Need};
use crate::request::Durability;
use crate::state::State;
use crate::task::Task;
use crate::units::SegmentIndex;

/// Chunks per group at most.
const GROUP_MAX: u32 = 32;

/// Begins a checkpoint if one is due and possible.
pub(crate) fn begin(state: &mut State) {
    if state.device.checkpoint.is_some()
        || state.device.is_out_of_service()
        || !(state.device.journal.wants_checkpoint() || state.device.has_untold_clean)
    {
        return;
    }
    start(state, Position::Between);
}

/// Begins the checkpoint of an engine that writes no more batches, if one is possible.
pub(crate) fn begin_last(state: &mut State) {
    if state.device.checkpoint.is_none() && !state.device.is_out_of_service() {
        start(state, Position::Last);
    }
}

fn start(state: &mut State, position: Position) {
    state.device.checkpoint = Some(Checkpoint {
        position,
        geometry: *state.cache.geometry(),
        start: state.device.order.newest(),
        ring: state.device.journal.next(),
        next: 0,
        snapped: Vec::new(),
        writes_in_flight: 0,
        landed: 0,
        landed_at: FlushCount::default(),
        finishing: false,
        is_outdated: false,
        tells_clean: core::mem::take(&mut state.device.has_untold_clean),
    });
    snap(state);
}

/// Takes the next group of chunks.
fn snap(state: &mut State) {
    let Some(checkpoint) = &state.device.checkpoint else { return };
    let geometry = checkpoint.geometry;
    let first = checkpoint.next;
    let count = chunk_count(&geometry);
    // At least two groups, if there are two chunks, so that a small device also writes its checkpoints in steps.
    let last = count.min(first + count.div_ceil(2).min(GROUP_MAX));
    let each = segments_per_chunk(&geometry);
    let position = checkpoint.position;
    let chunks: Vec<_> = (first..last)
        .map(|number| {
            let end = geometry.segment_count.min((number + 1) * each);
            let images = (number * each..end).map(|index| image(state, SegmentIndex::new(index), position));
            (number, images.collect())
        })
        .collect();
    if let Some(checkpoint) = &mut state.device.checkpoint {
        checkpoint.next = last;
        checkpoint.snapped = chunks;
        checkpoint.is_outdated = false;
    }
    if mutant!(CheckpointBeforeDurable) {
        state.agenda.push_back(Task::Durable(DurableWaiter::Checkpoint));
        return;
    }
    state.agenda.push_back(Task::Barrier(DurableWaiter::Checkpoint));
}

/// The image of a segment. Places that may still be written count as live. A block of a batch that was not submitted
/// may die before the batch is submitted: so `written` ends before such a batch.
fn image(state: &State, segment: SegmentIndex, position: Position) -> SegmentImage {
    let geometry = state.cache.geometry();
    let found: &Segment = state.cache.segments().get(segment);
    let bytes = geometry.blocks_per_segment().div_ceil(8) as usize;
    let (kind, known) = match found.state {
        SegmentState::Free => (SegmentKind::Free, geometry.batch_blocks()),
        SegmentState::Opening | SegmentState::Ready if position == Position::Last => {
            (SegmentKind::Free, geometry.batch_blocks())
        }
        SegmentState::Opening | SegmentState::Ready => (SegmentKind::InUse, 0),
        SegmentState::Open => (
            SegmentKind::InUse,
            state.device.log.position_of(segment).unwrap_or_else(|| geometry.batch_blocks()),
        ),
        SegmentState::Sealing | SegmentState::Sealed | SegmentState::Reclaiming => {
            (SegmentKind::InUse, geometry.batch_blocks())
        }
        SegmentState::Retired => (SegmentKind::Retired, geometry.batch_blocks()),
    };
    let (mut live, mut kept) = (vec![0u8; bytes], vec![0u8; bytes]);
    let set = |bits: &mut Vec<u8>, at: u32| bits[(at / 8) as usize] |= 1 << (at % 8);
    for at in known..geometry.batch_blocks() {
        set(&mut live, at);
        set(&mut kept, at);
    }
    let first = geometry.first_location(segment);
    for location in state.cache.live_in(segment) {
        let at = location.get() - first.get();
        set(&mut live, at);
        if state.cache.slots().state(location).is_not_clean() {
            set(&mut kept, at);
        }
    }
    let written = match kind {
        SegmentKind::Free => 0,
        SegmentKind::InUse | SegmentKind::Retired => {
            state.device.log.first_unwritten(segment).map_or(known, |first| first.min(known))
        }
    };
    SegmentImage { generation: found.generation, kind, queue: found.queue, written, live, kept }
}

/// The changes before the snapped chunks are durable, or the last chunks are.
pub(crate) fn on_durable(state: &mut State) {
    let Some(checkpoint) = &mut state.device.checkpoint else { return };
    if checkpoint.finishing {
        let Checkpoint { ring, landed, landed_at, .. } = *checkpoint;
        assert!(landed == chunk_count(&checkpoint.geometry), "J-1: the checkpoint is not whole");
        assert!(state.device.order.has_flushed_since(landed_at), "J-1: the checkpoint is not durable");
        state.device.checkpoint = None;
        state.device.journal.forget_before(ring);
        state.device.counters.checkpoints += 1;
        state.wake_stalled();
        state.agenda.extend([Task::Reclaim, Task::Checkpoint]);
        state.end_drains_when_durable();
        return;
    }
    if checkpoint.is_outdated {
        checkpoint.next = checkpoint.snapped.first().map_or(checkpoint.next, |(number, _)| *number);
        snap(state);
        return;
    }
    let start = checkpoint.start;
    let count = chunk_count(&checkpoint.geometry);
    let (begun, snapped) = (Some(checkpoint.ring), core::mem::take(&mut checkpoint.snapped));
    let durable = state.device.durable();
    for (number, segments) in snapped {
        let chunk = Chunk { start, number, count, begun, segments };
        let write = state.device.journal.take_chunk(chunk, durable);
        state.device.order.begin_journal_block(write.number);
        let operation = DeviceOperation::WriteMetadata {
            device: Device::Cache,
            offset: write.offset,
            bytes: write.bytes.into_boxed_slice(),
            pieces: Vec::new(),
            durability: Durability::Volatile,
        };
        if let Some(checkpoint) = &mut state.device.checkpoint {
            checkpoint.writes_in_flight += 1;
        }
        state.submit(Purpose::Checkpoint { block: write.number }, operation);
    }
}

pub(crate) fn on_not_durable(state: &mut State) {
    state.device.give_up_checkpoint();
}

pub(crate) fn on_written(state: &mut State, block: u64, result: Result<(), DeviceError>) {
    state.device.order.end_journal_block(block, result);
    state.device.order.land_unnumbered();
    if result.is_err() && !mutant!(FailedChunkIgnored) {
        state.device.counters.errors += 1;
        state.take_out_of_service();
    }
    if state.device.is_out_of_service() {
        // Out of service, no later flush can complete the checkpoint.
        state.device.checkpoint = None;
        return;
    }
    let Some(checkpoint) = &mut state.device.checkpoint else { return };
    let count = chunk_count(&checkpoint.geometry);
    checkpoint.writes_in_flight -= 1;
    checkpoint.landed += u32::from(result.is_ok());
    checkpoint.landed_at = state.device.order.flush_count();
    if checkpoint.writes_in_flight > 0 {
        return;
    }
    if checkpoint.next < count && !mutant!(CheckpointEndsEarly) {
        snap(state);
        return;
    }
    checkpoint.finishing = true;
    if mutant!(CheckpointNotFlushed) {
        return on_durable(state);
    }
    state.device.order.wait(Need::NextFlush, DurableWaiter::Checkpoint);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;
    use crate::scene::Scene;

    #[test]
    fn slots_that_may_be_written_count_as_live() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(8192, 4096).0.unwrap();
        let (state, location) = (&scene.engine.state, scene.location(8192));
        let segment = state.cache.segment_of(location);
        let at = location.get() - state.cache.geometry().first_location(segment).get();
        let open = image(state, segment, Position::Between);
        assert_eq!([0, at, at + 1].map(|at| open.is_live(at)), [false, true, true], "a header is no block");
        assert!(open.is_kept(at), "the origin lacks it");
        let mut all = state.cache.segments().iter();
        let (ready, _) = all.find(|(_, segment)| segment.state == SegmentState::Ready).unwrap();
        let [between, last] =
            [Position::Between, Position::Last].map(|position| image(state, ready, position));
        assert_eq!((between.kind, between.is_live(0)), (SegmentKind::InUse, true));
        assert_eq!((last.kind, last.is_live(0)), (SegmentKind::Free, false));
    }

    #[test]
    fn written_slots_end_before_a_changeable_batch() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(8192, 4096).0.unwrap();
        let (landed, image_of) = (scene.location(8192), |scene: &Scene, location| {
            image(&scene.engine.state, scene.engine.state.cache.segment_of(location), Position::Between)
        });
        let image = image_of(&scene, landed);
        assert_eq!(
            (image.written, image.find_lost(|place| place == 1)),
            (2, None),
            "a header, and the block"
        );
        assert_eq!(image.find_lost(|_| false), Some(1));
        scene.hold("cache log");
        for start in [16384, 24576] {
            scene.begin(crate::request::Operation::Write(Durability::Volatile), start, 4096);
        }
        let gathers = scene.location(24576);
        let state = &scene.engine.state;
        let place =
            gathers.get() - state.cache.geometry().first_location(state.cache.segment_of(gathers)).get();
        let image = image_of(&scene, gathers);
        assert!(image.is_live(place), "it has its place");
        assert_eq!(
            image.written,
            place - 1,
            "the record before is in flight, and this record may be void when that one is written"
        );
        scene.end_held();
        assert_eq!(image_of(&scene, gathers).written, place + 1);
    }

    #[test]
    fn a_stop_ends_with_a_checkpoint_and_its_flush() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(8192, 4096).0.unwrap();
        let seen = scene.stop();
        assert_eq!(scene.engine.status().counters.checkpoints, 1);
        let chunks = usize::try_from(chunk_count(scene.engine.state.cache.geometry())).unwrap();
        let end = &seen[seen.len() - chunks - 1..];
        assert!(
            end[..chunks].iter().all(|line| line == "cache log 0") && end[chunks] == "cache flush",
            "{seen:?}"
        );
    }

    #[test]
    fn a_chunk_that_cannot_be_written_makes_no_checkpoint() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.fail("cache log", DeviceError::Io);
        scene.stop();
        assert_eq!(scene.engine.status().counters.checkpoints, 0);
        assert!(scene.engine.is_out_of_service());
    }

    #[test]
    fn a_failed_batch_makes_a_checkpoint_take_its_chunks_again() {
        let mut scene = Scene::new(Mode::WriteBack);
        let state = &mut scene.engine.state;
        start(state, Position::Between);
        let written = |state: &State| state.device.checkpoint.as_ref().map(|found| found.writes_in_flight);
        state.device.note_failed_batch();
        on_durable(state);
        assert_eq!(written(state), Some(0), "the chunks are new");
        on_durable(state);
        assert_eq!(written(state), Some(1));
    }

    #[test]
    fn a_checkpoint_writes_two_chunks_in_order() {
        use crate::blank_device;
        use crate::config::EngineSettings;
        use crate::device::Completion;
        use crate::engine::Engine;
        use crate::format::superblock::Superblock;
        use crate::time::Instant;

        let superblock = Superblock::new([1; 16], 31 << 20).unwrap();
        assert_eq!(chunk_count(&superblock.geometry), 2);
        let mut engine = Engine::open(Instant::ZERO, &superblock, EngineSettings::default(), &[]).unwrap();
        let run = |engine: &mut Engine| {
            while let Some(submission) = engine.poll_submission() {
                let data = blank_device::data_of(&submission.operation).unwrap();
                engine.handle_completion(Instant::ZERO, Completion { id: submission.id, result: Ok(data) });
            }
        };
        run(&mut engine);
        let state = &mut engine.state;
        start(state, Position::Between);
        let next = |state: &State| state.device.checkpoint.as_ref().map(|checkpoint| checkpoint.next);
        assert_eq!(next(state), Some(1));
        engine.run_agenda();
        run(&mut engine);
        assert_eq!((next(&engine.state), engine.status().counters.checkpoints), (None, 1));
    }
}
