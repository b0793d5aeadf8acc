//! Requests of a volume in a report, and their times.

use serde::{Deserialize, Serialize};

/// The requests of a span of time that ended well.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// The length of the span in seconds.
    pub seconds: f64,
    /// Reads a second.
    pub reads_per_second: f64,
    /// Writes a second.
    pub writes_per_second: f64,
    /// Bytes read a second.
    pub read_bytes_per_second: f64,
    /// Bytes written a second.
    pub write_bytes_per_second: f64,
    /// Reads that the cache served alone.
    pub hits: RequestLatency,
    /// Reads that used the origin, in whole or in part.
    pub misses: RequestLatency,
    /// Writes.
    pub writes: RequestLatency,
    /// Flushes.
    pub flushes: RequestLatency,
}

/// Requests of one kind that ended well.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestLatency {
    /// The number of requests.
    pub count: u64,
    /// The average time of these requests, in milliseconds.
    pub mean_ms: f64,
    /// The time within which 99 of 100 ended, in milliseconds.
    pub p99_ms: f64,
}

impl Activity {
    /// All reads that ended well, no matter which device served them.
    pub fn reads(&self) -> u64 {
        self.hits.count + self.misses.count
    }

    /// The average time of all reads, in milliseconds; 0 without reads.
    pub fn read_mean_ms(&self) -> f64 {
        let total: f64 = [&self.hits, &self.misses].iter().map(|took| took.count as f64 * took.mean_ms).sum();
        total / (self.reads().max(1)) as f64
    }
}
