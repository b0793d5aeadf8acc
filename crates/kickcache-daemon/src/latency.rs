//! Counts of requests by latency, in fixed buckets.

use serde::{Deserialize, Serialize};

/// The upper bounds of the buckets, inclusive, in microseconds; a last bucket counts all longer times.
pub const BOUNDS_MICROS: [u64; 19] = [
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];
const BUCKET_COUNT: usize = BOUNDS_MICROS.len() + 1;

/// The times of requests of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LatencyHistogram {
    pub counts: [u64; BUCKET_COUNT],
    pub total_nanos: u64,
}

/// The times of a volume's requests that ended well since the volume was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Latencies {
    pub hits: LatencyHistogram,
    /// Reads that used the origin, in whole or in part.
    pub misses: LatencyHistogram,
    pub writes: LatencyHistogram,
    pub flushes: LatencyHistogram,
}

impl LatencyHistogram {
    #[inline]
    pub fn add(&mut self, nanos: u64) {
        let bucket = BOUNDS_MICROS.partition_point(|bound| bound * 1_000 < nanos);
        self.counts[bucket] += 1;
        self.total_nanos = self.total_nanos.saturating_add(nanos);
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_counts_times_up_to_its_bound() {
        let mut histogram = LatencyHistogram::default();
        for nanos in [0, 10_000, 10_001, 10_000_000_000, 10_000_000_001, u64::MAX] {
            histogram.add(nanos);
        }
        let found = |bucket: usize| histogram.counts[bucket];
        assert_eq!((found(0), found(1), found(18), found(19), histogram.count()), (2, 1, 1, 2, 6));
    }
}
