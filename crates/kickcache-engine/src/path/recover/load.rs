//! What recovery finds, taken into the index: segments with their blocks, and then the records.

use alloc::vec::Vec;

use crate::cache::segments::SegmentState;
use crate::cache::slots::SlotState;
use crate::config::VOLUME_COUNT_MAX;
use crate::format::journal::{Fact, Record, SegmentImage, SegmentKind};
use crate::format::summary::{Summary, SummaryEntry};
use crate::state::State;
use crate::units::{BlockKey, Location, SegmentIndex, Sequence};

/// Keys that are looked up side by side.
pub(crate) const WARM_COUNT: usize = 16;

/// Takes a segment's blocks into the index, where they are younger than what stands there.
pub(crate) fn load_segment(state: &mut State, summary: &Summary) {
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
    let recovery = state.recovering();
    recovery.newest = recovery.newest.max(newest);
    recovery.sealed.push((newest, segment));
}

/// Whether a volume may have such a block: bytes of a stranger could name any.
pub(crate) fn is_possible(state: &State, key: BlockKey) -> bool {
    let served = state.volumes.find(key.volume());
    usize::from(key.volume().get()) < VOLUME_COUNT_MAX
        && served.is_none_or(|volume| key.block().byte_offset() < volume.size)
}

pub(crate) fn load_block(
    state: &mut State,
    location: Location,
    offset: u32,
    entry: &SummaryEntry,
    segment: SegmentIndex,
) {
    let older = state.cache.find(entry.key);
    let recovery = state.recovering();
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

pub(crate) fn apply_record(state: &mut State, sequences: &[Sequence], record: &Record) {
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

pub(crate) fn apply_image(state: &mut State, segment: SegmentIndex, image: Option<&SegmentImage>) {
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
