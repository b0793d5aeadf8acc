//! Cache metadata: index, slots and segments, kept consistent with each other. They change only here, except some
//! fields of segments ([`Cache::segment_mut`]).
//!
//! Invariants:
//! * B-1: the index points at location L for key K exactly if slot L is not dead and holds K.
//! * S-1 of the segments, and the counts by volume, agree with the slots.
//! * F-1 of the searches: they receive each block of their extents that is inserted or moved.

mod check;
pub(crate) mod cut;
pub(crate) mod cut_search;
pub(crate) mod index;
pub(crate) mod search;
mod searches;
pub(crate) mod segments;
pub(crate) mod slots;

use alloc::boxed::Box;

use crate::cache::cut_search::CutSearch;
use crate::cache::index::Index;
use crate::cache::searches::Searches;
use crate::cache::segments::{Segment, SegmentState, Segments};
use crate::cache::slots::{HITS_MAX, SLOT_BYTES, SlotFlag, SlotState, Slots};
use crate::config::VOLUME_COUNT_MAX;
use crate::format::geometry::Geometry;
use crate::queue::Queue;
use crate::step::Step;
use crate::units::{BlockIndex, BlockKey, Checksum, Generation, Location, SegmentIndex, VolumeId};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct VolumeBlocks {
    pub(crate) cached: u64,
    pub(crate) unflushed: u64,
    pub(crate) dirty: u64,
    pub(crate) damaged: u64,
    /// Blocks that a writeback or a group of the redo journal includes.
    pub(crate) in_writeback: u64,
}

impl VolumeBlocks {
    pub(crate) const fn not_clean(&self) -> u64 {
        self.dirty + self.unflushed
    }

    fn count_mut(&mut self, state: SlotState) -> Option<&mut u64> {
        match state {
            SlotState::Dead | SlotState::Clean => None,
            SlotState::Unflushed => Some(&mut self.unflushed),
            SlotState::Dirty => Some(&mut self.dirty),
        }
    }
}

/// A block at a location, in one generation of its segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct BlockCopy {
    pub(crate) key: BlockKey,
    pub(crate) location: Location,
    generation: Generation,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CachedBlock {
    pub(crate) key: BlockKey,
    pub(crate) location: Location,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Touch {
    /// The block's count of hits was 0.
    pub(crate) is_first: bool,
    pub(crate) is_first_of_read_ahead: bool,
    /// The block's segment became a candidate of a shift of the working set since it was last opened.
    pub(crate) is_candidate: bool,
}

#[derive(Debug)]
pub(crate) struct Cache {
    geometry: Geometry,
    index: Index,
    slots: Slots,
    segments: Segments,
    volumes: [VolumeBlocks; VOLUME_COUNT_MAX],
    searches: Searches,
    /// The cut whose members are being searched.
    cut: Option<Box<CutSearch>>,
}

impl Cache {
    /// [`Superblock::unopened`] is the initial generation of segments behind the formatted size.
    ///
    /// [`Superblock::unopened`]: crate::format::superblock::Superblock::unopened
    pub(crate) fn open(geometry: Geometry, unopened: Generation) -> Cache {
        let mut segments = Segments::new(geometry.with_size(geometry.formatted_size).segment_count);
        segments.grow(geometry.segment_count, unopened);
        Cache {
            geometry,
            index: Index::new(geometry.location_count()),
            slots: Slots::new(geometry.location_count()),
            segments,
            volumes: [VolumeBlocks::default(); VOLUME_COUNT_MAX],
            searches: Searches::default(),
            cut: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn new(geometry: Geometry) -> Cache {
        Cache::open(geometry, Generation::new(0))
    }

    /// Begins to make space for a larger device; `None` if there is not enough memory.
    pub(crate) fn begin_growth(&mut self, geometry: &Geometry) -> Option<()> {
        self.segments.reserve(geometry.segment_count)?;
        self.slots.begin_growth(geometry.location_count())?;
        self.index.begin_growth(geometry.location_count())
    }

    pub(crate) fn grow(&mut self, geometry: &Geometry) -> Step {
        match self.slots.grow(geometry.location_count()) {
            Step::More => Step::More,
            Step::Done => self.index.grow(&self.slots),
        }
    }

    pub(crate) fn use_grown(&mut self, geometry: Geometry, unopened: Generation) {
        assert!(self.slots.count() == geometry.location_count(), "room was made for another size");
        self.searches.on_growth(geometry.segment_count - self.segments.count());
        self.segments.grow(geometry.segment_count, unopened);
        self.geometry = geometry;
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// For changes of fields other than the state and the counts of blocks.
    pub(crate) fn segment_mut(&mut self, segment: SegmentIndex) -> &mut Segment {
        self.segments.get_mut(segment)
    }

    pub(crate) fn set_segment_state(&mut self, segment: SegmentIndex, state: SegmentState) {
        if let (Some(cut), SegmentState::Opening | SegmentState::Open) = (&mut self.cut, state) {
            cut.leave_out(segment);
        }
        self.segments.set_state(segment, state);
    }

    pub(crate) fn seal(&mut self, segment: SegmentIndex) {
        self.segments.seal(segment);
    }

    pub(crate) fn unlink(&mut self, segment: SegmentIndex, next: SegmentState) {
        self.segments.unlink(segment, next);
    }

    pub(crate) fn move_to(&mut self, segment: SegmentIndex, queue: Queue) {
        self.segments.move_to(segment, queue);
    }

    pub(crate) fn volume(&self, volume: VolumeId) -> &VolumeBlocks {
        &self.volumes[usize::from(volume.get())]
    }

    /// Blocks of the log that the dirty and unflushed blocks of each volume use, with their part of the headers.
    pub(crate) fn log_use(&self) -> impl Fn(VolumeId) -> u64 {
        let all: u64 = self.volumes.iter().map(VolumeBlocks::not_clean).sum();
        let headers = self.segments.not_clean_headers();
        move |volume| {
            let not_clean = self.volume(volume).not_clean();
            not_clean + (headers * not_clean).div_ceil(all.max(1))
        }
    }

    pub(crate) fn add_header(&mut self, segment: SegmentIndex) {
        self.segments.add_header(segment);
    }

    pub(crate) fn set_headers(&mut self, segment: SegmentIndex, headers: u32) {
        self.segments.set_headers(segment, headers);
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let slots = u64::from(self.slots.count()) * SLOT_BYTES as u64;
        slots + self.index.memory_bytes() + self.segments.memory_bytes()
    }

    pub(crate) fn segment_of(&self, location: Location) -> SegmentIndex {
        self.geometry.segment_of(location)
    }

    /// Loads index buckets and slots of these blocks into the processor's caches.
    pub(crate) fn warm(&self, keys: impl Iterator<Item = BlockKey> + Clone) {
        keys.clone().for_each(|key| self.index.warm(key));
        keys.for_each(|key| self.index.warm_slot(key, &self.slots));
    }

    pub(crate) fn find(&self, key: BlockKey) -> Option<Location> {
        self.index.find(key, &self.slots)
    }

    pub(crate) fn state_of(&self, key: BlockKey) -> Option<SlotState> {
        self.find(key).map(|location| self.slots.state(location))
    }

    /// Whether the index points to `location` for this key.
    pub(crate) fn is_current(&self, key: BlockKey, location: Location) -> bool {
        self.slots.state(location) != SlotState::Dead && self.slots.key(location) == key
    }

    pub(crate) fn copy_at(&self, key: BlockKey, location: Location) -> BlockCopy {
        let generation = self.segments.get(self.segment_of(location)).generation;
        BlockCopy { key, location, generation }
    }

    /// Whether the index still points to a copy.
    pub(crate) fn is_alive(&self, copy: BlockCopy) -> bool {
        self.is_current(copy.key, copy.location) && self.copy_at(copy.key, copy.location) == copy
    }

    /// Puts a block at a location; returns the location of an older copy, which dies.
    pub(crate) fn insert(
        &mut self,
        key: BlockKey,
        location: Location,
        checksum: Checksum,
        state: SlotState,
    ) -> Option<Location> {
        let old = self.index.replace(key, location, &self.slots);
        match old {
            Some(old) => self.bury(old),
            None => self.index.insert(key, location),
        }
        self.put(key, location, checksum, state);
        old
    }

    /// Inserts a block that has no copy: the caller has just checked this with `find`.
    pub(crate) fn insert_new(
        &mut self,
        key: BlockKey,
        location: Location,
        checksum: Checksum,
        state: SlotState,
    ) {
        debug_assert!(self.find(key).is_none(), "B-1: a block has one live copy");
        self.index.insert(key, location);
        self.put(key, location, checksum, state);
    }

    fn put(&mut self, key: BlockKey, location: Location, checksum: Checksum, state: SlotState) {
        assert!(state != SlotState::Dead, "B-1: a dead block cannot be put in");
        self.slots.fill(location, key, checksum, state);
        self.segments.add_live(self.geometry.segment_of(location), key.volume(), state);
        self.count(key.volume(), state, 1);
        self.searches.note_placed(key);
    }

    /// Makes a superseded copy current again, and dirty.
    pub(crate) fn revive(&mut self, key: BlockKey, older: Location) {
        assert!(self.slots.key(older) == key, "B-1: another block took the place of a copy that was held");
        assert!(self.slots.state(older) == SlotState::Dead, "B-1: a block has one live copy");
        let lost = self.index.replace(key, older, &self.slots);
        self.bury(lost.expect("the copy that is lost is the block until now"));
        self.slots.lower(older, SlotFlag::InSweep);
        self.slots.lower(older, SlotFlag::InWriteback);
        self.slots.set_state(older, SlotState::Dirty);
        self.segments.add_live(self.geometry.segment_of(older), key.volume(), SlotState::Dirty);
        self.count(key.volume(), SlotState::Dirty, 1);
        self.searches.note_placed(key);
        self.count_damaged(older, 1);
    }

    /// Makes a dead copy without a newer copy the current one again, dirty.
    pub(crate) fn restore(&mut self, key: BlockKey, location: Location) {
        assert!(self.slots.key(location) == key, "B-1: another block replaced a dropped block");
        let checksum = self.slots.checksum(location);
        self.insert_new(key, location, checksum, SlotState::Dirty);
    }

    pub(crate) fn remove(&mut self, key: BlockKey) -> Option<Location> {
        let location = self.index.remove(key, &self.slots)?;
        if mutant!(MetadataDrift) {
            self.slots.set_state(location, SlotState::Dead);
            return Some(location);
        }
        self.bury(location);
        Some(location)
    }

    fn bury(&mut self, location: Location) {
        let state = self.slots.state(location);
        debug_assert!(state != SlotState::Dead, "B-1: the index named a dead slot");
        if self.cut.is_some() {
            self.note_death_in_cut(location);
        }
        self.count_damaged(location, -1);
        self.count_in_writeback(location, -1);
        self.slots.set_state(location, SlotState::Dead);
        self.segments.remove_live(self.geometry.segment_of(location), state);
        self.count(self.slots.key(location).volume(), state, -1);
    }

    fn count(&mut self, volume: VolumeId, state: SlotState, by: i64) {
        let counts = &mut self.volumes[usize::from(volume.get())];
        counts.cached = counts.cached.strict_add_signed(by);
        if let Some(count) = counts.count_mut(state) {
            *count = count.strict_add_signed(by);
        }
    }

    fn count_damaged(&mut self, location: Location, by: i64) {
        if self.slots.is_damaged(location) {
            let volume = self.slots.key(location).volume();
            let damaged = &mut self.volumes[usize::from(volume.get())].damaged;
            *damaged = damaged.strict_add_signed(by);
        }
    }

    /// Changes the state of a live block to another live state. A block that is not dirty is not damaged either.
    pub(crate) fn set_state(&mut self, location: Location, state: SlotState) {
        let old = self.slots.state(location);
        assert!(old != SlotState::Dead && state != SlotState::Dead, "B-1: {old:?} to {state:?}");
        let volume = self.slots.key(location).volume();
        self.count(volume, old, -1);
        self.count(volume, state, 1);
        if state != SlotState::Dirty {
            self.set_sound(location);
        }
        self.slots.set_state(location, state);
        let segment = self.geometry.segment_of(location);
        match (old.is_not_clean(), state.is_not_clean()) {
            (false, true) => self.segments.add_kept(segment),
            (true, false) => self.segments.remove_kept(segment),
            (true, true) | (false, false) => {}
        }
    }

    pub(crate) fn set_checksum(&mut self, location: Location, checksum: Checksum) {
        self.set_sound(location);
        self.slots.set_checksum(location, checksum);
    }

    pub(crate) fn touch(&mut self, location: Location) -> Touch {
        let hits = self.slots.hits(location);
        if hits < HITS_MAX {
            self.slots.set_hits(location, hits + 1);
        }
        let is_first_of_read_ahead = self.slots.is_read_ahead(location);
        if is_first_of_read_ahead {
            self.slots.lower(location, SlotFlag::ReadAhead);
        }
        let used_since = &mut self.segments.get_mut(self.geometry.segment_of(location)).used_since;
        *used_since = used_since.map(|hits| hits.saturating_add(1));
        Touch { is_first: hits == 0, is_first_of_read_ahead, is_candidate: used_since.is_some() }
    }

    pub(crate) fn set_hits(&mut self, location: Location, hits: u8) {
        self.slots.set_hits(location, hits);
    }

    pub(crate) fn set_read_ahead(&mut self, location: Location) {
        self.slots.raise(location, SlotFlag::ReadAhead);
    }

    pub(crate) fn enter_sweep(&mut self, location: Location) {
        self.slots.raise(location, SlotFlag::InSweep);
    }

    pub(crate) fn leave_sweep(&mut self, location: Location) {
        self.slots.lower(location, SlotFlag::InSweep);
    }

    pub(crate) fn begin_writeback(&mut self, location: Location) {
        // Two writebacks may include a clean block as a gap.
        if !self.slots.is_in_writeback(location) {
            self.slots.raise(location, SlotFlag::InWriteback);
            self.count_in_writeback(location, 1);
        }
    }

    pub(crate) fn end_writeback(&mut self, location: Location) {
        self.count_in_writeback(location, -1);
        self.slots.lower(location, SlotFlag::InWriteback);
    }

    fn count_in_writeback(&mut self, location: Location, by: i64) {
        if self.slots.is_in_writeback(location) {
            let count = &mut self.volumes[usize::from(self.slots.key(location).volume().get())].in_writeback;
            *count = count.strict_add_signed(by);
        }
    }

    pub(crate) fn set_damaged(&mut self, location: Location) {
        debug_assert!(!self.slots.is_damaged(location), "a block is damaged once");
        self.slots.raise(location, SlotFlag::Damaged);
        self.count_damaged(location, 1);
    }

    fn set_sound(&mut self, location: Location) {
        self.count_damaged(location, -1);
        self.slots.lower(location, SlotFlag::Damaged);
    }

    /// Whether the newest copy of a block is damaged.
    pub(crate) fn is_block_damaged(&self, key: BlockKey) -> bool {
        self.find(key).is_some_and(|location| self.slots.is_damaged(location))
    }

    /// The live blocks of a segment, in order of location.
    pub(crate) fn live_in(&self, segment: SegmentIndex) -> impl Iterator<Item = Location> {
        let first = self.geometry.first_location(segment);
        (0..self.geometry.batch_blocks())
            .map(move |offset| first.plus(offset))
            .filter(|location| self.slots.state(*location) != SlotState::Dead)
    }

    /// # Panics
    /// I-4: if some structure still refers to it.
    pub(crate) fn check_empty(&self, segment: SegmentIndex) {
        let Segment { live, not_clean, pins, .. } = *self.segments.get(segment);
        assert!(live == 0 && not_clean == 0 && pins == 0, "I-4: segment {segment:?} is still in use");
    }

    /// The blocks of a volume that are not clean, unordered.
    pub(crate) fn kept_blocks(&self, volume: VolumeId) -> impl Iterator<Item = BlockIndex> {
        (0..self.slots.count()).map(Location::new).filter_map(move |location| {
            let key = self.slots.key(location);
            let not_clean = self.slots.state(location).is_not_clean() && key.volume() == volume;
            not_clean.then_some(key.block())
        })
    }
}
