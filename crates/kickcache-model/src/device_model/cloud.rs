//! A cloud disk with a cap on operations and bandwidth: a token bucket that is filled once in each slice of
//! time. A request that finds it empty waits for the next slice; unused tokens are saved, up to a burst.

use kickcache_engine::time::Instant;
use kickcache_random::Random;
use serde::{Deserialize, Serialize};

use crate::device_model::{
    DeviceModel, Endings, Figures, ModelOperation, ModelRequest, Range, bytes, micros, span,
};

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloudParameters {
    /// The most operations a second in the long run; saved time permits more for a while.
    pub iops: f64,
    /// The most bytes a second in the long run; saved time permits more for a while.
    pub bandwidth: f64,
    /// Length of a slice, in microseconds.
    #[serde(default = "usual_slice")]
    pub slice: f64,
    /// The most unused time that is saved, in microseconds; a disk has all of it at the start, and again after that
    /// much idle time.
    #[serde(default)]
    pub burst: f64,
    /// The most bytes that count as one operation; a longer request counts as several.
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
    /// A disk of this many operations a second and a bandwidth of 16 KiB each.
    pub const fn capped(iops: f64) -> CloudParameters {
        CloudParameters {
            iops,
            bandwidth: iops * 16_384.0,
            slice: usual_slice(),
            burst: 0.0,
            operation_bytes: usual_operation_bytes(),
            base: usual_base(),
        }
    }

    pub(crate) fn figures(&self) -> Figures {
        vec![
            ("iops", self.iops, Range::Positive),
            ("bandwidth", self.bandwidth, Range::Positive),
            ("slice", self.slice, Range::Positive),
            ("burst", self.burst, Range::NotNegative),
            ("operation_bytes", bytes(self.operation_bytes), Range::Positive),
            ("base", self.base, Range::NotNegative),
        ]
    }
}

#[derive(Clone, Debug)]
pub struct Cloud {
    parameters: CloudParameters,
    random: Random,
    /// The start of the slice of the last operation, in microseconds; `used` is the time used up in it,
    /// negative if time is saved.
    slice: f64,
    used: f64,
    endings: Endings,
}

impl Cloud {
    pub fn new(parameters: CloudParameters, seed: u64) -> Cloud {
        let random = Random::new(seed);
        Cloud { parameters, random, slice: 0.0, used: -parameters.burst, endings: Endings::default() }
    }

    fn pass(&mut self, now: Instant, length: u64) -> Instant {
        let CloudParameters { iops, bandwidth, slice, burst, operation_bytes, .. } = self.parameters;
        let count = bytes(length.div_ceil(operation_bytes).max(1));
        let cost = (count * 1e6 / iops).max(bytes(length) / bandwidth * 1e6);
        let current = (micros(now) / slice).floor() * slice;
        if current > self.slice {
            self.used = (self.used - (current - self.slice)).clamp(-burst, 0.0);
            self.slice = current;
        }
        // The excess is charged to the next slice, so that the rate is exact.
        if self.used >= slice {
            let full = (self.used / slice).floor() * slice;
            self.slice += full;
            self.used -= full;
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
    use kickcache_engine::time::Duration;

    use super::*;
    use crate::device_model::load::{Load, run};

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
    fn unused_tokens_are_saved_up_to_a_burst() {
        let parameters =
            CloudParameters { slice: 10_000.0, burst: 1e6, base: 100.0, ..CloudParameters::capped(1_000.0) };
        let request =
            |token| ModelRequest { operation: ModelOperation::Read, offset: 0, length: 4096, token };
        let passed_within_a_slice = |cloud: &mut Cloud, start: Instant| {
            (0..3_000).for_each(|token| cloud.submit(start, request(token)));
            let mut passed = 0;
            while let Some(at) = cloud.next_event() {
                passed += u32::from(at < start.plus(Duration::from_millis(9)));
                cloud.poll(at);
            }
            passed
        };
        let mut cloud = Cloud::new(parameters, 1);
        assert_eq!(
            passed_within_a_slice(&mut cloud, Instant::ZERO),
            1_010,
            "a second's worth and the first slice"
        );
        let later = |millis| Instant::ZERO.plus(Duration::from_millis(millis));
        assert_eq!(passed_within_a_slice(&mut cloud, later(2_500)), 510, "half a second was not used");
        assert_eq!(passed_within_a_slice(&mut cloud, later(60_000)), 1_010, "no more than the burst");
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
