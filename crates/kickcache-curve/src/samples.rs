//! The blocks of the sample: a hash table with open addressing, from a block's hash to its slot.
//!
//! A hash identifies its block, as different blocks have different hashes.

/// No hash of a sample: samples are below a threshold that is at most this.
const EMPTY: u64 = u64::MAX;
const _: () = assert!(EMPTY.wrapping_add(1) == 0, "an empty place is below every threshold");

#[derive(Clone, Debug)]
pub(crate) struct Samples {
    hashes: Vec<u64>,
    slots: Vec<u32>,
    count: usize,
    mask: usize,
}

impl Samples {
    pub(crate) fn new(most: u32) -> Samples {
        let room = (most as usize * 4 / 3 + 1).next_power_of_two().max(8);
        Samples { hashes: vec![EMPTY; room], slots: vec![0; room], count: 0, mask: room - 1 }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<u64>() + self.slots.capacity() * size_of::<u32>()
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The preferred place of a hash, by its low bits: once the threshold is low, the high bits are 0 in all samples.
    #[expect(clippy::cast_possible_truncation, reason = "the mask is smaller")]
    fn home(&self, hash: u64) -> usize {
        hash as usize & self.mask
    }

    /// The place of a hash, or the free place where it belongs.
    fn place(&self, hash: u64) -> usize {
        let mut place = self.home(hash);
        while self.hashes[place] != hash && self.hashes[place] != EMPTY {
            place = (place + 1) & self.mask;
        }
        place
    }

    pub(crate) fn slot_mut(&mut self, hash: u64) -> Option<&mut u32> {
        let place = self.place(hash);
        (self.hashes[place] == hash).then(|| &mut self.slots[place])
    }

    /// Adds a new sample; the table must have room.
    pub(crate) fn insert(&mut self, hash: u64, slot: u32) {
        let place = self.place(hash);
        debug_assert!(self.hashes[place] == EMPTY && hash != EMPTY, "a new sample");
        self.hashes[place] = hash;
        self.slots[place] = slot;
        self.count += 1;
    }

    /// Removes all samples with a hash of at least `threshold` and passes their slots to `removed`.
    pub(crate) fn remove_from(&mut self, threshold: u64, mut removed: impl FnMut(u32)) {
        for place in 0..self.hashes.len() {
            // Another sample may move up to this place. This comparison also excludes empty places.
            while self.hashes[place].wrapping_add(1) > threshold {
                removed(self.slots[place]);
                self.free(place);
                self.count -= 1;
            }
        }
    }

    /// Empties a place, and closes the gap at which look-ups would stop.
    fn free(&mut self, place: usize) {
        let mut hole = place;
        let mut next = (hole + 1) & self.mask;
        while self.hashes[next] != EMPTY {
            let away = next.wrapping_sub(self.home(self.hashes[next])) & self.mask;
            if away >= next.wrapping_sub(hole) & self.mask {
                self.hashes[hole] = self.hashes[next];
                self.slots[hole] = self.slots[next];
                hole = next;
            }
            next = (next + 1) & self.mask;
        }
        self.hashes[hole] = EMPTY;
    }

    pub(crate) fn slots_mut(&mut self) -> impl Iterator<Item = &mut u32> {
        let taken = self.hashes.iter().map(|hash| *hash != EMPTY);
        self.slots.iter_mut().zip(taken).filter_map(|(slot, is_taken)| is_taken.then_some(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn a_sample_is_found_until_it_is_removed(hashes in prop::collection::vec(0_u64..64, 1..900)) {
            let mut samples = Samples::new(20);
            let mut model: BTreeMap<u64, u32> = BTreeMap::new();
            for (slot, hash) in (0_u32..).zip(hashes) {
                match (samples.slot_mut(hash), model.get_mut(&hash)) {
                    (Some(found), Some(expected)) => {
                        prop_assert_eq!(*found, *expected);
                        (*found, *expected) = (slot, slot);
                    }
                    (None, None) => {
                        samples.insert(hash, slot);
                        model.insert(hash, slot);
                    }
                    (found, expected) => prop_assert!(false, "{found:?} {expected:?}"),
                }
                if samples.len() == 20 {
                    let threshold = *model.keys().nth(13).unwrap();
                    let gone = model.split_off(&threshold);
                    let mut removed = Vec::new();
                    samples.remove_from(threshold, |slot| removed.push(slot));
                    removed.sort_unstable();
                    let mut expected: Vec<u32> = gone.into_values().collect();
                    expected.sort_unstable();
                    prop_assert_eq!(removed, expected);
                }
                prop_assert_eq!(samples.len(), model.len());
                let mut slots: Vec<u32> = samples.slots_mut().map(|slot| *slot).collect();
                let mut expected: Vec<u32> = model.values().copied().collect();
                slots.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(slots, expected);
            }
        }
    }
}
