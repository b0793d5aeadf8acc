//! The sizes in a bcache that follow from the size of its device.
//!
//! Functions in brackets are in `drivers/md/bcache`, constants are from Linux 6.6.

use kickcache_engine::units::BLOCK_SIZE;

/// Bytes of a bucket by default (`make-bcache`: 1024 sectors).
const BUCKET_BYTES_MAX: u64 = 512 << 10;
/// The kernel refuses a device of fewer buckets (`cache_alloc`: "nbuckets is too small").
const BUCKETS_MIN: u64 = 513;
/// Bytes of a btree node at most, where a bucket has no more than four times as many (`BTREE_MAX_PAGES`).
const NODE_BYTES_MAX: u64 = 256 << 10;
/// Bytes of a key with one pointer (`struct bkey`, `KEY_PTRS` 1).
pub(super) const KEY_BYTES: u64 = 24;
/// Bytes of a bucket's priority and generation (`struct bucket_disk`).
const PRIORITY_BYTES: u64 = 3;
/// Bytes in a bucket of priorities that hold none (`struct prio_set`).
const PRIORITY_HEADER_BYTES: u64 = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Geometry {
    pub(super) bucket_bytes: u64,
    pub(super) bucket_count: u32,
}

impl Geometry {
    /// The default bucket, or a smaller one if the device holds too few: `make-bcache --bucket`.
    pub(super) fn of(cache_bytes: u64) -> Geometry {
        let mut bucket_bytes = BUCKET_BYTES_MAX;
        while bucket_bytes > BLOCK_SIZE && cache_bytes / bucket_bytes < BUCKETS_MIN {
            bucket_bytes /= 2;
        }
        let bucket_count = u32::try_from(cache_bytes / bucket_bytes).expect("at most 2^32 buckets");
        Geometry { bucket_bytes, bucket_count }
    }

    pub(super) fn bucket_blocks(self) -> u32 {
        u32::try_from(self.bucket_bytes / BLOCK_SIZE).expect("at most 128")
    }

    /// Buckets that stay in reserve while others are prepared (`RESERVE_NONE` in `cache_alloc`).
    pub(super) fn reserve(self) -> usize {
        (self.bucket_count.next_power_of_two() as usize >> 10).max(1)
    }

    /// Buckets that are prepared at a time (`free_inc` in `cache_alloc`).
    pub(super) fn prepared_max(self) -> usize {
        self.reserve() * 4
    }

    /// Bytes of all priorities and generations: whole buckets (`prio_io`).
    pub(super) fn priority_bytes(self) -> u64 {
        let in_bucket = self.bucket_bytes.saturating_sub(PRIORITY_HEADER_BYTES) / PRIORITY_BYTES;
        u64::from(self.bucket_count).div_ceil(in_bucket) * self.bucket_bytes
    }

    /// Bytes of the journal: a 128th of the buckets, 2 to 256 (`SB_JOURNAL_BUCKETS`, `run_cache_set`).
    pub(super) fn journal_bytes(self) -> u64 {
        u64::from((self.bucket_count / 128).clamp(2, 256)) * self.bucket_bytes
    }

    pub(super) fn node_bytes(self) -> u64 {
        self.bucket_bytes.min(NODE_BYTES_MAX)
    }

    /// Leaves that hold this many keys: a node that was split is about two thirds full (`btree_split`).
    pub(super) fn leaf_count(self, keys: u64) -> u64 {
        keys.div_ceil(self.node_bytes() / KEY_BYTES * 2 / 3).max(1)
    }

    pub(super) fn fixed_buckets(self) -> u64 {
        (self.journal_bytes() + 2 * self.priority_bytes()) / self.bucket_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_devices_have_small_buckets() {
        let sizes = |cache_bytes| {
            let geometry = Geometry::of(cache_bytes);
            (geometry.bucket_bytes >> 10, geometry.bucket_count, geometry.priority_bytes() >> 10)
        };
        assert_eq!(sizes(32 << 20), (32, 1024, 32));
        assert_eq!(sizes(256 << 20), (256, 1024, 256));
        assert_eq!(sizes(1 << 30), (512, 2048, 512));
        assert_eq!(sizes(1 << 40), (512, 2 << 20, 13 * 512));
    }
}
