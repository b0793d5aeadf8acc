//! Ghost memory: 16-bit fingerprints of dropped or rejected blocks, the oldest of a set removed first. About half of
//! the memory can count misses instead.
//!
//! A set-associative table: the upper half of a block's hash chooses a set of 31 fingerprints, which is a ring. A false
//! match makes an unknown block count as a known one.
//!
//! While it counts, a set has 15 fingerprints and 128 counters of two bits, two counters for each block. A block's
//! count is the lesser of its counters, and a greater one is not incremented (Estan and Varghese, *New Directions in
//! Traffic Measurement and Accounting*, SIGCOMM 2002).

mod set;

use alloc::vec;
use alloc::vec::Vec;

pub(crate) use crate::policy::ghost::set::{COUNT_MAX, Content, TURNS_ALL};
use crate::policy::ghost::set::{Set, TURNS, WAYS};
use crate::step::Step;

#[derive(Clone, Debug)]
pub(crate) struct Ghost {
    sets: Vec<Set>,
    /// The sets that replace the present ones after growth.
    larger: Vec<Set>,
    /// The number of sets after growth.
    wanted: usize,
    content: Content,
    turn: u16,
}

/// The most sets that one step of growth makes.
const MADE_AT_ONCE: usize = 8_192;

fn set_count(count: u64) -> usize {
    usize::try_from(count.div_ceil(WAYS as u64).max(1)).expect("fits the address space")
}

impl Ghost {
    pub(crate) fn new(count: u64) -> Ghost {
        let sets = vec![Set::empty(); set_count(count)];
        Ghost { sets, larger: Vec::new(), wanted: 0, content: Content::Prints, turn: 0 }
    }

    /// Begins to make room for more blocks; `None` if there is no memory.
    pub(crate) fn begin_growth(&mut self, count: u64) -> Option<()> {
        self.wanted = set_count(count).max(self.sets.len());
        self.larger.clear();
        self.larger.try_reserve_exact(self.wanted).ok()
    }

    /// The sets are in the order of the hashes: a new set begins as a copy of the old set with its first hashes.
    pub(crate) fn grow(&mut self) -> Step {
        let end = self.wanted.min(self.larger.len() + MADE_AT_ONCE);
        for set in self.larger.len()..end {
            self.larger.push(self.sets[set * self.sets.len() / self.wanted].clone());
        }
        if end < self.wanted { Step::More } else { Step::Done }
    }

    pub(crate) fn use_grown(&mut self) {
        self.sets = core::mem::take(&mut self.larger);
        self.wanted = 0;
    }

    pub(crate) fn clear(&mut self) {
        self.sets.fill(Set::empty());
    }

    pub(crate) const fn change(&mut self, content: Content) {
        self.content = content;
    }

    /// Some turns pass: counts decrease by one in each, down to zero.
    pub(crate) const fn pass(&mut self, turns: u16) {
        self.turn = (self.turn + turns) % TURNS;
    }

    /// Counts a block; returns its count, at most [`COUNT_MAX`].
    pub(crate) fn count(&mut self, hash: u64) -> u8 {
        self.set(hash).count(hash)
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        ((self.sets.len() + self.larger.len()) * size_of::<Set>()) as u64
    }

    fn set(&mut self, hash: u64) -> &mut Set {
        let scaled = (hash >> 32) * self.sets.len() as u64;
        let set = &mut self.sets[usize::try_from(scaled >> 32).expect("below the number of sets")];
        set.come_to(self.turn, self.content);
        set
    }

    pub(crate) fn insert(&mut self, hash: u64) {
        self.set(hash).insert(hash);
    }

    /// Ages of entries are below this.
    pub(crate) const AGE_MAX: usize = WAYS;

    /// Removes the block, if it is there, and returns its age: the number of later insertions into its set.
    pub(crate) fn take(&mut self, hash: u64) -> Option<usize> {
        self.set(hash).take(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{BlockIndex, BlockKey, VolumeId};

    fn key(number: u64) -> u64 {
        BlockKey::new(VolumeId::new(0), BlockIndex::new(number)).hash()
    }

    #[test]
    fn the_young_stay_and_the_old_expire() {
        let mut ghost = Ghost::new(3_100);
        (0..10_000).for_each(|number| ghost.insert(key(number)));
        let young = (8_000..10_000).filter(|number| ghost.take(key(*number)).is_some()).count();
        let old = (0..2_000).filter(|number| ghost.take(key(*number)).is_some()).count();
        assert!(young > 1_950, "{young}");
        assert!(old < 60, "{old}");
        assert_eq!(ghost.take(key(9_999)), None, "taken once already");
    }

    #[test]
    fn a_grown_list_keeps_its_entries() {
        for larger in [3_200, 6_200, 40_000] {
            let mut ghost = Ghost::new(3_100);
            (0..2_000).for_each(|number| ghost.insert(key(number)));
            ghost.begin_growth(larger).unwrap();
            while ghost.grow() == Step::More {}
            ghost.use_grown();
            let known = (0..2_000).filter(|number| ghost.take(key(*number)).is_some()).count();
            assert!(known > if larger == 3_200 { 900 } else { 1_300 }, "{known} of {larger}");
            let strangers = (10_000..20_000).filter(|number| ghost.take(key(*number)).is_some()).count();
            assert!(strangers < 20, "{strangers}");
        }
    }

    #[test]
    fn the_age_of_a_block_is_stored() {
        let mut ghost = Ghost::new(3_100);
        (0..3_000).for_each(|number| ghost.insert(key(number)));
        let mean = |ghost: &mut Ghost, from: u64| {
            let ages: Vec<usize> = (from..from + 300).filter_map(|number| ghost.take(key(number))).collect();
            ages.iter().sum::<usize>() / ages.len()
        };
        assert!(mean(&mut ghost, 2_700) < 4);
        assert!((13..17).contains(&mean(&mut ghost, 1_400)));
    }

    #[test]
    fn counts_are_close_lower_bounds() {
        let mut ghost = Ghost::new(3_100);
        ghost.change(Content::PrintsAndCounts);
        let mut count = |number| ghost.count(key(number));
        for times in 1..=COUNT_MAX {
            assert!((0..2_000).all(|number| count(number) >= times));
        }
        assert_eq!(count(0), COUNT_MAX);
        let counts: Vec<u8> = (100_000..102_000).map(count).collect();
        let wrong = counts.iter().filter(|count| **count > 1).count();
        assert!(wrong < 700, "{wrong} of 2,000 others, with 4,000 in 12,800 counters");
    }

    #[test]
    fn counts_decrease_by_one_each_turn_for_three_turns() {
        let mut ghost = Ghost::new(3_100);
        ghost.change(Content::PrintsAndCounts);
        let thrice = |ghost: &mut Ghost| (0..3).for_each(|_| _ = ghost.count(key(1)));
        thrice(&mut ghost);
        ghost.pass(1);
        assert_eq!(ghost.count(key(1)), 3);
        ghost.pass(2);
        assert_eq!(ghost.count(key(1)), 2);
        thrice(&mut ghost);
        ghost.pass(TURNS_ALL);
        assert_eq!(ghost.count(key(1)), 1);
    }

    #[test]
    fn the_newest_prints_survive_changes_of_counting() {
        let mut ghost = Ghost::new(3_100);
        (0..6_000).for_each(|number| ghost.insert(key(number)));
        ghost.change(Content::PrintsAndCounts);
        (0..6_000).for_each(|number| _ = ghost.count(key(number)));
        let known = |ghost: &Ghost, numbers: core::ops::Range<u64>| {
            let mut ghost = ghost.clone();
            numbers.filter(|number| ghost.take(key(*number)).is_some()).count()
        };
        assert!(known(&ghost, 5_000..6_000) > 900, "{}", known(&ghost, 5_000..6_000));
        assert!(known(&ghost, 3_000..4_000) < 100, "{}", known(&ghost, 3_000..4_000));
        (6_000..7_000).for_each(|number| ghost.insert(key(number)));
        let before = known(&ghost, 5_800..7_000);
        ghost.change(Content::Prints);
        assert_eq!(known(&ghost, 5_800..7_000), before);
        assert!(before > 1_000, "{before}");
        let strangers = known(&ghost, 10_000..20_000);
        assert!(strangers < 20, "{strangers}: counts are no prints");
        (7_000..8_000).for_each(|number| ghost.insert(key(number)));
        assert!(known(&ghost, 6_000..8_000) > 1_900);
        let ages: Vec<usize> = (7_900..8_000).filter_map(|number| ghost.take(key(number))).collect();
        assert!(ages.iter().sum::<usize>() / ages.len() < 3);
        ghost.clear();
        assert_eq!(known(&ghost, 0..8_000), 0);
    }
}
