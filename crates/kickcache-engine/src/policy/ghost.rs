//! Ghost memory: 16-bit fingerprints of blocks that left, oldest forgotten first.
//!
//! A set-associative table: a block's hash, its upper half, chooses a set of 31 fingerprints, which is a ring. A false match (1 in
//! 2,000 look-ups of a full table) only places a block in the other queue.

use alloc::vec;
use alloc::vec::Vec;

const WAYS: usize = 31;

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Set {
    prints: [u16; WAYS],
    next: u16,
}

const _: () = assert!(size_of::<Set>() == 64);

/// Remembers about as many blocks as it was made for.
#[derive(Debug)]
pub(crate) struct Ghost {
    sets: Vec<Set>,
}

impl Ghost {
    pub(crate) fn new(count: u64) -> Ghost {
        let sets = count.div_ceil(WAYS as u64).max(1);
        let empty = Set { prints: [0; WAYS], next: 0 };
        Ghost { sets: vec![empty; usize::try_from(sets).expect("fits the address space")] }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.sets.fill(Set { prints: [0; WAYS], next: 0 });
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.sets.len() * size_of::<Set>()) as u64
    }

    fn set(&mut self, hash: u64) -> &mut Set {
        let scaled = (hash >> 32) * self.sets.len() as u64;
        &mut self.sets[usize::try_from(scaled >> 32).expect("below the number of sets")]
    }

    pub(crate) fn insert(&mut self, hash: u64) {
        let set = self.set(hash);
        set.prints[usize::from(set.next)] = fingerprint(hash);
        set.next = if usize::from(set.next) + 1 == WAYS { 0 } else { set.next + 1 };
    }

    /// The age at which everything is forgotten.
    pub(crate) const AGE_MAX: usize = WAYS;

    /// How long ago the block was inserted, if it is remembered; it is forgotten by that. An age of [`Ghost::AGE_MAX`]
    /// is as many inserted blocks as are remembered.
    pub(crate) fn take(&mut self, hash: u64) -> Option<usize> {
        let print = fingerprint(hash);
        let set = self.set(hash);
        let found = set.prints.iter().position(|held| *held == print)?;
        set.prints[found] = 0;
        Some((usize::from(set.next) + WAYS - 1 - found) % WAYS)
    }
}

/// Zero stands for "empty".
#[expect(clippy::cast_possible_truncation, reason = "the low 16 bits are the fingerprint")]
const fn fingerprint(hash: u64) -> u16 {
    let print = hash as u16;
    if print == 0 { 1 } else { print }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{BlockIndex, BlockKey, VolumeId};

    fn key(number: u64) -> u64 {
        BlockKey::new(VolumeId::new(0), BlockIndex::new(number)).hash()
    }

    #[test]
    fn remembers_the_young_and_forgets_the_old() {
        let mut ghost = Ghost::new(3_100);
        (0..10_000).for_each(|number| ghost.insert(key(number)));
        let young = (8_000..10_000).filter(|number| ghost.take(key(*number)).is_some()).count();
        let old = (0..2_000).filter(|number| ghost.take(key(*number)).is_some()).count();
        assert!(young > 1_950, "{young}");
        assert!(old < 60, "{old}");
        assert_eq!(ghost.take(key(9_999)), None, "taken once already");
    }

    #[test]
    fn knows_how_old_a_block_is() {
        let mut ghost = Ghost::new(3_100);
        (0..3_000).for_each(|number| ghost.insert(key(number)));
        let mean = |ghost: &mut Ghost, from: u64| {
            let ages: Vec<usize> = (from..from + 300).filter_map(|number| ghost.take(key(number))).collect();
            ages.iter().sum::<usize>() / ages.len()
        };
        assert!(mean(&mut ghost, 2_700) < 4);
        assert!((13..17).contains(&mean(&mut ghost, 1_400)));
    }
}
