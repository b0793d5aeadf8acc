//! Completions at the log: batches, journal blocks, summaries and flushes.

use alloc::vec::Vec;

use crate::append::{Claim, NewBlock};
use crate::cache::segments::SegmentState;
use crate::cache::slots::SlotState;
use crate::device::{Device, DeviceError, DeviceOperation};
use crate::format::summary::Summary;
use crate::ids::{BatchSlot, RequestSlot};
use crate::inflight::purpose::Purpose;
use crate::inflight::requests::Stage;
use crate::log::{Batch, Entry};
use crate::request::Durability;
use crate::state::State;
use crate::task::Task;
use crate::units::{BlockKey, Location, PageIndex, SegmentIndex, Sequence};

pub(crate) fn on_batch(state: &mut State, slot: BatchSlot, result: Result<(), DeviceError>) {
    let batch = match result {
        Ok(()) => state.device.log.land(slot),
        Err(_) => state.device.log.fail(slot),
    };
    let sequence = batch.sequence.expect("a written batch has a sequence number");
    match result {
        Ok(()) => state.device.order.land(sequence),
        Err(_) => state.device.order.fail_batch(sequence),
    }
    let passed_on = if result.is_err() { on_failed(state, &batch) } else { Vec::new() };
    state.release_older(&batch);
    for page in batch.entries.iter().filter_map(|entry| entry.page) {
        if !passed_on.contains(&page) {
            state.pool.release(page);
        }
    }
    batch.waiters.iter().for_each(|waiter| state.end_pending(*waiter));
    state.agenda.extend(batch.reads);
    state.wake_stalled();
    finish_segments(state);
}

/// Appends the current blocks of a failed batch again elsewhere, or loses them. Returns the pages that other batches
/// have taken over.
fn on_failed(state: &mut State, batch: &Batch) -> Vec<PageIndex> {
    state.device.note_failed_batch();
    // Members of the cut may be lost, or are written again elsewhere.
    state.abandon_cut();
    if state.device.fails_too_often() {
        state.take_out_of_service();
    }
    let first = state.cache.geometry().first_location(batch.segment).plus(batch.start + 1);
    let mut passed_on = Vec::new();
    let mut heirs = Heirs::default();
    for (location, entry) in (0..).map(|offset| first.plus(offset)).zip(&batch.entries) {
        let Some(key) = entry.key.filter(|key| state.cache.is_current(*key, location)) else {
            let heir =
                if mutant!(PassedOnForgotten) { None } else { state.pass_on_older(location, entry.older) };
            // The superseding copy, if there is one, has landed already, but without a proof that it would survive a
            // power cut.
            heirs.is_lost |= !mutant!(LostDurableIgnored)
                && heir.is_none()
                && entry.page.is_none()
                && batch.durability == Durability::Durable;
            heirs.batches.extend(heir);
            continue;
        };
        if append_again(state, batch, entry, location) {
            passed_on.extend(entry.page);
        } else {
            lose(state, key, entry);
            heirs.is_lost |= entry.page.is_none();
        }
    }
    heirs.batches.dedup();
    if !mutant!(LostBatchNotAwaited) {
        batch.waiters.iter().for_each(|waiter| wait_again(state, *waiter, batch, &heirs));
    }
    passed_on
}

/// The successors of the blocks of a batch that did not land.
#[derive(Debug, Default)]
struct Heirs {
    /// The batches with copies that supersede some of the blocks.
    batches: Vec<BatchSlot>,
    /// The data of some blocks is not in the log, or not proved durable.
    is_lost: bool,
}

/// A write waits for the blocks that were appended again, and for the copies that superseded its blocks.
fn wait_again(state: &mut State, waiter: RequestSlot, batch: &Batch, heirs: &Heirs) {
    let mut must_start_again = heirs.is_lost;
    for heir in &heirs.batches {
        must_start_again |= !state.device.log.wait_for(*heir, waiter, batch.durability);
        state.requests.add_pending(waiter);
    }
    let count = state.device.log.attach(waiter);
    (0..count).for_each(|_| state.requests.add_pending(waiter));
    if let (true, Stage::Write(writing)) = (must_start_again, &mut state.requests.get_mut(waiter).stage) {
        writing.note_part();
    }
}

/// The entry of a block in this state for another batch: the block may have become clean since its batch was submitted.
fn renewed(entry: &Entry, block: SlotState) -> Entry {
    Entry { dirty: entry.dirty && block.is_not_clean(), ..*entry }
}

fn append_again(state: &mut State, batch: &Batch, entry: &Entry, location: Location) -> bool {
    let Some(key) = entry.key.filter(|_| !state.device.is_out_of_service()) else { return false };
    let slots = state.cache.slots();
    let (hits, slot_state) = (slots.hits(location), slots.state(location));
    let entry = renewed(entry, slot_state);
    let block = NewBlock {
        claim: Claim::Any,
        queue: batch.queue,
        entry,
        state: slot_state,
        waiter: None,
        durability: batch.durability,
    };
    let Some(place) = state.append(key, block) else { return false };
    state.cache.set_hits(place, hits);
    if slot_state == SlotState::Unflushed && state.volumes.find(key.volume()).is_some() {
        state.await_flush(key, place);
    }
    true
}

/// A copy has no place in the log any more: the older copy in the log becomes current again, or the data of the origin.
fn lose(state: &mut State, key: BlockKey, entry: &Entry) {
    match entry.older {
        Some(older) if !mutant!(OlderCopyForgotten) => state.revive(key, older),
        Some(_) | None => state.forget(key),
    }
}

/// Takes the full and written segments from the log. Segments with a failed batch are retired.
fn finish_segments(state: &mut State) {
    while let Some(finished) = state.device.log.take_finished() {
        match finished {
            Ok(summary) => {
                state.cache.set_segment_state(summary.segment, SegmentState::Sealing);
                state.device.add_summary(summary);
            }
            Err(segment) => state.cache.set_segment_state(segment, SegmentState::Retired),
        }
    }
}

/// Ends the open segments, because no more batches will be written.
pub(crate) fn end_segments(state: &mut State) {
    state.device.log.close_segments();
    finish_segments(state);
    write_summaries(state);
}

/// Writes the summaries of segments with durable batches.
fn write_summaries(state: &mut State) {
    let ripe = state.device.take_durable_summaries(state.cache.segments());
    ripe.into_iter().for_each(|summary| write_summary(state, summary));
}

fn write_summary(state: &mut State, mut summary: Summary) {
    let segment = summary.segment;
    summary.durable = state.device.durable();
    let geometry = *state.cache.geometry();
    let at = geometry.first_location(segment).plus(geometry.batch_blocks());
    let operation = DeviceOperation::WriteMetadata {
        device: Device::Cache,
        offset: geometry.byte_offset(at),
        bytes: summary.encode(&geometry).into_boxed_slice(),
        pieces: Vec::new(),
        durability: Durability::Volatile,
    };
    state.submit(Purpose::Summary { segment }, operation);
}

/// Without the summary, recovery reads the whole segment, so that an error only costs time.
pub(crate) fn on_summary(state: &mut State, segment: SegmentIndex, result: Result<(), DeviceError>) {
    state.device.counters.errors += u64::from(result.is_err());
    state.device.order.land_unnumbered();
    state.cache.seal(segment);
    state.agenda.push_back(Task::Reclaim);
}

pub(crate) fn on_journal(
    state: &mut State,
    block: u64,
    sequences: &[Sequence],
    result: Result<(), DeviceError>,
) {
    state.device.end_records(block, sequences, result);
    if result.is_err() {
        state.take_out_of_service();
    }
}

/// After an error the writes that it covered cannot be trusted, and the extent of the loss is unknown: the cache
/// accepts no new data.
pub(crate) fn on_cache_flush(state: &mut State, result: Result<(), DeviceError>) {
    if result.is_ok() {
        let served = state.device.order.end_flush();
        state.agenda.extend(served.into_iter().map(Task::Durable));
        write_summaries(state);
        return;
    }
    state.device.counters.errors += 1;
    let failed = state.device.order.fail_flush();
    state.agenda.extend(failed.into_iter().map(Task::NotDurable));
    state.take_out_of_service();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;
    use crate::request::Operation;
    use crate::scene::Scene;
    use crate::stats::CacheHealth;

    /// Otherwise a restart would write the block over newer data of the origin.
    #[test]
    fn a_clean_block_of_a_failed_batch_stays_clean() {
        let entry = Entry {
            key: None,
            memory: crate::pool::page_memory(PageIndex::new(1)),
            checksum: crate::units::Checksum::new(0),
            dirty: true,
            page: Some(PageIndex::new(1)),
            older: None,
        };
        assert!(!renewed(&entry, SlotState::Clean).dirty);
        assert!(renewed(&entry, SlotState::Unflushed).dirty && renewed(&entry, SlotState::Dirty).dirty);
        assert!(!renewed(&Entry { dirty: false, ..entry }, SlotState::Dirty).dirty);
    }

    #[test]
    fn blocks_of_a_failed_batch_are_written_in_another_segment() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, 4096).0.unwrap();
        let before = scene.engine.state.cache.segment_of(scene.location(0));
        scene.fail_times(1, "cache log", DeviceError::Io);
        let (result, seen) = scene.write(8192, 4096);
        assert_eq!(
            (result, &seen[..2]),
            (Ok(()), ["cache log 4096".into(), "cache log 4096".into()].as_slice())
        );
        assert_ne!(scene.engine.state.cache.segment_of(scene.location(8192)), before);
        let status = scene.engine.status();
        assert_eq!((status.health, status.retired_segments), (CacheHealth::Good, 1));
        assert_eq!(scene.read(8192, 4096).1, ["cache read 4096"]);
    }

    #[test]
    fn a_cache_device_with_repeated_batch_failures_gets_no_writes() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.fail_times(7, "cache log 4096", DeviceError::Io);
        assert_eq!(scene.write(8192, 4096).0, Ok(()));
        assert_eq!(scene.engine.health(), CacheHealth::Good, "one error less than it takes");
        scene.fail_times(1, "cache log 4096", DeviceError::Io);
        assert_eq!(scene.write(8192, 4096).0, Ok(()), "the origin takes it");
        assert_eq!(scene.engine.health(), CacheHealth::OutOfService);
    }

    #[test]
    fn a_failed_flush_is_reported_and_makes_no_write_durable() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(8192, 4096).0.unwrap();
        scene.fail("cache flush", DeviceError::Io);
        assert_eq!(scene.flush().0, Err(crate::request::Errno::Io));
        assert!(!scene.engine.state.is_durable(scene.location(8192)));
    }

    #[test]
    fn a_write_waits_until_its_lost_batch_is_written_again() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.hold("cache log 4096");
        scene.begin(Operation::Write(Durability::Volatile), 8192, 4096);
        scene.fail_held(DeviceError::Io);
        assert_eq!(scene.take_reply(), None, "the second batch is in flight");
        scene.end_held();
        assert_eq!(scene.take_reply(), Some(Ok(())));
    }

    #[test]
    fn a_lost_durable_batch_is_durable_the_second_time() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.fail_times(1, "cache log 4096", DeviceError::Io);
        let (result, seen) = scene.ask(Operation::Write(Durability::Durable), 8192, 4096);
        assert_eq!(
            (result, &seen[..2]),
            (Ok(()), ["cache log 4096, durable".into(), "cache log 4096, durable".into()].as_slice())
        );
    }

    #[test]
    fn blocks_lost_by_a_failing_log_are_on_the_origin() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.fail_times(8, "cache log 4096", DeviceError::Io);
        let (result, seen) = scene.write(8192, 4096);
        assert_eq!((result, scene.engine.health()), (Ok(()), CacheHealth::OutOfService));
        assert!(seen.contains(&"origin write 8192+4096".into()), "{seen:?}");
    }
}
