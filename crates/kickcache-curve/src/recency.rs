//! In which order things were last used, and how many were used since a given one: order statistics.
//!
//! A bit marks an occupied slot, a Fenwick tree counts the bits of whole words.

const WORD: u32 = 64;
const SLOTS_PER_THING: u32 = 4;

#[derive(Clone, Debug)]
pub(crate) struct Recency {
    taken: Vec<u64>,
    /// Fenwick tree over the words: `tree[i]` counts the bits of the words from `i & (i + 1)` to `i`.
    tree: Vec<u32>,
    next: u32,
    count: u32,
}

impl Recency {
    /// An order with room for this many things.
    pub(crate) fn new(things: u32) -> Recency {
        let words = (things * SLOTS_PER_THING).div_ceil(WORD) as usize;
        Recency { taken: vec![0; words], tree: vec![0; words], next: 0, count: 0 }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.taken.capacity() * size_of::<u64>() + self.tree.capacity() * size_of::<u32>()
    }

    /// Whether no slot is left.
    pub(crate) fn is_full(&self) -> bool {
        self.next as usize == self.taken.len() * WORD as usize
    }

    /// Takes the next slot; the slots must not be full.
    pub(crate) fn push(&mut self) -> u32 {
        assert!(!self.is_full(), "slots are renumbered first");
        let slot = self.next;
        self.next += 1;
        self.count += 1;
        self.taken[(slot / WORD) as usize] |= 1 << (slot % WORD);
        let mut node = (slot / WORD) as usize;
        while let Some(sum) = self.tree.get_mut(node) {
            *sum += 1;
            node |= node + 1;
        }
        slot
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        let bit = 1 << (slot % WORD);
        debug_assert!(self.taken[(slot / WORD) as usize] & bit != 0, "the slot is occupied");
        self.taken[(slot / WORD) as usize] &= !bit;
        self.count -= 1;
        let mut node = (slot / WORD) as usize;
        while let Some(sum) = self.tree.get_mut(node) {
            *sum -= 1;
            node |= node + 1;
        }
    }

    /// The number of occupied slots below this slot.
    pub(crate) fn rank(&self, slot: u32) -> u32 {
        let mut end = (slot / WORD) as usize;
        let mut rank = (self.taken[end] & ((1 << (slot % WORD)) - 1)).count_ones();
        while end > 0 {
            rank += self.tree[end - 1];
            end &= end - 1;
        }
        rank
    }

    /// The number of occupied slots above this occupied slot.
    pub(crate) fn above(&self, slot: u32) -> u32 {
        self.count - 1 - self.rank(slot)
    }

    /// Renumbers the slots: the new slot of each thing is its rank.
    pub(crate) fn renumber(&mut self) {
        let whole = (self.count / WORD) as usize;
        self.taken.fill(0);
        self.taken[..whole].fill(u64::MAX);
        self.taken[whole] = (1 << (self.count % WORD)) - 1;
        for node in 0..self.tree.len() {
            let first = node & (node + 1);
            self.tree[node] = self.taken[first..=node].iter().map(|word| word.count_ones()).sum();
        }
        self.next = self.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranks_are_those_of_a_list(uses in prop::collection::vec(0_usize..40, 1..900)) {
            let mut recency = Recency::new(40);
            let mut slots: [Option<u32>; 40] = [None; 40];
            let mut order: Vec<usize> = Vec::new();
            for thing in uses {
                if recency.is_full() {
                    slots.iter_mut().flatten().for_each(|slot| *slot = recency.rank(*slot));
                    recency.renumber();
                }
                if let Some(slot) = slots[thing] {
                    let since = order.iter().rev().position(|other| *other == thing).unwrap();
                    prop_assert_eq!(recency.above(slot) as usize, since);
                    recency.remove(slot);
                    order.retain(|other| *other != thing);
                }
                slots[thing] = Some(recency.push());
                order.push(thing);
            }
        }
    }
}
