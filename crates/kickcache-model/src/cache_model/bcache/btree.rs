//! The leaves of bcache's btree: when they are written, and how many bytes.
//!
//! Leaves out: inner nodes, the wait for a node's lock, and differences in the number of keys between leaves.

use kickcache_engine::time::{Duration, Instant, earlier};
use kickcache_engine::units::BLOCK_SIZE;

use crate::cache_model::bcache::geometry::{Geometry, KEY_BYTES};

/// Bytes of unwritten keys above which a leaf is written (`bch_btree_leaf_dirty`: `PAGE_SIZE - 48`).
const UNWRITTEN_MAX: u64 = 4096 - 48;
/// A leaf that has been dirty for this long is written (`bch_btree_leaf_dirty`: `30 * HZ`).
const DIRTY_MAX: Duration = Duration::from_millis(30_000);
/// Bytes of a set of keys without its keys (`struct bset`).
const SET_HEADER_BYTES: u64 = 32;

#[derive(Clone, Copy, Debug, Default)]
struct Leaf {
    unwritten_keys: u64,
    dirty_since: Option<Instant>,
    journal_from: u64,
    /// Bytes of the sets in the node's bucket.
    appended: u64,
}

#[derive(Debug)]
pub(super) struct Leaves {
    leaves: Vec<Leaf>,
    blocks_per_leaf: u64,
    node_bytes: u64,
    journal_bytes: u64,
    /// The time at which the next leaf has been dirty for too long, or an earlier one.
    due: Option<Instant>,
}

impl Leaves {
    pub(super) fn new(geometry: Geometry, origin_blocks: u64) -> Leaves {
        let keys = u64::from(geometry.bucket_count) * u64::from(geometry.bucket_blocks());
        let count = geometry.leaf_count(keys.min(origin_blocks));
        Leaves {
            leaves: vec![Leaf::default(); usize::try_from(count).expect("fewer than buckets")],
            blocks_per_leaf: origin_blocks.div_ceil(count).max(1),
            node_bytes: geometry.node_bytes(),
            journal_bytes: geometry.journal_bytes(),
            due: None,
        }
    }

    pub(super) fn insert(&mut self, now: Instant, block: u64, keys: u64, journal: u64) -> Option<u64> {
        let index = usize::try_from(block / self.blocks_per_leaf).expect("blocks are on the origin");
        let leaf = &mut self.leaves[index];
        if leaf.dirty_since.is_none() {
            (leaf.dirty_since, leaf.journal_from) = (Some(now), journal);
            self.due = earlier(self.due, Some(now.plus(DIRTY_MAX)));
        }
        leaf.unwritten_keys += keys;
        (leaf.unwritten_keys * KEY_BYTES > UNWRITTEN_MAX).then(|| leaf.write(self.node_bytes))
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// The bytes of the next leaf that has to be written; `None` if there is none (`btree_flush_write`).
    pub(super) fn poll_write(&mut self, now: Instant, journal: u64) -> Option<u64> {
        let oldest = journal.saturating_sub(self.journal_bytes / 2);
        let is_old = |leaf: &Leaf| {
            leaf.dirty_since.is_some_and(|since| since.plus(DIRTY_MAX) <= now || leaf.journal_from < oldest)
        };
        if let Some(leaf) = self.leaves.iter_mut().find(|leaf| is_old(leaf)) {
            return Some(leaf.write(self.node_bytes));
        }
        self.due = self.leaves.iter().filter_map(|leaf| leaf.dirty_since).min().map(|at| at.plus(DIRTY_MAX));
        None
    }
}

impl Leaf {
    /// Appends a set, and moves to a new bucket if the node is full (`btree_split`).
    fn write(&mut self, node_bytes: u64) -> u64 {
        let set = (SET_HEADER_BYTES + self.unwritten_keys * KEY_BYTES).next_multiple_of(BLOCK_SIZE);
        (self.unwritten_keys, self.dirty_since) = (0, None);
        self.appended += set;
        if self.appended <= node_bytes {
            return set;
        }
        self.appended = (node_bytes * 2 / 3).next_multiple_of(BLOCK_SIZE);
        set + self.appended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn leaves() -> Leaves {
        Leaves::new(Geometry::of(64 * MIB), 512 * MIB / BLOCK_SIZE)
    }

    #[test]
    fn leaf_is_written_once_a_page_of_keys_is_new() {
        let (mut leaves, now) = (leaves(), Instant::ZERO);
        assert!((0..168).all(|_| leaves.insert(now, 7, 1, 0).is_none()));
        assert_eq!(leaves.insert(now, 7, 1, 0), Some(4096));
        assert!(leaves.insert(now, 7, 1, 0).is_none());
    }

    #[test]
    fn dirty_leaf_is_written_after_half_a_minute() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut leaves = leaves();
        leaves.insert(at(10), 7, 1, 0);
        assert_eq!(leaves.poll_timeout(), Some(at(30_010)));
        assert_eq!(leaves.poll_write(at(30_009), 0), None);
        assert_eq!((leaves.poll_write(at(30_010), 0), leaves.poll_write(at(30_010), 0)), (Some(4096), None));
    }

    #[test]
    fn full_journal_writes_the_leaves_of_its_oldest_entries() {
        let (mut leaves, now) = (leaves(), Instant::ZERO);
        leaves.insert(now, 7, 1, 1000);
        assert_eq!(leaves.poll_write(now, 1000), None);
        assert_eq!(leaves.poll_write(now, 1001 + Geometry::of(64 * MIB).journal_bytes()), Some(4096));
    }
}
