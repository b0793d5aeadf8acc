//! A disk behind a network, or an object store, with a latency with a long tail, bandwidths, a rate and a
//! width.
//!
//! Leaves out errors, retries and the cost of a request.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kickcache_engine::time::Instant;
use kickcache_random::Random;
use serde::{Deserialize, Serialize};

use crate::device_model::{DeviceModel, Endings, Figures, ModelOperation, ModelRequest, Range, bytes, span};

const WIDTH_MAX: u32 = 65_536;

/// Times are in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteParameters {
    /// Median of a read, without the transfer.
    pub read_median: f64,
    /// Median of a write, without the transfer.
    pub write_median: f64,
    /// Time of a flush, and the additional time of a durable write; 0 if writes are durable when they end.
    pub flush: f64,
    /// Spread of the logarithm of a read's and a write's time.
    pub sigma: f64,
    /// Probability in 1/1000 that a read or a write takes longer.
    pub tail_permille: u64,
    /// How many times as long a slow operation takes, without the transfer.
    pub tail_factor: f64,
    /// Bytes a microsecond of one operation.
    pub stream_bandwidth: f64,
    /// Bytes a microsecond of all operations.
    pub bandwidth: f64,
    /// The most operations a second.
    pub iops: f64,
    /// The most operations at the same time; 0 is no limit.
    #[serde(default)]
    pub width: u32,
}

impl RemoteParameters {
    pub(crate) fn figures(&self) -> Figures {
        use Range::{NotNegative, Positive, UpTo};
        vec![
            ("read_median", self.read_median, NotNegative),
            ("write_median", self.write_median, NotNegative),
            ("flush", self.flush, NotNegative),
            ("sigma", self.sigma, UpTo(5.0)),
            ("tail_permille", bytes(self.tail_permille), UpTo(1_000.0)),
            ("tail_factor", self.tail_factor, NotNegative),
            ("stream_bandwidth", self.stream_bandwidth, Positive),
            ("bandwidth", self.bandwidth, Positive),
            ("iops", self.iops, Positive),
            ("width", f64::from(self.width), UpTo(f64::from(WIDTH_MAX))),
        ]
    }
}

#[derive(Clone, Debug)]
pub struct Remote {
    parameters: RemoteParameters,
    random: Random,
    wire_free: Instant,
    /// For each used place, the time at which its last operation ends; empty without a width.
    places: BinaryHeap<Reverse<Instant>>,
    endings: Endings,
}

impl Remote {
    pub fn new(parameters: RemoteParameters, seed: u64) -> Remote {
        let (places, endings) = (BinaryHeap::new(), Endings::default());
        Remote { parameters, random: Random::new(seed), wire_free: Instant::ZERO, places, endings }
    }

    fn pass_wire(&mut self, now: Instant, length: u64) -> Instant {
        let time = (bytes(length) / self.parameters.bandwidth).max(1e6 / self.parameters.iops);
        self.wire_free = now.max(self.wire_free).plus(span(time));
        self.wire_free
    }

    fn begin(&mut self, passed: Instant) -> Instant {
        let width = usize::try_from(self.parameters.width).unwrap_or(usize::MAX);
        if width == 0 || self.places.len() < width {
            return passed;
        }
        self.places.pop().map_or(passed, |Reverse(free)| passed.max(free))
    }

    fn draw(&mut self, median: f64) -> f64 {
        let is_slow = self.random.chance(self.parameters.tail_permille);
        let factor = if is_slow { self.parameters.tail_factor } else { 1.0 };
        self.random.log_normal(median, self.parameters.sigma) * factor
    }
}

impl DeviceModel for Remote {
    fn submit(&mut self, now: Instant, request: ModelRequest) {
        let length = if request.operation == ModelOperation::Flush { 0 } else { request.length };
        let passed = self.pass_wire(now, length);
        let time = match request.operation {
            ModelOperation::Read => self.draw(self.parameters.read_median),
            ModelOperation::Write => self.draw(self.parameters.write_median),
            ModelOperation::WriteDurable => self.draw(self.parameters.write_median) + self.parameters.flush,
            ModelOperation::Flush => self.parameters.flush,
        };
        let begun = self.begin(passed);
        let end = begun.plus(span(time + bytes(length) / self.parameters.stream_bandwidth));
        if self.parameters.width > 0 {
            self.places.push(Reverse(end));
        }
        self.endings.push(end, request.token);
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
    use crate::device_model::device_file::{DeviceKind, built_in};
    use crate::device_model::load::{Load, run};

    #[test]
    fn an_object_store_is_slow_alone_and_fast_together() {
        let rate = |depth| {
            let mut model = built_in("object-store").unwrap().start(1);
            run(model.as_mut(), &Load { depth, count: 5_000, ..Load::default() }).rate
        };
        assert!((20.0..80.0).contains(&rate(1)), "{}", rate(1));
        assert!(rate(64) > 40.0 * rate(1));
    }

    #[test]
    fn more_than_the_width_wait_for_each_other() {
        let DeviceKind::Remote(parameters) = built_in("network-disk").unwrap().kind else { panic!("remote") };
        let quiet = RemoteParameters { sigma: 0.0, tail_permille: 0, iops: 1e9, ..parameters };
        let run = |width, depth| {
            let mut model = Remote::new(RemoteParameters { width, ..quiet }, 1);
            let result = run(&mut model, &Load { depth, count: 5_000, ..Load::default() });
            (result.rate, result.percentile(50.0))
        };
        let (alone, _) = run(16, 1);
        let (narrow, median) = run(16, 64);
        assert!((15.9..16.1).contains(&(narrow / alone)), "{narrow} {alone}");
        assert!((3.9..4.1).contains(&(median * alone / 1e6)), "{median}");
        let (wide, _) = run(0, 64);
        assert!(wide > 60.0 * alone, "{wide} {alone}");
    }
}
