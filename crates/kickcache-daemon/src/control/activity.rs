//! Requests of a volume in a report, and their times.

use serde::{Deserialize, Serialize};

/// The requests of a span of time that ended well.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    pub seconds: f64,
    pub reads_per_second: f64,
    pub writes_per_second: f64,
    pub read_bytes_per_second: f64,
    pub write_bytes_per_second: f64,
    /// Reads that the cache served alone.
    pub hits: RequestLatency,
    /// Reads that used the origin, in whole or in part.
    pub misses: RequestLatency,
    pub writes: RequestLatency,
    pub flushes: RequestLatency,
}

/// Requests of one kind that ended well.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestLatency {
    pub count: u64,
    pub mean_ms: f64,
    /// The time within which about 99 of 100 ended, in milliseconds.
    pub p99_ms: f64,
}

impl Activity {
    pub fn reads(&self) -> u64 {
        self.hits.count + self.misses.count
    }

    /// The average time of all reads, in milliseconds; 0 without reads.
    pub fn read_mean_ms(&self) -> f64 {
        let total: f64 = [&self.hits, &self.misses].iter().map(|took| took.count as f64 * took.mean_ms).sum();
        total / (self.reads().max(1)) as f64
    }
}
