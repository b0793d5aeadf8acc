//! A histogram of latencies that is stored as its counts.

use hdrhistogram::Histogram;
use kickcache_engine::time::Duration;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const DIGITS: u8 = 3;

/// Latencies in nanoseconds, to three digits.
#[derive(Clone, PartialEq, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies(Histogram::new(DIGITS).expect("three digits are allowed"))
    }
}

impl Latencies {
    pub fn record(&mut self, latency: Duration) {
        self.record_many(latency, 1);
    }

    pub fn record_many(&mut self, latency: Duration, count: u64) {
        self.0.record_n(latency.as_nanos(), count).expect("the histogram grows");
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    #[must_use]
    pub fn merged(&self, other: &Latencies) -> Latencies {
        let mut sum = self.clone();
        sum.0.add(&other.0).expect("the histogram grows");
        sum
    }

    /// The nanoseconds that a share of the latencies, from 0 to 1, did not exceed; 0 if there are none.
    pub fn quantile(&self, quantile: f64) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.value_at_quantile(quantile) }
    }

    /// Half of the latencies are at most this many nanoseconds.
    pub fn p50(&self) -> u64 {
        self.quantile(0.5)
    }

    pub fn p90(&self) -> u64 {
        self.quantile(0.9)
    }

    pub fn p95(&self) -> u64 {
        self.quantile(0.95)
    }

    pub fn p99(&self) -> u64 {
        self.quantile(0.99)
    }

    pub fn p99_9(&self) -> u64 {
        self.quantile(0.999)
    }

    /// The longest latency, in nanoseconds; 0 if there are none.
    pub fn max(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.max() }
    }

    /// The average in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The counts: nanoseconds, rounded up to three digits, and the number of latencies.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }
}

impl Serialize for Latencies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.counts())
    }
}

impl<'de> Deserialize<'de> for Latencies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Latencies, D::Error> {
        let mut latencies = Latencies::default();
        for (nanos, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            latencies.0.record_n(nanos, count).map_err(serde::de::Error::custom)?;
        }
        Ok(latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_three_digits() {
        let mut latencies = Latencies::default();
        (1..=1_000).for_each(|micros| latencies.record(Duration::from_micros(micros)));
        assert!(latencies.p50().abs_diff(500_000) <= 500);
        assert!(latencies.p99_9().abs_diff(999_000) <= 1_000);
        assert_eq!(Latencies::default().p99(), 0);
    }

    #[test]
    fn merging_adds_the_counts() {
        let mut one = Latencies::default();
        one.record(Duration::from_micros(1));
        let mut two = Latencies::default();
        two.record_many(Duration::from_millis(60_000), 3);
        assert_eq!(one.merged(&two).count(), 4);
        assert_eq!(one.merged(&two).p50(), two.max());
    }
}
