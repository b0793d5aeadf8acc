//! Recovery: the books are rebuilt from the journal and the segments.
//!
//! First a flush: what a dead process left in volatile memory of the machine becomes durable before anything builds on
//! it. Then the journal whole, then one summary a segment (or the segment itself where there is none), then the
//! records. The last word about a block, by sequence number, wins.

use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec::Vec;
use alloc::{format, vec};

use crate::cache::segments::SegmentState;
use crate::cache::slots::SlotState;
use crate::config::{RottedLog, Service, VOLUME_COUNT_MAX};
use crate::device::{Data, Device, DeviceError, DeviceOperation};
use crate::error::Error;
use crate::format::batch::find_batches;
use crate::format::journal::{
    Chunk, Fact, JournalBlock, JournalBody, Record, SegmentImage, SegmentKind, chunk_count,
};
use crate::format::summary::{Summary, SummaryEntry};
use crate::inflight::purpose::{Purpose, RecoveryRead};
use crate::inflight::recovery::{Damage, DamagedEntry, JournalSpan, Recovery, Scan};
use crate::inflight::reread::{LoneBlock, Part};
use crate::journal::Journal;
use crate::order::Order;
use crate::request::Durability;
use crate::state::State;
use crate::task::Task;
use crate::units::{BLOCK_BYTES, BLOCK_SIZE, BlockKey, ByteExtent, Location, SegmentIndex, Sequence};

/// Reads in flight.
const DEPTH: u32 = 32;
const JOURNAL_READ_BYTES: u64 = 256 << 10;
/// Keys that are looked up side by side.
const WARM_COUNT: usize = 16;

/// Begins recovery.
pub(crate) fn begin(state: &mut State) {
    let recovery = Recovery { reads_in_flight: 1, ..Recovery::default() };
    state.recovery = Some(recovery.into());
    if mutant!(RecoveryWithoutFlush) {
        self::recovery(state).reads_in_flight = 0;
        return go_on(state);
    }
    submit(state, RecoveryRead::Flush, DeviceOperation::Flush { device: Device::Cache });
}

fn submit(state: &mut State, read: RecoveryRead, operation: DeviceOperation) {
    state.submit(Purpose::Recovery(read), operation);
}

fn recovery(state: &mut State) -> &mut Recovery {
    state.recovery.as_deref_mut().expect("recovery is under way")
}

/// A step came back.
pub(crate) fn on_step(state: &mut State, read: RecoveryRead, result: Result<Data<'_>, DeviceError>) {
    if let RecoveryRead::Seal(segment) = read {
        let first = state.cache.geometry().first_location(segment);
        state.leave_segment(first);
        // Without the summary the next recovery reads the whole segment, so that an error only costs time.
        state.counters.errors += u64::from(result.is_err());
        state.order.land_unnumbered();
        return;
    }
    recovery(state).reads_in_flight -= 1;
    if recovery(state).failed.is_some() {
        return;
    }
    match (read, result) {
        (RecoveryRead::Flush | RecoveryRead::Seal(_), Ok(_)) => {}
        (RecoveryRead::Journal(extent), Ok(data)) => on_journal(state, extent, data.bytes, &BTreeSet::new()),
        (RecoveryRead::Summary(segment), Ok(data)) => on_summary(state, segment, data.bytes),
        (RecoveryRead::Scan(segment), Ok(data)) => on_scan(state, segment, data.bytes, &BTreeSet::new()),
        (RecoveryRead::Block(number), Ok(data)) => on_block(state, number, Some(data.bytes)),
        (step, Err(error)) => on_failed(state, step, error),
    }
    go_on(state);
}

/// A read failed. What could not be read together is read block by block; of a device that fails too often, or is gone,
/// nothing more is.
fn on_failed(state: &mut State, step: RecoveryRead, error: DeviceError) {
    let may_go_on = error == DeviceError::Io && recovery(state).rereads.count_failed();
    match step {
        RecoveryRead::Journal(extent) if may_go_on => recovery(state).rereads.add(Part::Journal, extent),
        RecoveryRead::Summary(segment) if may_go_on => scan(state, segment),
        RecoveryRead::Scan(segment) if may_go_on => {
            let extent = batches_of(state, segment);
            recovery(state).rereads.add(Part::Segment(segment), extent);
        }
        RecoveryRead::Block(number) if may_go_on => on_block(state, number, None),
        RecoveryRead::Flush
        | RecoveryRead::Journal(_)
        | RecoveryRead::Summary(_)
        | RecoveryRead::Scan(_)
        | RecoveryRead::Block(_)
        | RecoveryRead::Seal(_) => {
            let what = match (step, recovery(state).rereads.part()) {
                (RecoveryRead::Block(_), Some(part)) => part.to_string(),
                (step, _) => step.to_string(),
            };
            recovery(state).failed = Some(Error::Recovery { what });
        }
    }
}

/// A block of what could not be read together came back, or cannot be read alone either.
fn on_block(state: &mut State, number: u32, bytes: Option<&[u8]>) {
    let Some(stretch) = recovery(state).rereads.end_block(number, bytes) else { return };
    match stretch.part {
        Part::Journal => on_journal(state, stretch.extent, &stretch.bytes, &stretch.unreadable),
        Part::Segment(segment) => on_scan(state, segment, &stretch.bytes, &stretch.unreadable),
    }
}

fn go_on(state: &mut State) {
    let journal_size = state.cache.geometry().journal_size;
    let recovery = recovery(state);
    if recovery.failed.is_some() {
        return;
    }
    read_blocks(state);
    let recovery = self::recovery(state);
    if recovery.journal_at < journal_size {
        read_journal(state);
    } else if recovery.reads_in_flight == 0 && recovery.images.is_empty() {
        digest_journal(state);
        if self::recovery(state).failed.is_none() {
            read_segments(state);
        }
    } else if !recovery.images.is_empty() {
        read_segments(state);
    }
}

/// Reads what could not be read together.
fn read_blocks(state: &mut State) {
    while recovery(state).reads_in_flight < DEPTH {
        let Some(LoneBlock { number, extent }) = recovery(state).rereads.next_block() else { return };
        recovery(state).reads_in_flight += 1;
        submit(state, RecoveryRead::Block(number), DeviceOperation::ReadMetadata { extent });
    }
}

fn read_journal(state: &mut State) {
    let journal = state.cache.geometry().journal();
    while recovery(state).reads_in_flight < DEPTH && recovery(state).journal_at < journal.length {
        let recovery = recovery(state);
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
    let uuid = state.uuid;
    let first = (extent.start - geometry.journal().start) / BLOCK_SIZE;
    let unreadable = unreadable.iter().map(|number| first + u64::from(*number));
    recovery(state).unreadable_journal.extend(unreadable);
    let blocks = bytes.chunks_exact(BLOCK_BYTES).filter_map(|block| JournalBlock::decode(block, &geometry));
    let recovery = recovery(state);
    for JournalBlock { uuid: _, ring, durable, body } in blocks.filter(|block| block.uuid == uuid) {
        recovery.note_durable(durable);
        match body {
            JournalBody::Records(records) => {
                recovery.records.extend(records.into_iter().map(|record| (ring, record)));
            }
            JournalBody::Chunk(Chunk { start, number, segments, .. }) => {
                recovery.newest = recovery.newest.max(start);
                recovery.chunks.insert((start, number), (ring, segments));
            }
        }
    }
}

/// The segments as the journal tells them, and where it goes on.
fn digest_journal(state: &mut State) {
    let geometry = *state.cache.geometry();
    let is_refused = state.settings.rotted_log == RottedLog::Refused;
    let recovery = recovery(state);
    let JournalSpan { tail, next, hidden } = recovery.digest_journal(&geometry);
    if recovery.unreadable_journal.len() as u64 == geometry.journal_blocks() {
        // It is not a spot that is bad.
        recovery.failed = Some(Error::Recovery { what: Part::Journal.to_string() });
        return;
    }
    if let Some(place) = hidden.filter(|_| is_refused) {
        let what = format!("block {place} of its journal");
        recovery.failed = Some(Error::Unreadable { what });
        return;
    }
    if next - tail + u64::from(chunk_count(&geometry)) > geometry.journal_blocks() {
        let what = "the newest whole checkpoint is older than the journal reaches back, so that the journal is damaged";
        recovery.failed = Some(Error::Recovery { what: what.into() });
        return;
    }
    state.journal = Journal::new(state.uuid, geometry, next, tail);
}

/// Reads what the segments in use hold; at the end, the records have their say.
fn read_segments(state: &mut State) {
    let geometry = *state.cache.geometry();
    while recovery(state).reads_in_flight < DEPTH && recovery(state).next_segment < geometry.segment_count {
        let recovery = recovery(state);
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
    let recovery = recovery(state);
    if recovery.reads_in_flight == 0 && recovery.next_segment == geometry.segment_count {
        refuse_rotted(state);
        if self::recovery(state).failed.is_none() {
            take_damaged(state);
            finish(state);
        }
    }
}

fn on_summary(state: &mut State, segment: SegmentIndex, bytes: &[u8]) {
    let geometry = *state.cache.geometry();
    let uuid = state.uuid;
    let recovery = recovery(state);
    let generation = recovery.images[segment.get() as usize].as_ref().map(|image| image.generation);
    let summary = Summary::decode(bytes, &geometry).filter(|summary| {
        let is_this_life = Some(summary.generation) == generation || mutant!(OldSummaryBelieved);
        summary.uuid == uuid && summary.segment == segment && is_this_life
    });
    match summary {
        Some(summary) => load(state, &summary),
        None => scan(state, segment),
    }
}

/// Reads a segment whose summary is of no use.
fn scan(state: &mut State, segment: SegmentIndex) {
    recovery(state).reads_in_flight += 1;
    let extent = batches_of(state, segment);
    submit(state, RecoveryRead::Scan(segment), DeviceOperation::ReadMetadata { extent });
}

/// The blocks of a segment in front of its summary.
fn batches_of(state: &State, segment: SegmentIndex) -> ByteExtent {
    let geometry = state.cache.geometry();
    let start = geometry.byte_offset(geometry.first_location(segment));
    ByteExtent { start, length: u64::from(geometry.batch_blocks()) * BLOCK_SIZE }
}

/// A segment without a summary: its batches speak for themselves, each block under its own checksum.
fn on_scan(state: &mut State, segment: SegmentIndex, bytes: &[u8], unreadable: &BTreeSet<u32>) {
    let geometry = *state.cache.geometry();
    let uuid = state.uuid;
    let recovery = recovery(state);
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
        entries: vec![None; geometry.batch_blocks() as usize],
    };
    recovery.take_batches(&geometry, &Scan { bytes, batches: &batches, unreadable }, &mut summary);
    if !batches.is_empty() {
        load(state, &summary);
        if recovery_kind(state, segment) != Some(SegmentKind::Retired) {
            self::recovery(state).unsealed.push(summary);
        }
    }
}

fn recovery_kind(state: &mut State, segment: SegmentIndex) -> Option<SegmentKind> {
    recovery(state).images[segment.get() as usize].as_ref().map(|image| image.kind)
}

/// Nobody knows which blocks a header named that has rotted or cannot be read.
fn refuse_rotted(state: &mut State) {
    let is_refused = state.settings.rotted_log == RottedLog::Refused;
    let recovery = recovery(state);
    if let Some(segment) = recovery.hidden.filter(|_| is_refused) {
        let what = format!("a block of segment {} that may be a batch header", segment.get());
        recovery.failed = Some(Error::Unreadable { what });
    } else if let Some(segment) = recovery.find_rotted_header().filter(|_| is_refused) {
        let what = format!("a batch header in segment {}", segment.get());
        recovery.failed = Some(Error::Rotted { what });
    }
}

/// What is not whole and was durable has rotted since: it stays the block, whose wrong checksum every read will find. An
/// older copy must not take its place. What cannot be read stays the block as well, durable or not, as the cache device
/// may do better later. All else was torn, and never was.
fn take_damaged(state: &mut State) {
    for DamagedEntry { segment, offset, entry, damage } in core::mem::take(&mut recovery(state).damaged) {
        let recovery = recovery(state);
        let is_lost = match damage {
            Damage::Checksum => !recovery.was_durable(entry.sequence) || mutant!(RotTakenForTorn),
            Damage::Unreadable => mutant!(UnreadableTakenForTorn),
        };
        if is_lost {
            continue;
        }
        if let Some(summary) = recovery.unsealed.iter_mut().find(|summary| summary.segment == segment) {
            summary.entries[offset as usize] = Some(entry);
        }
        if is_possible(state, entry.key) {
            let location = state.cache.geometry().first_location(segment).plus(offset);
            load_block(state, location, offset, &entry, segment);
        }
    }
}

/// Takes a segment's blocks into the books, where they are younger than what stands there.
fn load(state: &mut State, summary: &Summary) {
    let segment = summary.segment;
    let first = state.cache.geometry().first_location(segment);
    let found = state.cache.segment_mut(segment);
    found.queue = summary.queue;
    found.generation = summary.generation;
    found.state = SegmentState::Open;
    let mut newest = Sequence::new(0);
    let mut offsets = 0..;
    for entries in summary.entries.chunks(WARM_COUNT) {
        state.cache.warm(entries.iter().flatten().map(|entry| entry.key));
        for (entry, offset) in entries.iter().zip(&mut offsets) {
            let Some(entry) = entry else { continue };
            newest = newest.max(entry.sequence);
            if is_possible(state, entry.key) {
                load_block(state, first.plus(offset), offset, entry, segment);
            }
        }
    }
    state.cache.segment_mut(segment).last_sequence = newest;
    let empty = summary.entries.iter().filter(|entry| entry.is_none()).count();
    state.cache.set_headers(segment, u32::try_from(empty).expect("at most 1024 blocks"));
    let recovery = recovery(state);
    recovery.newest = recovery.newest.max(newest);
    recovery.sealed.push((newest, segment));
}

/// Whether a volume may have such a block: bytes of a stranger could name any.
fn is_possible(state: &State, key: BlockKey) -> bool {
    let served = state.find_volume(key.volume());
    usize::from(key.volume().get()) < VOLUME_COUNT_MAX
        && served.is_none_or(|volume| key.block().byte_offset() < volume.size)
}

fn load_block(
    state: &mut State,
    location: Location,
    offset: u32,
    entry: &SummaryEntry,
    segment: SegmentIndex,
) {
    let older = state.cache.find(entry.key);
    let recovery = recovery(state);
    let Some(image) = &recovery.images[segment.get() as usize] else { return };
    if !image.is_live(offset) {
        return;
    }
    let is_younger = |older: Location| recovery.sequences[older.get() as usize] > entry.sequence;
    if older.is_some_and(is_younger) && !mutant!(LastReadCopyWins) {
        return;
    }
    let is_dirty = entry.dirty && image.is_kept(offset) && !mutant!(RecoveredAsClean);
    let slot_state = if is_dirty { SlotState::Dirty } else { SlotState::Clean };
    recovery.sequences[location.get() as usize] = entry.sequence;
    match older {
        Some(_) => {
            state.cache.insert(entry.key, location, entry.checksum, slot_state);
        }
        None => state.cache.insert_new(entry.key, location, entry.checksum, slot_state),
    }
}

/// Everything is read: the records have their say, and the engine can run.
fn finish(state: &mut State) {
    let recovery = state.recovery.take().expect("recovery is under way");
    for records in recovery.records.chunks(WARM_COUNT) {
        state.cache.warm(records.iter().filter_map(|(_, record)| record.fact.key()));
        records.iter().for_each(|(_, record)| apply(state, &recovery.sequences, record));
    }
    // Whatever can be read has been: no number after the newest will ever be seen again but for what is written from now on.
    state.order = Order::new(Sequence::new(recovery.newest.get() + 1));
    let mut sealed = recovery.sealed;
    sealed.sort_unstable();
    for (_, segment) in sealed {
        state.cache.seal(segment);
    }
    for (segment, image) in (0..).map(SegmentIndex::new).zip(&recovery.images) {
        settle_segment(state, segment, image.as_ref());
    }
    for summary in recovery.unsealed {
        seal(state, &summary);
    }
    for volume in state.volume_ids() {
        // A dead process may have left acknowledged writes in the origin's volatile memory.
        let now = state.now;
        let flush = &mut state.volume_mut(volume).flush;
        flush.on_client_write(now);
        flush.want();
    }
    if state.settings.service == Service::Out {
        state.marking.is_known = true;
        state.take_out_of_service();
    }
    state.agenda.push_back(Task::Reclaim);
}

fn apply(state: &mut State, sequences: &[Sequence], record: &Record) {
    let is_older = |location: Location| {
        sequences[location.get() as usize] < record.sequence || mutant!(RecordsIgnoreOrder)
    };
    match record.fact {
        Fact::Gone(key) => {
            if state.cache.find(key).is_some_and(is_older) {
                state.cache.remove(key);
            }
        }
        Fact::Clean(key) => {
            if let Some(location) = state.cache.find(key).filter(|location| is_older(*location)) {
                state.cache.set_state(location, SlotState::Clean);
            }
        }
        Fact::Dropped(volume) => {
            let all = (0..state.cache.slots().count()).map(Location::new);
            let dropped: Vec<_> = all
                .filter(|location| {
                    state.cache.slots().state(*location) != SlotState::Dead && is_older(*location)
                })
                .map(|location| state.cache.slots().key(location))
                .filter(|key| key.volume() == volume)
                .collect();
            for key in dropped {
                state.cache.remove(key);
            }
        }
        Fact::Opened(..) => {}
    }
}

fn settle_segment(state: &mut State, segment: SegmentIndex, image: Option<&SegmentImage>) {
    let Some(image) = image else { return };
    let found = *state.cache.segments().get(segment);
    let is_loaded = found.state == SegmentState::Sealed;
    // No segment is opened so often: this number was made up, and would run over.
    let is_worn_out = image.generation.get() > u32::MAX / 2;
    if image.kind == SegmentKind::Retired || is_worn_out {
        if is_loaded {
            state.cache.unlink(segment, SegmentState::Retired);
        }
        state.cache.segment_mut(segment).state = SegmentState::Retired;
    }
    state.cache.segment_mut(segment).generation = image.generation;
}

/// Writes the summary that a dead process did not come to write.
fn seal(state: &mut State, summary: &Summary) {
    let geometry = *state.cache.geometry();
    let first = geometry.first_location(summary.segment);
    let at = first.plus(geometry.batch_blocks());
    // The segment must not begin its next life, with a summary of its own, while this one is on its way.
    state.enter_segment(first);
    let operation = DeviceOperation::WriteMetadata {
        offset: geometry.byte_offset(at),
        bytes: summary.encode(&geometry).into_boxed_slice(),
        pieces: Vec::new(),
        durability: Durability::Volatile,
    };
    submit(state, RecoveryRead::Seal(summary.segment), operation);
}
