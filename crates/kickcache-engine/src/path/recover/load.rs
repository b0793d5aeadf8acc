//! Adds the results of recovery to the index: segments with their blocks, and then the records.

use alloc::vec::Vec;

use crate::cache::segments::SegmentState;
use crate::cache::slots::SlotState;
use crate::config::VOLUME_COUNT_MAX;
use crate::format::journal::{Fact, Record, SegmentImage, SegmentKind};
use crate::format::summary::{Summary, SummaryEntry};
use crate::format::superblock::GENERATION_WORN_OUT;
use crate::state::State;
use crate::units::{BlockKey, Location, SegmentIndex, Sequence};

/// Keys that are looked up in parallel.
pub(crate) const WARM_COUNT: usize = 16;

/// Adds a segment's blocks to the index, if they are live according to the journal, and not older than its present
/// entries.
pub(crate) fn load_segment(state: &mut State, summary: &Summary) {
    let segment = summary.segment;
    let first = state.cache.geometry().first_location(segment);
    state.cache.set_segment_state(segment, SegmentState::Open);
    let found = state.cache.segment_mut(segment);
    found.queue = summary.queue;
    found.generation = summary.generation;
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

/// Whether the volume may have the block: untrusted bytes could name any block.
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
                if let Some(found) = state.volumes.find_mut(key.volume()) {
                    found.flush.witnesses.add_durable(key.block());
                }
            }
        }
        Fact::Dropped(volume) => {
            let all = (0..state.cache.slots().count()).map(Location::new);
            let dropped: Vec<_> = all
                .filter(|location| {
                    state.cache.slots().state(*location) != SlotState::Dead
                        && (is_older(*location) || mutant!(DroppedIgnoresOrder))
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
    // No segment is opened so often: such a number is the result of damaged or forged bytes.
    let is_worn_out = image.generation.get() > GENERATION_WORN_OUT;
    if image.kind == SegmentKind::Retired || is_worn_out {
        if is_loaded {
            state.cache.unlink(segment, SegmentState::Retired);
        }
        state.cache.set_segment_state(segment, SegmentState::Retired);
    }
    state.cache.segment_mut(segment).generation = image.generation;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::EngineSettings;
    use crate::format::durable::Durable;
    use crate::format::superblock::Superblock;
    use crate::inflight::recovery::Recovery;
    use crate::queue::Queue;
    use crate::time::Instant;
    use crate::units::{BlockIndex, Checksum, Generation, VolumeId};

    const KEY: BlockKey = BlockKey::new(VolumeId::new(0), BlockIndex::new(7));

    fn recovering(live: u8, kept: u8) -> State {
        let superblock = Superblock::new([1; 16], 16 << 20).unwrap();
        let mut state = State::new(Instant::ZERO, &superblock, EngineSettings::default());
        let geometry = superblock.geometry;
        let image = SegmentImage {
            generation: Generation::new(1),
            kind: SegmentKind::InUse,
            queue: Queue::Main,
            written: 0,
            live: alloc::vec![live; 128],
            kept: alloc::vec![kept; 128],
        };
        let recovery = Recovery {
            images: (0..geometry.segment_count).map(|_| Some(image.clone())).collect(),
            sequences: alloc::vec![Sequence::new(0); geometry.location_count() as usize],
            ..Recovery::default()
        };
        state.recovery = Some(recovery.into());
        state
    }

    fn load(state: &mut State, offset: u32, sequence: u64) -> Location {
        let entry = SummaryEntry {
            key: KEY,
            checksum: Checksum::new(0),
            dirty: true,
            sequence: Sequence::new(sequence),
        };
        let segment = SegmentIndex::new(2);
        let location = state.cache.geometry().first_location(segment).plus(offset);
        load_block(state, location, offset, &entry, segment);
        location
    }

    #[test]
    fn the_youngest_copy_wins_in_whatever_order_they_are_read() {
        for order in [[3, 5, 4], [5, 3, 4], [3, 4, 5]] {
            let mut state = recovering(0xff, 0xff);
            let places = [1, 2, 3].map(|offset| {
                let sequence = order[offset as usize - 1];
                (load(&mut state, offset, sequence), sequence)
            });
            let newest = places.iter().find(|(_, sequence)| *sequence == 5).unwrap().0;
            assert_eq!(state.cache.find(KEY), Some(newest), "{order:?}");
        }
    }

    #[test]
    fn recovery_skips_dead_blocks_and_keeps_clean_ones_clean() {
        let mut state = recovering(0, 0);
        load(&mut state, 1, 5);
        assert_eq!(state.cache.find(KEY), None);
        for (kept, expected) in [(0, SlotState::Clean), (0xff, SlotState::Dirty)] {
            let mut state = recovering(0xff, kept);
            load(&mut state, 1, 5);
            assert_eq!(state.cache.state_of(KEY), Some(expected));
        }
    }

    #[test]
    fn a_record_does_not_apply_to_a_younger_copy() {
        let mut state = recovering(0xff, 0xff);
        load(&mut state, 1, 5);
        let sequences = state.recovering().sequences.clone();
        let mut apply = |sequence, fact| {
            apply_record(&mut state, &sequences, &Record { sequence: Sequence::new(sequence), fact });
            state.cache.state_of(KEY)
        };
        assert_eq!(apply(4, Fact::Gone(KEY)), Some(SlotState::Dirty));
        assert_eq!(apply(4, Fact::Dropped(KEY.volume())), Some(SlotState::Dirty));
        assert_eq!(apply(6, Fact::Clean(KEY)), Some(SlotState::Clean));
        assert_eq!(apply(7, Fact::Gone(KEY)), None);
    }

    #[test]
    fn a_loaded_segment_is_known_by_its_newest_sequence() {
        let mut state = recovering(0xff, 0xff);
        let (segment, generation) = (SegmentIndex::new(2), Generation::new(1));
        let blocks = state.cache.geometry().batch_blocks() as usize;
        let mut entries = alloc::vec![None; blocks];
        let entry = |sequence| SummaryEntry {
            key: KEY,
            checksum: Checksum::new(0),
            dirty: true,
            sequence: Sequence::new(sequence),
        };
        (entries[1], entries[2]) = (Some(entry(9)), Some(entry(4)));
        let (queue, durable) = (Queue::Main, Durable::NOTHING);
        load_segment(&mut state, &Summary { uuid: [1; 16], segment, generation, queue, durable, entries });
        assert_eq!(state.recovering().newest, Sequence::new(9));
    }

    #[test]
    fn a_generation_continues_after_a_restart() {
        let mut state = recovering(0, 0);
        for kind in [SegmentKind::Free, SegmentKind::InUse, SegmentKind::Retired] {
            let segment = SegmentIndex::new(3);
            let image = state.recovering().images[3].clone().unwrap();
            let image = SegmentImage { kind, generation: Generation::new(7), ..image };
            state.cache.segment_mut(segment).generation = Generation::new(0);
            apply_image(&mut state, segment, Some(&image));
            assert_eq!(state.cache.segments().get(segment).generation, Generation::new(7), "{kind:?}");
        }
    }
}
