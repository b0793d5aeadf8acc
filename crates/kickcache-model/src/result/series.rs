//! Amounts over time, summed up in intervals of one length.

use kickcache_engine::time::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// The default length of an interval, in nanoseconds.
const INTERVAL: u64 = 1_000_000_000;
/// Most intervals of a series; when a run lasts longer, they double in length.
const LENGTH_MAX: usize = 8_192;

/// A sum for each interval since the start of the run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Series {
    interval_nanos: u64,
    values: Vec<u64>,
}

impl Default for Series {
    fn default() -> Series {
        Series { interval_nanos: INTERVAL, values: Vec::new() }
    }
}

impl Series {
    pub fn new(interval: Duration) -> Series {
        Series { interval_nanos: interval.as_nanos().max(1), values: Vec::new() }
    }

    pub fn with_values(interval: Duration, values: Vec<u64>) -> Series {
        Series { values, ..Series::new(interval) }
    }

    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval_nanos)
    }

    /// The sums, one an interval; intervals behind the last amount are missing.
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    pub fn total(&self) -> u64 {
        self.values.iter().sum()
    }

    pub fn add(&mut self, at: Instant, amount: u64) {
        let index = self.reach(at.as_nanos());
        self.values[index] += amount;
    }

    /// Adds the nanoseconds from one point to a later one, each to its interval.
    pub fn add_span(&mut self, from: Instant, to: Instant) {
        let (mut at, end) = (from.as_nanos(), to.as_nanos());
        if at >= end {
            return;
        }
        self.reach(end - 1);
        while at < end {
            let index = self.reach(at);
            let next = (at / self.interval_nanos + 1).saturating_mul(self.interval_nanos).min(end);
            self.values[index] += next - at;
            at = next;
        }
    }

    fn reach(&mut self, nanos: u64) -> usize {
        while nanos / self.interval_nanos >= LENGTH_MAX as u64 {
            self.double();
        }
        let index = usize::try_from(nanos / self.interval_nanos).expect("below the greatest length");
        if index >= self.values.len() {
            self.values.resize(index + 1, 0);
        }
        index
    }

    fn double(&mut self) {
        self.values = self.values.chunks(2).map(|pair| pair.iter().sum()).collect();
        self.interval_nanos = self.interval_nanos.saturating_mul(2);
    }

    /// The sums of both series, in the longer of their intervals; the interval of an empty series does not count.
    #[must_use]
    pub fn merged(&self, other: &Series) -> Series {
        if other.values.is_empty() {
            return self.clone();
        }
        if self.values.is_empty() {
            return other.clone();
        }
        let interval = Duration::from_nanos(self.interval_nanos.max(other.interval_nanos));
        let mut sum = Series::new(interval);
        for series in [self, other] {
            for (index, value) in (0..).zip(&series.values) {
                sum.add(Instant::from_nanos(index * series.interval_nanos), *value);
            }
        }
        sum
    }

    #[expect(clippy::cast_precision_loss, reason = "amounts of an interval are far below 2^53")]
    pub fn rates(&self) -> Vec<f64> {
        self.values.iter().map(|value| *value as f64 * 1e9 / self.interval_nanos as f64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_shared_out_between_intervals() {
        let mut series = Series::new(Duration::from_nanos(10));
        series.add_span(Instant::from_nanos(5), Instant::from_nanos(27));
        assert_eq!(series.values(), [5, 10, 7]);
        series.add_span(Instant::from_nanos(7), Instant::from_nanos(7));
        assert_eq!(series.total(), 22);
    }

    #[test]
    fn a_long_run_gets_longer_intervals_without_loss() {
        let mut series = Series::new(Duration::from_nanos(1));
        (0..100_000).for_each(|at| series.add(Instant::from_nanos(at), 1));
        assert!(series.values().len() <= LENGTH_MAX);
        assert_eq!(series.interval(), Duration::from_nanos(16));
        assert_eq!(series.total(), 100_000);
    }

    #[test]
    fn series_of_different_intervals_are_merged_in_the_longer_one() {
        let fine = Series::with_values(Duration::from_nanos(1), vec![1, 2, 3]);
        let coarse = Series::with_values(Duration::from_nanos(2), vec![10, 20]);
        assert_eq!(fine.merged(&coarse).values(), [13, 23]);
    }
}
