//! The slots: for each location its key, checksum, state, flags and hits, 11 bytes a location.
//!
//! A dead slot keeps its key and checksum until it is filled again, so that a reader that began before the block
//! moved can still verify its data.
//!
//! When a cache device grows, the new slots are stored in separate stretches, so that no slot is ever copied.

use alloc::vec;
use alloc::vec::Vec;

use crate::step::Step;
use crate::units::{BlockKey, Checksum, Location};

pub(crate) const SLOT_BYTES: usize = 11;

const STATE_MASK: u8 = 0b0000_0011;
const HITS_SHIFT: u32 = 2;
const HITS_MASK: u8 = 0b0000_1100;
const READ_AHEAD: u8 = 0b0001_0000;
const IN_SWEEP: u8 = 0b0010_0000;
const DAMAGED: u8 = 0b0100_0000;
const IN_WRITEBACK: u8 = 0b1000_0000;

/// Most hits that a slot counts.
pub(crate) const HITS_MAX: u8 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SlotState {
    /// No block, or a superseded or dropped one.
    Dead,
    /// The origin holds the same data and has flushed it.
    Clean,
    /// The origin holds the same data, perhaps not flushed.
    Unflushed,
    /// The origin may not hold this data.
    Dirty,
}

impl SlotState {
    const fn bits(self) -> u8 {
        match self {
            SlotState::Dead => 0,
            SlotState::Clean => 1,
            SlotState::Unflushed => 2,
            SlotState::Dirty => 3,
        }
    }

    const fn from_bits(bits: u8) -> SlotState {
        match bits & STATE_MASK {
            0 => SlotState::Dead,
            1 => SlotState::Clean,
            2 => SlotState::Unflushed,
            _ => SlotState::Dirty,
        }
    }

    pub(crate) const fn is_not_clean(self) -> bool {
        matches!(self, SlotState::Unflushed | SlotState::Dirty)
    }
}

/// Other properties of the block at a location.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SlotFlag {
    /// The block was read ahead, and no read has hit it.
    ReadAhead,
    /// A sweep, a writeback or a write through the log includes the block.
    InSweep,
    /// The writeback of the block is in flight.
    InWriteback,
    /// The block is dirty and damaged.
    Damaged,
}

impl SlotFlag {
    const fn bit(self) -> u8 {
        match self {
            SlotFlag::ReadAhead => READ_AHEAD,
            SlotFlag::InSweep => IN_SWEEP,
            SlotFlag::InWriteback => IN_WRITEBACK,
            SlotFlag::Damaged => DAMAGED,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Slots {
    bytes: Vec<[u8; SLOT_BYTES]>,
    /// The slots of each growth of the device.
    grown: Vec<Stretch>,
}

#[derive(Debug)]
struct Stretch {
    /// The first location.
    start: u32,
    bytes: Vec<[u8; SLOT_BYTES]>,
}

impl Stretch {
    fn end(&self) -> u32 {
        self.start + u32::try_from(self.bytes.len()).expect("locations have 32 bits")
    }
}

/// The most slots that one step creates while a cache device grows.
const MADE_AT_ONCE: usize = 32_768;

const fn empty_slot() -> [u8; SLOT_BYTES] {
    let mut empty = [0xff; SLOT_BYTES];
    empty[6] = 0;
    empty
}

impl Slots {
    /// Touches the memory at once, so that its size is visible from the start.
    pub(crate) fn new(count: u32) -> Slots {
        Slots { bytes: vec![empty_slot(); count as usize], grown: Vec::new() }
    }

    pub(crate) fn count(&self) -> u32 {
        let first = || u32::try_from(self.bytes.len()).expect("locations have 32 bits");
        self.grown.last().map_or_else(first, Stretch::end)
    }

    /// Begins to make room for `count` slots in all; `None` if there is no memory.
    pub(crate) fn begin_growth(&mut self, count: u32) -> Option<()> {
        let start = self.count();
        let mut bytes = Vec::new();
        bytes.try_reserve_exact((count - start) as usize).ok()?;
        self.grown.push(Stretch { start, bytes });
        Some(())
    }

    pub(crate) fn grow(&mut self, count: u32) -> Step {
        let missing = (count - self.count()) as usize;
        if let Some(stretch) = self.grown.last_mut() {
            let new = stretch.bytes.len() + missing.min(MADE_AT_ONCE);
            stretch.bytes.resize(new, empty_slot());
        }
        if missing > MADE_AT_ONCE { Step::More } else { Step::Done }
    }

    #[inline]
    fn slot(&self, location: Location) -> &[u8; SLOT_BYTES] {
        match self.bytes.get(location.get() as usize) {
            Some(slot) => slot,
            None => self.grown_slot(location),
        }
    }

    #[cold]
    #[inline(never)]
    fn grown_slot(&self, location: Location) -> &[u8; SLOT_BYTES] {
        let number = self.grown.partition_point(|stretch| stretch.end() <= location.get());
        let stretch = &self.grown[number];
        &stretch.bytes[(location.get() - stretch.start) as usize]
    }

    #[inline]
    fn slot_mut(&mut self, location: Location) -> &mut [u8; SLOT_BYTES] {
        let at = location.get() as usize;
        if at < self.bytes.len() { &mut self.bytes[at] } else { self.grown_slot_mut(location) }
    }

    #[cold]
    #[inline(never)]
    fn grown_slot_mut(&mut self, location: Location) -> &mut [u8; SLOT_BYTES] {
        let number = self.grown.partition_point(|stretch| stretch.end() <= location.get());
        let stretch = &mut self.grown[number];
        &mut stretch.bytes[(location.get() - stretch.start) as usize]
    }

    #[inline]
    fn meta(&mut self, location: Location) -> &mut u8 {
        &mut self.slot_mut(location)[6]
    }

    /// A plain load, since safe Rust has no prefetch.
    pub(crate) fn warm(&self, location: Location) {
        core::hint::black_box(self.slot(location)[6]);
    }

    pub(crate) fn key(&self, location: Location) -> BlockKey {
        let slot = self.slot(location);
        BlockKey::from_bits(u64::from_le_bytes([slot[0], slot[1], slot[2], slot[3], slot[4], slot[5], 0, 0]))
    }

    pub(crate) fn checksum(&self, location: Location) -> Checksum {
        let slot = self.slot(location);
        Checksum::new(u32::from_le_bytes([slot[7], slot[8], slot[9], slot[10]]))
    }

    pub(crate) fn state(&self, location: Location) -> SlotState {
        SlotState::from_bits(self.slot(location)[6])
    }

    pub(crate) fn hits(&self, location: Location) -> u8 {
        (self.slot(location)[6] & HITS_MASK) >> HITS_SHIFT
    }

    pub(crate) fn is_read_ahead(&self, location: Location) -> bool {
        self.slot(location)[6] & READ_AHEAD != 0
    }

    pub(crate) fn is_in_sweep(&self, location: Location) -> bool {
        self.slot(location)[6] & IN_SWEEP != 0
    }

    pub(crate) fn is_in_writeback(&self, location: Location) -> bool {
        self.slot(location)[6] & IN_WRITEBACK != 0
    }

    pub(crate) fn is_damaged(&self, location: Location) -> bool {
        self.slot(location)[6] & DAMAGED != 0
    }

    /// Stores a block in a slot, with no hits and no flags.
    pub(crate) fn fill(&mut self, location: Location, key: BlockKey, checksum: Checksum, state: SlotState) {
        let key = key.bits().to_le_bytes();
        let sum = checksum.get().to_le_bytes();
        *self.slot_mut(location) =
            [key[0], key[1], key[2], key[3], key[4], key[5], state.bits(), sum[0], sum[1], sum[2], sum[3]];
    }

    pub(crate) fn set_checksum(&mut self, location: Location, checksum: Checksum) {
        self.slot_mut(location)[7..].copy_from_slice(&checksum.get().to_le_bytes());
    }

    pub(crate) fn set_state(&mut self, location: Location, state: SlotState) {
        let meta = self.meta(location);
        *meta = (*meta & !STATE_MASK) | state.bits();
    }

    pub(crate) fn set_hits(&mut self, location: Location, hits: u8) {
        let meta = self.meta(location);
        *meta = (*meta & !HITS_MASK) | (hits.min(HITS_MAX) << HITS_SHIFT);
    }

    pub(crate) fn raise(&mut self, location: Location, flag: SlotFlag) {
        *self.meta(location) |= flag.bit();
    }

    pub(crate) fn lower(&mut self, location: Location, flag: SlotFlag) {
        *self.meta(location) &= !flag.bit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{BlockIndex, VolumeId};

    #[test]
    fn marks_do_not_disturb_each_other() {
        let mut slots = Slots::new(2);
        let place = Location::new(1);
        let key = BlockKey::new(VolumeId::new(3), BlockIndex::new(0x12_3456_789a));
        slots.fill(place, key, Checksum::new(0xdead_beef), SlotState::Dirty);
        slots.set_hits(place, 9);
        slots.raise(place, SlotFlag::ReadAhead);
        slots.raise(place, SlotFlag::InSweep);
        slots.raise(place, SlotFlag::Damaged);
        slots.set_state(place, SlotState::Unflushed);
        slots.lower(place, SlotFlag::ReadAhead);
        assert_eq!(slots.key(place), key);
        assert_eq!(slots.checksum(place), Checksum::new(0xdead_beef));
        assert_eq!(slots.state(place), SlotState::Unflushed);
        assert_eq!(slots.hits(place), HITS_MAX);
        assert!(slots.is_in_sweep(place) && slots.is_damaged(place) && !slots.is_read_ahead(place));
        assert_eq!(slots.state(Location::new(0)), SlotState::Dead);
    }

    #[test]
    fn slots_keep_their_values_when_the_table_grows() {
        let mut slots = Slots::new(10);
        let key = |number: u32| BlockKey::new(VolumeId::new(1), BlockIndex::new(number.into()));
        let fill = |slots: &mut Slots, places: core::ops::Range<u32>| {
            places.for_each(|place| {
                slots.fill(Location::new(place), key(place), Checksum::new(place), SlotState::Clean);
            });
        };
        fill(&mut slots, 0..10);
        let mut steps = 0;
        for (old, count) in [(10, 100_000), (100_000, 100_001)] {
            slots.begin_growth(count).unwrap();
            while slots.grow(count) == Step::More {
                steps += 1;
            }
            assert_eq!((slots.count(), slots.state(Location::new(count - 1))), (count, SlotState::Dead));
            fill(&mut slots, old..count);
        }
        assert_eq!(steps, 3, "no step makes many");
        let wrong = (0..100_001).find(|place| {
            let location = Location::new(*place);
            slots.key(location) != key(*place) || slots.checksum(location) != Checksum::new(*place)
        });
        assert_eq!(wrong, None);
    }
}
