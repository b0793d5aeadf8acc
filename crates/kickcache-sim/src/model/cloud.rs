//! A cloud disk with a cap on operations and bandwidth: each slice of time lets so much pass, and what comes when it is
//! used up waits for the next. The published latencies of such disks lie just below 100 ms when the cap is reached.

use kickcache_engine::time::Instant;
use serde::{Deserialize, Serialize};

use crate::model::{DeviceModel, Endings, Figures, ModelOperation, ModelRequest, Range, bytes, micros, span};
use crate::random::Random;

/// What a capped disk is like.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloudParameters {
    /// Operations a second.
    pub iops: f64,
    /// Bytes a second.
    pub bandwidth: f64,
    /// Length of a slice, in microseconds.
    #[serde(default = "usual_slice")]
    pub slice: f64,
    /// Bytes that count as one operation.
    #[serde(default = "usual_operation_bytes")]
    pub operation_bytes: u64,
    /// Median latency below the cap, in microseconds.
    #[serde(default = "usual_base")]
    pub base: f64,
}

const fn usual_slice() -> f64 {
    100_000.0
}

const fn usual_operation_bytes() -> u64 {
    256 << 10
}

const fn usual_base() -> f64 {
    350.0
}

impl CloudParameters {
    /// A disk of so many operations a second and a bandwidth of 16 KiB each.
    pub const fn capped(iops: f64) -> CloudParameters {
        CloudParameters {
            iops,
            bandwidth: iops * 16_384.0,
            slice: usual_slice(),
            operation_bytes: usual_operation_bytes(),
            base: usual_base(),
        }
    }

    /// What can be wrong with a description.
    pub(crate) fn figures(&self) -> Figures {
        vec![
            ("iops", self.iops, Range::Positive),
            ("bandwidth", self.bandwidth, Range::Positive),
            ("slice", self.slice, Range::Positive),
            ("operation_bytes", bytes(self.operation_bytes), Range::Positive),
            ("base", self.base, Range::NotNegative),
        ]
    }
}

/// A capped disk in virtual time.
#[derive(Clone, Debug)]
pub struct Cloud {
    parameters: CloudParameters,
    random: Random,
    /// When the slice begins that lets the next operation pass, and how much of it is used up, in microseconds.
    slice: f64,
    used: f64,
    endings: Endings,
}

impl Cloud {
    /// A capped disk at rest.
    pub fn new(parameters: CloudParameters, seed: u64) -> Cloud {
        let random = Random::new(seed);
        Cloud { parameters, random, slice: 0.0, used: 0.0, endings: Endings::default() }
    }

    /// When the cap lets an operation pass.
    fn pass(&mut self, now: Instant, length: u64) -> Instant {
        let CloudParameters { iops, bandwidth, slice, operation_bytes, .. } = self.parameters;
        let count = bytes(length.div_ceil(operation_bytes).max(1));
        let cost = (count * 1e6 / iops).max(bytes(length) / bandwidth * 1e6);
        let current = (micros(now) / slice).floor() * slice;
        if current > self.slice {
            (self.slice, self.used) = (current, 0.0);
        }
        // What does not fit is paid from the next slice, so that the rate is exact.
        while self.used >= slice {
            self.slice += slice;
            self.used -= slice;
        }
        self.used += cost;
        now.max(Instant::ZERO.plus(span(self.slice)))
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
        assert!((95_000.0..110_000.0).contains(&result.percentile(50.0)), "{}", result.percentile(50.0));
    }

    #[test]
    fn a_shallow_queue_sees_the_base_latency() {
        let mut cloud = Cloud::new(CloudParameters::capped(10_000.0), 1);
        let result = run(&mut cloud, &Load { depth: 1, count: 5_000, ..Load::default() });
        assert!((330.0..370.0).contains(&result.percentile(50.0)), "{}", result.percentile(50.0));
    }

    #[test]
    fn a_capped_disk_has_the_published_latencies() {
        let mut cloud = Cloud::new(CloudParameters { base: 180.0, ..CloudParameters::capped(2_440.0) }, 1);
        let result = run(&mut cloud, &Load { depth: 128, count: 20_000, ..Load::default() });
        assert!((90_000.0..100_000.0).contains(&result.percentile(50.0)), "{}", result.percentile(50.0));
        let mut cloud = Cloud::new(CloudParameters { base: 180.0, ..CloudParameters::capped(2_440.0) }, 1);
        let result = run(&mut cloud, &Load { depth: 1, count: 20_000, ..Load::default() });
        assert!((2_400.0..2_480.0).contains(&result.rate), "{}", result.rate);
        assert!(result.percentile(50.0) < 250.0 && result.percentile(99.8) > 30_000.0);
    }
}
