//! The index from blocks to locations: a table of 4-byte locations with one tag byte each; the keys are in the slots.
//!
//! Buckets of 12 entries fill one cache line. A full bucket passes entries on to the next one and counts them, so that
//! a look-up needs no bucket after the first one that passed no entry on. Removal leaves no tombstones.
//!
//! Invariants:
//! * `passed` of a bucket is the number of entries with their home in or before the bucket and their place after
//!   it.
//! * the tag of an entry has [`PASSED_ON`] exactly if its place is not in its home.
//! * the upper half of an entry's hash is below [`Index::moved`] exactly if the larger table has it.

use alloc::vec;
use alloc::vec::Vec;

use crate::cache::slots::Slots;
use crate::step::Step;
use crate::units::{BlockKey, Location};

const WAYS: usize = 12;
const EMPTY: u32 = u32::MAX;
/// The most buckets that one step creates while an index grows.
const MADE_AT_ONCE: usize = 4_096;
/// The most buckets that one step moves to the larger table.
const MOVED_AT_ONCE: usize = 128;
/// Set in the tag of an entry with its place after its home.
const PASSED_ON: u8 = 0x80;

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Bucket {
    places: [u32; WAYS],
    tags: [u8; WAYS],
    passed: u32,
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    /// One bit for each way with this tag.
    fn ways_tagged(&self, tag: u8) -> u32 {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.tags;
        let wanted = EACH * u64::from(tag);
        let low = u64::from_le_bytes([a, b, c, d, e, f, g, h]) ^ wanted;
        let high = u64::from(u32::from_le_bytes([i, j, k, l])) ^ (wanted | !u64::from(u32::MAX));
        zero_bytes(low) | zero_bytes(high) << 8
    }

    fn empty_way(&self) -> Option<usize> {
        let ways = self.places.iter().enumerate();
        let empty = ways.fold(0, |bits: u32, (way, place)| bits | (u32::from(*place == EMPTY) << way));
        (empty != 0).then_some(empty.trailing_zeros() as usize)
    }
}

/// The lowest bit of each byte.
const EACH: u64 = 0x0101_0101_0101_0101;

/// One bit for each byte that is zero, the first byte's lowest.
const fn zero_bytes(word: u64) -> u32 {
    const LOW: u64 = EACH * 0x7F;
    let zero = !(((word & LOW) + LOW) | word | LOW) >> 7;
    // The product gathers the lowest bit of each byte in the highest byte.
    (zero.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

const EMPTY_BUCKET: Bucket = Bucket { places: [EMPTY; WAYS], tags: [0; WAYS], passed: 0 };

#[derive(Debug)]
pub(crate) struct Index {
    table: Table,
    /// The table that is to replace the present one while the index grows.
    larger: Table,
    /// Buckets that the larger table is to have.
    wanted: usize,
    /// Buckets of the table that were moved to the larger one.
    done: usize,
    /// Entries with a smaller upper half of their hash are in the larger table.
    moved: u64,
}

#[derive(Debug)]
struct Table {
    buckets: Vec<Bucket>,
    len: u64,
}

#[derive(Clone, Copy)]
struct Place {
    bucket: usize,
    way: usize,
}

/// Buckets with room for `count` entries at a load of at most 14/15.
fn bucket_count(count: u32) -> usize {
    let buckets = (u64::from(count) * 15).div_ceil(14 * WAYS as u64).max(2);
    usize::try_from(buckets).expect("fits the address space")
}

impl Index {
    pub(crate) fn new(count: u32) -> Index {
        let table = Table { buckets: vec![EMPTY_BUCKET; bucket_count(count)], len: 0 };
        Index { table, larger: Table { buckets: Vec::new(), len: 0 }, wanted: 0, done: 0, moved: 0 }
    }

    pub(crate) fn len(&self) -> u64 {
        self.table.len + self.larger.len
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        ((self.table.buckets.len() + self.larger.buckets.len()) * size_of::<Bucket>()) as u64
    }

    #[inline]
    fn of(&self, hash: u64) -> &Table {
        if hash >> 32 < self.moved { &self.larger } else { &self.table }
    }

    #[inline]
    fn of_mut(&mut self, hash: u64) -> &mut Table {
        if hash >> 32 < self.moved { &mut self.larger } else { &mut self.table }
    }

    /// Fetches a key's first bucket.
    pub(crate) fn warm(&self, key: BlockKey) {
        let hash = key.hash();
        self.of(hash).warm(hash);
    }

    /// Fetches the slot of a key, if its first bucket has an entry with its tag.
    pub(crate) fn warm_slot(&self, key: BlockKey, slots: &Slots) {
        let hash = key.hash();
        self.of(hash).warm_slot(hash, slots);
    }

    pub(crate) fn find(&self, key: BlockKey, slots: &Slots) -> Option<Location> {
        let hash = key.hash();
        self.of(hash).find(key, hash, slots)
    }

    /// Changes the location of an existing entry; returns the old location. The old slot must still have the key.
    pub(crate) fn replace(&mut self, key: BlockKey, location: Location, slots: &Slots) -> Option<Location> {
        let hash = key.hash();
        self.of_mut(hash).replace(key, hash, location, slots)
    }

    /// Adds a key that is not in the index.
    ///
    /// # Panics
    /// If the table is full.
    pub(crate) fn insert(&mut self, key: BlockKey, location: Location) {
        let hash = key.hash();
        self.of_mut(hash).insert(hash, location);
    }

    pub(crate) fn remove(&mut self, key: BlockKey, slots: &Slots) -> Option<Location> {
        let hash = key.hash();
        self.of_mut(hash).remove(key, hash, slots)
    }

    /// Begins to make space for `count` entries; `None` if there is not enough memory.
    pub(crate) fn begin_growth(&mut self, count: u32) -> Option<()> {
        assert!(self.larger.buckets.is_empty(), "X-3: the index grows already");
        let wanted = bucket_count(count);
        assert!(wanted >= self.table.buckets.len(), "the index never shrinks");
        self.larger.buckets.try_reserve_exact(wanted).ok()?;
        (self.wanted, self.done) = (wanted, 0);
        Some(())
    }

    pub(crate) fn grow(&mut self, slots: &Slots) -> Step {
        match self.grow_tables() {
            Step::More => Step::More,
            Step::Done => self.take_over(MOVED_AT_ONCE, slots),
        }
    }

    fn grow_tables(&mut self) -> Step {
        let missing = self.wanted - self.larger.buckets.len();
        let new = self.larger.buckets.len() + missing.min(MADE_AT_ONCE);
        self.larger.buckets.resize(new, EMPTY_BUCKET);
        if missing > MADE_AT_ONCE { Step::More } else { Step::Done }
    }

    fn take_over(&mut self, count: usize, slots: &Slots) -> Step {
        let end = self.table.buckets.len().min(self.done + count);
        for bucket in self.done..end {
            self.move_bucket(bucket, slots);
        }
        if end < self.table.buckets.len() {
            return Step::More;
        }
        assert!(self.table.len == 0, "X-3: an entry was left behind");
        self.table = core::mem::replace(&mut self.larger, Table { buckets: Vec::new(), len: 0 });
        (self.wanted, self.done, self.moved) = (0, 0, 0);
        Step::Done
    }

    /// Moves all entries with this home to the larger table.
    fn move_bucket(&mut self, bucket: usize, slots: &Slots) {
        self.table.warm_slots(bucket, slots);
        while let Some(place) = self.table.find_of_home(bucket, slots) {
            let location = Location::new(self.table.buckets[place.bucket].places[place.way]);
            self.table.take(bucket, place, slots);
            self.larger.insert(slots.key(location).hash(), location);
        }
        self.done = bucket + 1;
        self.moved = ((self.done as u64) << 32).div_ceil(self.table.buckets.len() as u64);
    }
}

impl Table {
    fn home(&self, hash: u64) -> usize {
        let scaled = (hash >> 32) * self.buckets.len() as u64;
        usize::try_from(scaled >> 32).expect("below the number of buckets")
    }

    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    #[inline]
    fn warm(&self, hash: u64) {
        core::hint::black_box(self.buckets[self.home(hash)].passed);
    }

    #[inline]
    fn warm_slot(&self, hash: u64, slots: &Slots) {
        let bucket = &self.buckets[self.home(hash)];
        let ways = bucket.ways_tagged(tag(hash));
        if ways != 0 {
            let place = bucket.places[ways.trailing_zeros() as usize];
            if place != EMPTY {
                slots.warm(Location::new(place));
            }
        }
    }

    fn warm_slots(&self, bucket: usize, slots: &Slots) {
        let places = self.buckets[bucket].places.iter().filter(|place| **place != EMPTY);
        places.for_each(|place| slots.warm(Location::new(*place)));
    }

    #[inline]
    fn position(&self, key: BlockKey, hash: u64, slots: &Slots) -> Option<Place> {
        let mut tag = tag(hash);
        let mut at = self.home(hash);
        loop {
            let bucket = &self.buckets[at];
            let mut matching = bucket.ways_tagged(tag);
            while matching != 0 {
                let way = matching.trailing_zeros() as usize;
                let place = bucket.places[way];
                if place != EMPTY && slots.key(Location::new(place)) == key {
                    return Some(Place { bucket: at, way });
                }
                matching &= matching - 1;
            }
            if bucket.passed == 0 {
                return None;
            }
            tag |= PASSED_ON;
            at = self.after(at);
        }
    }

    #[inline]
    fn find(&self, key: BlockKey, hash: u64, slots: &Slots) -> Option<Location> {
        let Place { bucket, way } = self.position(key, hash, slots)?;
        Some(Location::new(self.buckets[bucket].places[way]))
    }

    fn replace(&mut self, key: BlockKey, hash: u64, location: Location, slots: &Slots) -> Option<Location> {
        let Place { bucket, way } = self.position(key, hash, slots)?;
        let place = &mut self.buckets[bucket].places[way];
        Some(Location::new(core::mem::replace(place, location.get())))
    }

    fn insert(&mut self, hash: u64, location: Location) {
        assert!(self.len < (self.buckets.len() * WAYS) as u64, "X: more entries than locations");
        let mut tag = tag(hash);
        let mut at = self.home(hash);
        loop {
            let bucket = &mut self.buckets[at];
            if let Some(way) = bucket.empty_way() {
                bucket.places[way] = location.get();
                bucket.tags[way] = tag;
                self.len += 1;
                return;
            }
            bucket.passed += 1;
            tag |= PASSED_ON;
            at = self.after(at);
        }
    }

    fn remove(&mut self, key: BlockKey, hash: u64, slots: &Slots) -> Option<Location> {
        let place = self.position(key, hash, slots)?;
        let location = self.buckets[place.bucket].places[place.way];
        self.take(self.home(hash), place, slots);
        Some(Location::new(location))
    }

    fn take(&mut self, home: usize, place: Place, slots: &Slots) {
        let mut at = home;
        while at != place.bucket {
            self.buckets[at].passed -= 1;
            at = self.after(at);
        }
        self.len -= 1;
        self.buckets[place.bucket].places[place.way] = EMPTY;
        self.close_gap(place.bucket, place.way, slots);
    }

    /// An entry with this home, if there is one.
    fn find_of_home(&self, home: usize, slots: &Slots) -> Option<Place> {
        let mut bucket = home;
        loop {
            let Bucket { places, tags, passed } = &self.buckets[bucket];
            let is_of_home = |(place, tag): (&u32, &u8)| {
                *place != EMPTY
                    && if tag & PASSED_ON == 0 {
                        bucket == home
                    } else {
                        bucket != home && self.home(slots.key(Location::new(*place)).hash()) == home
                    }
            };
            if let Some(way) = places.iter().zip(tags).position(is_of_home) {
                return Some(Place { bucket, way });
            }
            if *passed == 0 {
                return None;
            }
            bucket = self.after(bucket);
        }
    }

    /// Moves passed-on entries back into a place that has become empty.
    fn close_gap(&mut self, mut bucket: usize, mut way: usize, slots: &Slots) {
        while self.buckets[bucket].passed > 0 {
            let Place { bucket: from, way: from_way } = self.nearest_passed_on(bucket, slots);
            let place = core::mem::replace(&mut self.buckets[from].places[from_way], EMPTY);
            self.buckets[bucket].places[way] = place;
            let hash = slots.key(Location::new(place)).hash();
            let is_home = self.home(hash) == bucket;
            self.buckets[bucket].tags[way] = tag(hash) | if is_home { 0 } else { PASSED_ON };
            let mut at = bucket;
            while at != from {
                self.buckets[at].passed -= 1;
                at = self.after(at);
            }
            (bucket, way) = (from, from_way);
        }
    }

    /// The first entry after a bucket with its home in or before the bucket (X-1: there is one).
    fn nearest_passed_on(&self, bucket: usize, slots: &Slots) -> Place {
        let mut at = bucket;
        loop {
            at = self.after(at);
            let distance = self.distance(bucket, at);
            let Bucket { places, tags, .. } = &self.buckets[at];
            let came_over = |(place, tag): (&u32, &u8)| {
                let home = || self.home(slots.key(Location::new(*place)).hash());
                *place != EMPTY && tag & PASSED_ON != 0 && self.distance(home(), at) >= distance
            };
            if let Some(way) = places.iter().zip(tags).position(came_over) {
                return Place { bucket: at, way };
            }
        }
    }

    /// Steps from one bucket to another, around the end.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.buckets.len() - from }
    }
}

/// The tag of an entry in its home.
#[expect(clippy::cast_possible_truncation, reason = "seven bits are the tag")]
const fn tag(hash: u64) -> u8 {
    hash as u8 & !PASSED_ON
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::cache::slots::SlotState;
    use crate::units::{BlockIndex, Checksum, VolumeId};

    fn key(number: u64) -> BlockKey {
        BlockKey::new(VolumeId::new(1), BlockIndex::new(number))
    }

    #[test]
    fn a_full_table_finds_everything() {
        let count = 50_000;
        let mut slots = Slots::new(count);
        let mut index = Index::new(count);
        for number in 0..count {
            let place = Location::new(number);
            slots.fill(place, key(u64::from(number) * 7), Checksum::new(0), SlotState::Clean);
            index.insert(key(u64::from(number) * 7), place);
        }
        for number in 0..count {
            assert_eq!(index.find(key(u64::from(number) * 7), &slots), Some(Location::new(number)));
            assert_eq!(index.find(key(u64::from(number) * 7 + 1), &slots), None);
        }
        for number in 0..count {
            assert!(index.remove(key(u64::from(number) * 7), &slots).is_some());
        }
        assert_eq!(index.len(), 0);
        assert!(index.table.buckets.iter().all(|bucket| bucket.passed == 0), "X-1");
    }

    fn check_tags(index: &Index, slots: &Slots) {
        for table in [&index.table, &index.larger] {
            for (at, bucket) in table.buckets.iter().enumerate() {
                for (place, held) in
                    bucket.places.iter().zip(bucket.tags).filter(|(place, _)| **place != EMPTY)
                {
                    let hash = slots.key(Location::new(*place)).hash();
                    let expected = tag(hash) | if table.home(hash) == at { 0 } else { PASSED_ON };
                    assert_eq!(held, expected, "X-2: bucket {at}");
                }
            }
        }
    }

    fn buckets_of_a_miss(index: &Index, key: BlockKey) -> usize {
        let mut at = index.table.home(key.hash());
        let mut count = 1;
        while index.table.buckets[at].passed > 0 {
            at = index.table.after(at);
            count += 1;
        }
        count
    }

    #[test]
    fn lookups_stay_short_in_a_full_changing_table() {
        let count = 24_000;
        let mut slots = Slots::new(count);
        let mut index = Index::new(count);
        let live = u64::from(count) * 97 / 100;
        for number in 0..live * 8 {
            // Keys are removed in another order than they were added.
            if number >= live {
                let old = number - live;
                let old = (old / live * live) + old % live * 7_919 % live;
                let place = index.remove(key(old), &slots).unwrap();
                slots.fill(place, key(number), Checksum::new(0), SlotState::Clean);
                index.insert(key(number), place);
            } else {
                let place = Location::new(u32::try_from(number).unwrap());
                slots.fill(place, key(number), Checksum::new(0), SlotState::Clean);
                index.insert(key(number), place);
            }
        }
        check_tags(&index, &slots);
        let total: usize = (0..10_000).map(|number| buckets_of_a_miss(&index, key(1 << 30 | number))).sum();
        assert!(total < 60_000, "{total} buckets for 10000 misses");
    }

    struct Model {
        map: BTreeMap<u64, Location>,
        free: Vec<u32>,
    }

    impl Model {
        fn step(
            &mut self,
            number: u64,
            add: bool,
            index: &mut Index,
            slots: &mut Slots,
        ) -> Result<(), TestCaseError> {
            if !add {
                let removed = index.remove(key(number), slots);
                prop_assert_eq!(removed, self.map.remove(&number));
                self.free.extend(removed.map(Location::get));
            } else if !self.map.contains_key(&number)
                && let Some(free) = self.free.pop()
            {
                let place = Location::new(free);
                slots.fill(place, key(number), Checksum::new(0), SlotState::Clean);
                index.insert(key(number), place);
                self.map.insert(number, place);
            }
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn behaves_like_a_map(operations in prop::collection::vec((0u64..60, any::<bool>()), 1..400)) {
            let mut slots = Slots::new(64);
            let mut index = Index::new(64);
            let mut model = Model { map: BTreeMap::new(), free: (0..64).collect() };
            for (number, add) in operations {
                model.step(number, add, &mut index, &mut slots)?;
                check_tags(&index, &slots);
                for number in 0..60 {
                    prop_assert_eq!(index.find(key(number), &slots), model.map.get(&number).copied());
                }
            }
        }

        #[test]
        fn behaves_like_a_map_while_it_grows(
            operations in prop::collection::vec((0u64..90, any::<bool>()), 100..500),
            begin in 0usize..100,
            larger in 64u32..200,
        ) {
            let mut slots = Slots::new(64);
            let mut index = Index::new(64);
            let mut model = Model { map: BTreeMap::new(), free: (0..64).collect() };
            let mut is_growing = false;
            for (step, (number, add)) in operations.into_iter().enumerate() {
                if step == begin {
                    slots.begin_growth(larger).unwrap();
                    assert_eq!(slots.grow(larger), Step::Done);
                    index.begin_growth(larger).unwrap();
                    assert_eq!(index.grow_tables(), Step::Done);
                    is_growing = true;
                } else if is_growing && index.take_over(1, &slots) == Step::Done {
                    is_growing = false;
                    model.free.extend(64..larger);
                }
                model.step(number, add, &mut index, &mut slots)?;
                check_tags(&index, &slots);
                prop_assert_eq!(index.len(), model.map.len() as u64);
                for number in 0..90 {
                    prop_assert_eq!(index.find(key(number), &slots), model.map.get(&number).copied());
                }
            }
        }
    }

    #[test]
    fn a_full_index_grows_in_steps_without_loss() {
        let (old, count) = (300_000, 650_000);
        let mut slots = Slots::new(old);
        let mut index = Index::new(old);
        let fill = |slots: &mut Slots, index: &mut Index, numbers: core::ops::Range<u32>| {
            for number in numbers {
                let (place, key) = (Location::new(number), key(u64::from(number) * 7));
                slots.fill(place, key, Checksum::new(0), SlotState::Clean);
                index.insert(key, place);
            }
        };
        fill(&mut slots, &mut index, 0..old);
        slots.begin_growth(count).unwrap();
        while slots.grow(count) == Step::More {}
        index.begin_growth(count).unwrap();
        let mut steps = 0;
        while index.grow(&slots) == Step::More {
            steps += 1;
            let number = steps * 131 % old;
            assert_eq!(index.find(key(u64::from(number) * 7), &slots), Some(Location::new(number)));
        }
        assert!(steps > 150, "{steps} steps");
        fill(&mut slots, &mut index, old..count);
        let lost = (0..count)
            .find(|number| index.find(key(u64::from(*number) * 7), &slots) != Some(Location::new(*number)));
        assert_eq!((lost, index.len()), (None, count.into()));
        check_tags(&index, &slots);
    }
}
