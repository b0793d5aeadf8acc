//! Recovery: rebuilds the metadata from the journal and the segments.
//!
//! First a flush: data of a dead process in volatile memory of the machine becomes durable before any structure depends
//! on it. Then the whole journal is read, then one summary per segment in use (or the segment itself if there is none),
//! then the records apply. For each block the highest sequence number decides (I-7).

mod erase;
mod load;

use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec::Vec;
use alloc::{format, vec};

use crate::cache::segments::SegmentState;
use crate::config::{RottedLog, Service};
use crate::device::{Data, Device, DeviceError, DeviceOperation};
use crate::error::Error;
use crate::format::batch::{BatchHeader, find_batches};
use crate::format::durable::Durable;
use crate::format::durable_blocks::DurableBlocks;
use crate::format::journal::{JournalBlock, SegmentKind};
use crate::format::summary::Summary;
use crate::inflight::found_journal::note_opened;
use crate::inflight::purpose::{Purpose, RecoveryRead};
use crate::inflight::recovery::{Damage, DamagedEntry, Recovery, Scan};
use crate::inflight::reread::{LoneBlock, Part};
use crate::journal::Journal;
use crate::order::Order;
use crate::request::Durability;
use crate::state::State;
use crate::task::Task;
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, ByteExtent, SegmentIndex, Sequence};

/// The most reads of recovery in flight.
const DEPTH: u32 = 32;
/// The most unused segments for the check of first blocks: the segments that are opened first. If a rotten log is
/// accepted, all segments are checked.
const FIRST_BLOCKS_MAX: usize = 64;
const JOURNAL_READ_BYTES: u64 = 256 << 10;

/// Begins recovery. According to the superblock, these blocks of the journal were durable.
pub(crate) fn begin(state: &mut State, journal: DurableBlocks) {
    let mut recovery = Recovery { reads_in_flight: 1, ..Recovery::default() };
    if !mutant!(LostJournalIgnored) {
        recovery.journal.note_durable(journal);
    }
    state.recovery = Some(recovery.into());
    if mutant!(RecoveryWithoutFlush) {
        state.recovering().reads_in_flight = 0;
        return go_on(state);
    }
    submit(state, RecoveryRead::Flush, DeviceOperation::Flush { device: Device::Cache });
}

fn submit(state: &mut State, read: RecoveryRead, operation: DeviceOperation) {
    state.submit(Purpose::Recovery(read), operation);
}

/// A step has ended.
pub(crate) fn on_step(state: &mut State, read: RecoveryRead, result: Result<Data<'_>, DeviceError>) {
    if let RecoveryRead::Seal(segment) = read {
        let first = state.cache.geometry().first_location(segment);
        if !mutant!(SealUnpinned) {
            state.unpin(first);
        }
        // Without the summary the next recovery reads the whole segment, so that an error only costs time.
        state.device.counters.errors += u64::from(result.is_err());
        state.device.order.land_unnumbered();
        return;
    }
    if read == RecoveryRead::Erase {
        if erase::on_written(state, result.map(|_| ())) == 0 {
            finish(state);
        }
        return;
    }
    state.recovering().reads_in_flight -= 1;
    if state.recovering().failed.is_some() {
        return;
    }
    match (read, result) {
        (RecoveryRead::Flush | RecoveryRead::Seal(_) | RecoveryRead::Erase, Ok(_)) => {}
        (RecoveryRead::Journal(extent), Ok(data)) => on_journal(state, extent, data.bytes, &BTreeSet::new()),
        (RecoveryRead::Summary(segment), Ok(data)) => on_summary(state, segment, data.bytes),
        (RecoveryRead::Scan(segment), Ok(data)) => on_scan(state, segment, data.bytes, &BTreeSet::new()),
        (RecoveryRead::First(segment), Ok(data)) => on_first(state, segment, data.bytes),
        (RecoveryRead::Block(number), Ok(data)) => on_block(state, number, Some(data.bytes)),
        (step, Err(error)) => on_failed(state, step, error),
    }
    go_on(state);
}

/// A read failed. An extent that could not be read at once is read block by block; from a device that fails too often,
/// or is missing, no more is read.
fn on_failed(state: &mut State, step: RecoveryRead, error: DeviceError) {
    let may_go_on = error == DeviceError::Io && state.recovering().rereads.count_failed();
    match step {
        RecoveryRead::Journal(extent) if may_go_on => state.recovering().rereads.add(Part::Journal, extent),
        RecoveryRead::Summary(segment) if may_go_on => scan(state, segment),
        RecoveryRead::Scan(segment) if may_go_on => {
            let extent = batches_of(state, segment);
            state.recovering().rereads.add(Part::Segment(segment), extent);
        }
        RecoveryRead::Block(number) if may_go_on => on_block(state, number, None),
        RecoveryRead::First(_) if mutant!(UnreadableFirstIgnored) => {}
        // If the journal is complete, blocks that were never written may be unreadable.
        RecoveryRead::First(segment) if may_go_on => state.recovering().note_unreadable_first(segment),
        RecoveryRead::Flush
        | RecoveryRead::Journal(_)
        | RecoveryRead::Summary(_)
        | RecoveryRead::Scan(_)
        | RecoveryRead::First(_)
        | RecoveryRead::Block(_)
        | RecoveryRead::Seal(_)
        | RecoveryRead::Erase => {
            let what = match (step, state.recovering().rereads.part()) {
                (RecoveryRead::Block(_), Some(part)) => part.to_string(),
                (step, _) => step.to_string(),
            };
            state.recovering().failed = Some(Error::Recovery { what });
        }
    }
}

/// A single block of an extent that could not be read at once was read, or is unreadable.
fn on_block(state: &mut State, number: u32, bytes: Option<&[u8]>) {
    let Some(stretch) = state.recovering().rereads.end_block(number, bytes) else { return };
    match stretch.part {
        Part::Journal => on_journal(state, stretch.extent, &stretch.bytes, &stretch.unreadable),
        Part::Segment(segment) => on_scan(state, segment, &stretch.bytes, &stretch.unreadable),
    }
}

fn go_on(state: &mut State) {
    let journal_size = state.cache.geometry().journal_size;
    let recovery = state.recovering();
    if recovery.failed.is_some() {
        return;
    }
    read_blocks(state);
    let recovery = state.recovering();
    if recovery.journal_at < journal_size {
        read_journal(state);
    } else if recovery.reads_in_flight == 0 && recovery.images.is_empty() {
        digest_journal(state);
        if state.recovering().failed.is_none() {
            read_on(state);
        }
    } else if !recovery.images.is_empty() {
        read_on(state);
    }
}

/// Reads the segments; if a log with a rotten part is accepted, reads the first blocks of the segments before.
fn read_on(state: &mut State) {
    let is_accepted = state.settings.rotted_log == RottedLog::Accepted;
    let is_first = state.recovering().next_segment == 0;
    if is_accepted && is_first && read_first_blocks(state) {
        return;
    }
    read_segments(state);
}

/// Reads the blocks of extents that could not be read at once.
fn read_blocks(state: &mut State) {
    while state.recovering().reads_in_flight < DEPTH {
        let Some(LoneBlock { number, extent }) = state.recovering().rereads.next_block() else { return };
        state.recovering().reads_in_flight += 1;
        submit(state, RecoveryRead::Block(number), DeviceOperation::ReadMetadata { extent });
    }
}

fn read_journal(state: &mut State) {
    let journal = state.cache.geometry().journal();
    while state.recovering().reads_in_flight < DEPTH && state.recovering().journal_at < journal.length {
        let recovery = state.recovering();
        let at = recovery.journal_at;
        let length = JOURNAL_READ_BYTES.min(journal.length - at);
        recovery.journal_at += length;
        recovery.reads_in_flight += 1;
        let extent = ByteExtent { start: journal.start + at, length };
        submit(state, RecoveryRead::Journal(extent), DeviceOperation::ReadMetadata { extent });
    }
}

fn on_journal(state: &mut State, extent: ByteExtent, bytes: &[u8], unreadable: &BTreeSet<u32>) {
    let geometry = *state.cache.geometry();
    let uuid = state.device.uuid;
    let first = (extent.start - geometry.journal().start) / BLOCK_SIZE;
    let unreadable = unreadable.iter().map(|number| first + u64::from(*number));
    state.recovering().journal.unreadable.extend(unreadable);
    let recovery = state.recovering();
    let offsets = (extent.start..).step_by(BLOCK_BYTES);
    for (offset, bytes) in offsets.zip(bytes.chunks_exact(BLOCK_BYTES)) {
        let Some(block) = JournalBlock::decode(bytes, &geometry) else {
            recovery.torn.extend(JournalBlock::has_head(bytes, uuid).then_some(offset));
            continue;
        };
        if block.uuid == uuid {
            recovery.note_durable(block.durable);
            let newest = recovery.journal.take(block.ring, block.body);
            recovery.newest = recovery.newest.max(newest);
        }
    }
}

/// Determines the segments according to the journal, and the needed part of the journal.
fn digest_journal(state: &mut State) {
    let geometry = *state.cache.geometry();
    let is_refused = state.settings.rotted_log == RottedLog::Refused;
    let recovery = state.recovering();
    recovery.digest_journal(&geometry);
    if recovery.journal.unreadable.len() as u64 == geometry.journal_blocks() {
        // All blocks of the journal are unreadable: the device has failed, not a single block.
        recovery.failed = Some(Error::Recovery { what: Part::Journal.to_string() });
        return;
    }
    if let Some(segment) = recovery.journal.find_foreign(&geometry).filter(|_| is_refused) {
        let (segment, count) = (segment.get(), geometry.segment_count);
        let what = format!("it has {count} segments, and its journal says that segment {segment} was opened");
        recovery.failed = Some(Error::Superblock { what });
        return;
    }
    if let Some(place) = recovery.span.hidden.filter(|_| is_refused) {
        let what = format!("block {place} of its journal");
        recovery.failed = Some(Error::Unreadable { what });
    }
}

/// Reads the segments in use; at the end, the records apply.
fn read_segments(state: &mut State) {
    let geometry = *state.cache.geometry();
    while state.recovering().reads_in_flight < DEPTH
        && state.recovering().next_segment < geometry.segment_count
    {
        let recovery = state.recovering();
        let segment = SegmentIndex::new(recovery.next_segment);
        recovery.next_segment += 1;
        let image = &recovery.images[segment.get() as usize];
        let is_in_use = image.as_ref().is_some_and(|image| image.kind != SegmentKind::Free);
        if is_in_use {
            recovery.reads_in_flight += 1;
            let at = geometry.first_location(segment).plus(geometry.batch_blocks());
            let length = u64::from(geometry.summary_blocks()) * BLOCK_SIZE;
            let extent = ByteExtent { start: geometry.byte_offset(at), length };
            submit(state, RecoveryRead::Summary(segment), DeviceOperation::ReadMetadata { extent });
        }
    }
    let recovery = state.recovering();
    if recovery.reads_in_flight == 0 && recovery.next_segment == geometry.segment_count {
        if read_first_blocks(state) {
            return;
        }
        refuse_rotted(state);
        if state.recovering().failed.is_none() {
            take_damaged(state);
            if erase::begin(state) == 0 {
                finish(state);
            }
        }
    }
}

fn on_summary(state: &mut State, segment: SegmentIndex, bytes: &[u8]) {
    let geometry = *state.cache.geometry();
    let uuid = state.device.uuid;
    let recovery = state.recovering();
    let generation = recovery.images[segment.get() as usize].as_ref().map(|image| image.generation);
    let summary = Summary::decode(bytes, &geometry).filter(|summary| {
        let is_this_life = Some(summary.generation) == generation || mutant!(OldSummaryBelieved);
        summary.uuid == uuid && summary.segment == segment && is_this_life
    });
    match summary {
        Some(summary) => {
            recovery.note_durable(summary.durable);
            recovery.note_found(segment, |place| summary.has_entry(place));
            load::load_segment(state, &summary);
        }
        None => scan(state, segment),
    }
}

/// Reads a segment with an unusable summary.
fn scan(state: &mut State, segment: SegmentIndex) {
    state.recovering().reads_in_flight += 1;
    let extent = batches_of(state, segment);
    submit(state, RecoveryRead::Scan(segment), DeviceOperation::ReadMetadata { extent });
}

/// The blocks of a segment before its summary.
fn batches_of(state: &State, segment: SegmentIndex) -> ByteExtent {
    let geometry = state.cache.geometry();
    let start = geometry.byte_offset(geometry.first_location(segment));
    ByteExtent { start, length: u64::from(geometry.batch_blocks()) * BLOCK_SIZE }
}

/// A segment without a usable summary: its batches list the blocks, each with its own checksum.
fn on_scan(state: &mut State, segment: SegmentIndex, bytes: &[u8], unreadable: &BTreeSet<u32>) {
    let geometry = *state.cache.geometry();
    let uuid = state.device.uuid;
    let recovery = state.recovering();
    let Some(image) = &recovery.images[segment.get() as usize] else { return };
    let generation = image.generation;
    let batches = find_batches(bytes, |header| {
        header.uuid == uuid && header.segment == segment && header.generation == generation
    });
    let mut summary = Summary {
        uuid,
        segment,
        generation,
        queue: batches.last().map_or(image.queue, |header| header.queue),
        // The summary keeps the newest declaration of the headers, because with a summary the headers are not read any
        // more.
        durable: batches.last().map_or(Durable::NOTHING, |header| header.durable),
        entries: vec![None; geometry.batch_blocks() as usize],
    };
    recovery.take_batches(&geometry, &Scan { bytes, batches: &batches, unreadable }, &mut summary);
    if batches.is_empty() {
        recovery.note_empty(segment);
    } else {
        let newest = |place: u32| batches.partition_point(|header| header.start < place).checked_sub(1);
        let is_named = |place: u32| newest(place).is_some_and(|number| batches[number].names(place));
        recovery.note_found(segment, is_named);
    }
    if !batches.is_empty() {
        load::load_segment(state, &summary);
        if recovery_kind(state, segment) != Some(SegmentKind::Retired) {
            state.recovering().unsealed.push(summary);
        }
    }
}

fn recovery_kind(state: &mut State, segment: SegmentIndex) -> Option<SegmentKind> {
    state.recovering().images[segment.get() as usize].as_ref().map(|image| image.kind)
}

/// Checks for opened segments without a record of their opening in the journal: such a record was lost. `false` if no
/// segment is left to check.
fn read_first_blocks(state: &mut State) -> bool {
    if state.recovering().first_blocks.is_none() {
        let segments = state.cache.segments();
        let all = (0..segments.count()).map(SegmentIndex::new);
        let free = |segment: &SegmentIndex| segments.get(*segment).state == SegmentState::Free;
        let wanted = match state.settings.rotted_log {
            RottedLog::Refused => all.filter(free).take(FIRST_BLOCKS_MAX).collect(),
            RottedLog::Accepted => all.collect(),
        };
        state.recovering().first_blocks = Some(wanted);
    }
    while state.recovering().reads_in_flight < DEPTH {
        let Some(segment) = state.recovering().first_blocks.as_mut().and_then(Vec::pop) else { break };
        state.recovering().reads_in_flight += 1;
        let geometry = state.cache.geometry();
        let start = geometry.byte_offset(geometry.first_location(segment));
        let extent = ByteExtent { start, length: BLOCK_SIZE };
        submit(state, RecoveryRead::First(segment), DeviceOperation::ReadMetadata { extent });
    }
    state.recovering().reads_in_flight > 0
}

/// The first block of a segment. An opening is recorded before the first batch is written. If the record is lost and a
/// log with a rotten part is accepted, all blocks of the segment count.
fn on_first(state: &mut State, segment: SegmentIndex, bytes: &[u8]) {
    let (uuid, geometry) = (state.device.uuid, *state.cache.geometry());
    let is_accepted = state.settings.rotted_log == RottedLog::Accepted;
    let unopened = state.cache.segments().get(segment).generation;
    let recovery = state.recovering();
    let Some(header) = BatchHeader::decode(bytes) else { return };
    let known = recovery.generation(segment).unwrap_or(unopened);
    let is_ours = header.uuid == uuid && header.segment == segment && header.start == 0;
    if is_ours && header.generation > known && !mutant!(LostOpeningsIgnored) {
        recovery.unknown = Some(recovery.unknown.map_or(segment, |unknown| unknown.min(segment)));
        if is_accepted {
            note_opened(&mut recovery.images, segment, header.generation, &geometry);
        }
    }
}

/// Fails recovery if a part of the log that listed blocks is lost, or may be, unless a log with a rotten part is
/// accepted.
fn refuse_rotted(state: &mut State) {
    let geometry = *state.cache.geometry();
    let is_refused = state.settings.rotted_log == RottedLog::Refused;
    let recovery = state.recovering();
    if let Some(segment) = recovery.hidden.filter(|_| is_refused) {
        let what = format!("a block of segment {} that may be a batch header", segment.get());
        recovery.failed = Some(Error::Unreadable { what });
    } else if let Some(segment) = recovery.find_rotted_header().filter(|_| is_refused) {
        let what = format!("a batch header in segment {}", segment.get());
        recovery.failed = Some(Error::Rotted { what });
    } else if let Some(segment) = recovery.overwritten.filter(|_| is_refused) {
        let what = format!("a part of segment {}", segment.get());
        recovery.failed = Some(Error::Rotted { what });
    } else if let Some(number) = recovery.journal.find_lost(&recovery.span).filter(|_| is_refused) {
        let what = match recovery.journal.is_empty() {
            true => "its journal, of which nothing is left,".to_string(),
            false => format!("block {} of its journal", number % geometry.journal_blocks()),
        };
        recovery.failed = Some(Error::Rotted { what });
    } else if let Some(segment) = recovery.unknown.filter(|_| is_refused) {
        let what = format!("its journal, which does not say that segment {} was opened,", segment.get());
        recovery.failed = Some(Error::Rotted { what });
    } else if let Some(segment) =
        recovery.unreadable_first.filter(|_| recovery.journal.is_empty() && is_refused)
    {
        let what = format!("the first block of segment {}, beside an empty journal", segment.get());
        recovery.failed = Some(Error::Unreadable { what });
    } else if !recovery.fits_ring(&geometry) && is_refused {
        let what = "the newest checkpoint of its journal".to_string();
        recovery.failed = Some(Error::Rotted { what });
    }
}

/// A damaged entry that was durable has rotted since: it stays the current block, and every read will find its wrong
/// checksum. An older copy must not replace it. An unreadable block stays the current one as well, durable or not,
/// because the cache device may read it later. All other damaged entries were torn, and never took effect.
fn take_damaged(state: &mut State) {
    for DamagedEntry { segment, offset, entry, damage } in core::mem::take(&mut state.recovering().damaged) {
        let recovery = state.recovering();
        let is_lost = match damage {
            Damage::Checksum => {
                let was_durable =
                    recovery.was_durable(entry.sequence) || recovery.was_written(segment, offset);
                !was_durable || mutant!(RotTakenForTorn)
            }
            Damage::Unreadable => mutant!(UnreadableTakenForTorn),
        };
        if is_lost {
            continue;
        }
        if let Some(summary) = recovery.unsealed.iter_mut().find(|summary| summary.segment == segment) {
            summary.entries[offset as usize] = Some(entry);
        }
        if load::is_possible(state, entry.key) {
            let location = state.cache.geometry().first_location(segment).plus(offset);
            load::load_block(state, location, offset, &entry, segment);
        }
    }
}

/// All reads have ended: the records apply, and the engine can run.
fn finish(state: &mut State) {
    let recovery = state.recovery.take().expect("recovery is in progress");
    let has_failed_erasing = recovery.has_failed_erasing;
    for records in recovery.journal.records().chunks(load::WARM_COUNT) {
        state.cache.warm(records.iter().filter_map(|found| found.record.fact.key()));
        records.iter().for_each(|found| load::apply_record(state, &recovery.sequences, &found.record));
    }
    // All readable structures have been read: a number above the newest will occur only in later writes.
    let geometry = *state.cache.geometry();
    let next = recovery.next_block();
    let tail = if recovery.fits_ring(&geometry) { recovery.span.tail } else { next };
    state.device.journal = Journal::new(state.device.uuid, geometry, next, tail);
    state.device.order = Order::new(Sequence::new(recovery.newest.get() + 1), next);
    let mut sealed = recovery.sealed;
    sealed.sort_unstable();
    for (_, segment) in sealed {
        state.cache.seal(segment);
    }
    for (segment, image) in (0..).map(SegmentIndex::new).zip(&recovery.images) {
        load::apply_image(state, segment, image.as_ref());
    }
    for summary in recovery.unsealed {
        seal(state, &summary);
    }
    for volume in state.volumes.ids().filter(|_| !mutant!(OriginsTakenForFlushed)) {
        // A dead process, or another engine, may have left acknowledged writes in the origin's volatile memory.
        let now = state.now;
        let flush = &mut state.volumes.get_mut(volume).flush;
        flush.on_client_write(now, 0);
        flush.want();
    }
    if state.settings.service == Service::Out {
        state.marking.is_known = true;
        state.take_out_of_service();
    }
    if has_failed_erasing {
        state.take_out_of_service();
    }
    state.agenda.push_back(Task::Reclaim);
}

/// Writes the summary that a dead process did not write, or that is unusable.
fn seal(state: &mut State, summary: &Summary) {
    let geometry = *state.cache.geometry();
    let first = geometry.first_location(summary.segment);
    let at = first.plus(geometry.batch_blocks());
    // The segment must not begin its next generation, with a new summary, while this write is in flight.
    if !mutant!(SealUnpinned) {
        state.pin(first);
    }
    let operation = DeviceOperation::WriteMetadata {
        offset: geometry.byte_offset(at),
        bytes: summary.encode(&geometry).into_boxed_slice(),
        pieces: Vec::new(),
        durability: Durability::Volatile,
    };
    submit(state, RecoveryRead::Seal(summary.segment), operation);
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::config::EngineSettings;
    use crate::device::Completion;
    use crate::engine::{Engine, Phase};
    use crate::format::summary::SummaryEntry;
    use crate::format::superblock::Superblock;
    use crate::queue::Queue;
    use crate::time::Instant;
    use crate::units::{BlockIndex, BlockKey, Checksum, Generation, VolumeId};

    /// An engine after a recovery with failures of the operations that `fails` selects; returns its operations too.
    fn recover(fails: impl Fn(&DeviceOperation) -> Option<DeviceError>) -> (Engine, Vec<DeviceOperation>) {
        let superblock = Superblock::new([1; 16], 16 << 20).unwrap();
        let mut engine = Engine::open(Instant::ZERO, &superblock, EngineSettings::default(), &[]).unwrap();
        let mut seen = Vec::new();
        while let Some(submission) = engine.poll_submission() {
            let data = crate::blank_device::data_of(&submission.operation).unwrap();
            let result = fails(&submission.operation).map_or(Ok(data), Err);
            seen.push(submission.operation);
            engine.handle_completion(Instant::ZERO, Completion { id: submission.id, result });
        }
        (engine, seen)
    }

    #[test]
    fn no_data_is_read_before_a_successful_flush() {
        let (engine, seen) = recover(|_| None);
        assert_eq!(engine.phase(), Phase::Running);
        assert_eq!(seen[0], DeviceOperation::Flush { device: Device::Cache });
        assert!(matches!(seen[1], DeviceOperation::ReadMetadata { .. }));
        let is_flush = |operation: &DeviceOperation| matches!(operation, DeviceOperation::Flush { .. });
        let (engine, seen) = recover(|operation| is_flush(operation).then_some(DeviceError::Io));
        assert_eq!((seen.len(), engine.phase()), (1, failed("a flush")));
    }

    fn failed(what: &str) -> Phase {
        Phase::Failed(Error::Recovery { what: what.to_string() })
    }

    #[test]
    fn unreadable_stretches_are_read_by_block_on_a_live_device() {
        let is_long = |operation: &DeviceOperation| matches!(operation, DeviceOperation::ReadMetadata { extent } if extent.length > BLOCK_SIZE);
        let (engine, seen) = recover(|operation| is_long(operation).then_some(DeviceError::Io));
        assert_eq!(engine.phase(), Phase::Running);
        let single = seen.iter().filter(|operation| matches!(operation, DeviceOperation::ReadMetadata { extent } if extent.length == BLOCK_SIZE));
        assert!(single.count() as u64 >= engine.state.cache.geometry().journal_blocks());
        let (engine, _) = recover(|operation| is_long(operation).then_some(DeviceError::Gone));
        assert_eq!(engine.phase(), failed("a read of its journal"));
    }

    #[test]
    fn an_unreadable_block_stays_in_the_new_summary() {
        let superblock = Superblock::new([1; 16], 16 << 20).unwrap();
        let mut state = State::new(Instant::ZERO, &superblock, EngineSettings::default());
        let (geometry, segment) = (superblock.geometry, SegmentIndex::new(2));
        let key = BlockKey::new(VolumeId::new(0), BlockIndex::new(7));
        let (checksum, sequence) = (Checksum::new(0), Sequence::new(5));
        let entry = SummaryEntry { key, checksum, dirty: true, sequence };
        let summary = Summary {
            uuid: superblock.uuid,
            segment,
            generation: Generation::new(1),
            queue: Queue::Main,
            durable: Durable::NOTHING,
            entries: vec![None; geometry.batch_blocks() as usize],
        };
        let damage = Damage::Unreadable;
        let recovery = Recovery {
            images: vec![None; geometry.segment_count as usize],
            unsealed: vec![summary],
            damaged: vec![DamagedEntry { segment, offset: 3, entry, damage }],
            ..Recovery::default()
        };
        state.recovery = Some(recovery.into());
        take_damaged(&mut state);
        assert_eq!(state.recovering().unsealed[0].entries[3], Some(entry));
    }

    #[test]
    fn a_torn_block_that_cannot_be_erased_is_noted() {
        let superblock = Superblock::new([1; 16], 16 << 20).unwrap();
        let mut state = State::new(Instant::ZERO, &superblock, EngineSettings::default());
        state.recovery = Some(Recovery { erasing: 2, ..Recovery::default() }.into());
        assert_eq!(erase::on_written(&mut state, Err(DeviceError::Io)), 1);
        assert_eq!(erase::on_written(&mut state, Ok(())), 0);
        assert!(state.recovering().has_failed_erasing, "the device goes out of service");
    }
}
