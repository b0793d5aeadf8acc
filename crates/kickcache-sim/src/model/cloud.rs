//! A cloud disk with a cap on operations and bandwidth (a token bucket, GCRA).

use kickcache_engine::time::Instant;
use serde::{Deserialize, Serialize};

use crate::model::{DeviceModel, Endings, ModelOperation, ModelRequest, bytes, span};
use crate::random::Random;

/// What a capped disk is like.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloudParameters {
    /// Operations a second.
    pub iops: f64,
    /// Bytes a second.
    pub bandwidth: f64,
    /// Operations that may run ahead of the cap.
    pub burst: f64,
    /// Bytes that count as one operation.
    pub operation_bytes: u64,
    /// Median latency below the cap, in microseconds.
    pub base: f64,
}

impl CloudParameters {
    /// A disk of so many operations a second and a bandwidth of 16 KiB each.
    pub const fn capped(iops: f64) -> CloudParameters {
        CloudParameters {
            iops,
            bandwidth: iops * 16_384.0,
            burst: 32.0,
            operation_bytes: 256 << 10,
            base: 350.0,
        }
    }
}

/// A capped disk in virtual time.
#[derive(Clone, Debug)]
pub struct Cloud {
    parameters: CloudParameters,
    random: Random,
    /// The theoretical arrival time of the next operation, as nanoseconds of the clock.
    arrival: Instant,
    endings: Endings,
}

impl Cloud {
    /// A capped disk at rest.
    pub fn new(parameters: CloudParameters, seed: u64) -> Cloud {
        let random = Random::new(seed);
        Cloud { parameters, random, arrival: Instant::ZERO, endings: Endings::default() }
    }

    /// When the bucket lets an operation pass.
    fn pass(&mut self, now: Instant, length: u64) -> Instant {
        let tokens = bytes(length.div_ceil(self.parameters.operation_bytes).max(1));
        let one = 1e6 / self.parameters.iops;
        let increment = (tokens * one).max(bytes(length) / self.parameters.bandwidth * 1e6);
        let ahead = span(self.parameters.burst * one).as_nanos();
        let earliest = Instant::from_nanos(now.as_nanos().saturating_sub(ahead));
        self.arrival = self.arrival.max(earliest).plus(span(increment));
        now.max(self.arrival)
    }
}

impl DeviceModel for Cloud {
    fn submit(&mut self, now: Instant, request: ModelRequest) {
        let length = if request.operation == ModelOperation::Flush { 0 } else { request.length };
        let passed = self.pass(now, length);
        let at = passed.plus(span(self.random.log_normal(self.parameters.base, 0.25)));
        self.endings.push(at, request.token);
    }

    fn next_event(&self) -> Option<Instant> {
        self.endings.next()
    }

    fn poll(&mut self, now: Instant) -> Option<u64> {
        self.endings.pop(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::load::{Load, run};

    #[test]
    fn a_deep_queue_waits_for_the_cap() {
        let mut cloud = Cloud::new(CloudParameters::capped(2_440.0), 1);
        let result = run(&mut cloud, &Load { depth: 256, count: 20_000, ..Load::default() });
        assert!((2_400.0..2_480.0).contains(&result.rate), "{}", result.rate);
        assert!((103_000.0..107_000.0).contains(&result.percentile(50.0)), "{}", result.percentile(50.0));
    }

    #[test]
    fn a_shallow_queue_sees_the_base_latency() {
        let mut cloud = Cloud::new(CloudParameters::capped(10_000.0), 1);
        let result = run(&mut cloud, &Load { depth: 1, count: 5_000, ..Load::default() });
        assert!((330.0..370.0).contains(&result.percentile(50.0)), "{}", result.percentile(50.0));
    }
}
