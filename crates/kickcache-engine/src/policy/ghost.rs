//! Ghost memory: 16-bit fingerprints of blocks that left, oldest forgotten first.
//!
//! A set-associative table: a block's hash, its upper half, chooses a set of 31 fingerprints, which is a ring. A false match (1 in
//! 2,000 look-ups of a full table) only places a block in the other queue.

use alloc::vec;
use alloc::vec::Vec;

use crate::step::Step;

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
    /// Take over while it grows; else none.
    larger: Vec<Set>,
    /// Sets that it is to have then.
    wanted: usize,
}

/// Sets that are made at once when it grows.
const MADE_AT_ONCE: usize = 8_192;

fn set_count(count: u64) -> usize {
    usize::try_from(count.div_ceil(WAYS as u64).max(1)).expect("fits the address space")
}

impl Ghost {
    pub(crate) fn new(count: u64) -> Ghost {
        let empty = Set { prints: [0; WAYS], next: 0 };
        Ghost { sets: vec![empty; set_count(count)], larger: Vec::new(), wanted: 0 }
    }

    /// Begins to make room for more blocks; `None` if there is no memory.
    pub(crate) fn begin_growth(&mut self, count: u64) -> Option<()> {
        self.wanted = set_count(count).max(self.sets.len());
        self.larger.clear();
        self.larger.try_reserve_exact(self.wanted).ok()
    }

    /// A part of that. The sets follow the order of hashes: a set begins with what the one has that had its hashes.
    pub(crate) fn grow(&mut self) -> Step {
        let end = self.wanted.min(self.larger.len() + MADE_AT_ONCE);
        for set in self.larger.len()..end {
            self.larger.push(self.sets[set * self.sets.len() / self.wanted].clone());
        }
        if end < self.wanted { Step::More } else { Step::Done }
    }

    /// Room was made: it is used from here on.
    pub(crate) fn use_grown(&mut self) {
        self.sets = core::mem::take(&mut self.larger);
        self.wanted = 0;
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.sets.fill(Set { prints: [0; WAYS], next: 0 });
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        ((self.sets.len() + self.larger.len()) * size_of::<Set>()) as u64
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
    fn remembers_what_it_did_when_it_has_grown() {
        for larger in [3_200, 6_200, 40_000] {
            let mut ghost = Ghost::new(3_100);
            (0..2_000).for_each(|number| ghost.insert(key(number)));
            ghost.begin_growth(larger).unwrap();
            while ghost.grow() == Step::More {}
            ghost.use_grown();
            let known = (0..2_000).filter(|number| ghost.take(key(*number)).is_some()).count();
            // Where a set spans two of before, what the second had is forgotten.
            assert!(known > if larger == 3_200 { 900 } else { 1_300 }, "{known} of {larger}");
            let strangers = (10_000..20_000).filter(|number| ghost.take(key(*number)).is_some()).count();
            assert!(strangers < 20, "{strangers}");
        }
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
