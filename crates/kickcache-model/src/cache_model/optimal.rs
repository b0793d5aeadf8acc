//! A bound: the most hits of any cache, if it had all future accesses in advance (Belady, 1966).
//!
//! Leaves out time: it is a count over a list of blocks, not a cache model.

use std::collections::{BTreeMap, BTreeSet};

/// Hits of the best possible cache with room for `capacity` blocks.
pub fn hits(accesses: &[u64], capacity: usize) -> u64 {
    let next = next_uses(accesses);
    let mut cached: BTreeSet<(usize, u64)> = BTreeSet::new();
    let mut hits = 0;
    for (at, block) in accesses.iter().enumerate() {
        if cached.remove(&(at, *block)) {
            hits += 1;
        }
        if next[at] < accesses.len() && capacity > 0 {
            cached.insert((next[at], *block));
            if cached.len() > capacity {
                cached.pop_last();
            }
        }
    }
    hits
}

/// For each access, the time at which its block is requested again; the number of accesses if never.
fn next_uses(accesses: &[u64]) -> Vec<usize> {
    let mut next = vec![accesses.len(); accesses.len()];
    let mut seen: BTreeMap<u64, usize> = BTreeMap::new();
    for (at, block) in accesses.iter().enumerate().rev() {
        if let Some(later) = seen.insert(*block, at) {
            next[at] = later;
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_that_is_needed_last_leaves() {
        assert_eq!(hits(&[1, 2, 3, 1, 2, 4, 1, 2, 3], 3), 5);
        assert_eq!(hits(&[1, 2, 3, 1, 2, 3], 2), 2);
        assert_eq!(hits(&[1, 1, 1], 0), 0);
    }
}
