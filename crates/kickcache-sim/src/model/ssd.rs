//! A flash disk: one controller, many dies, a log-normal latency with a rare long stall.

use kickcache_engine::time::Instant;

use crate::model::{DeviceModel, Endings, ModelOperation, ModelRequest, bytes, span};
use crate::random::Random;

/// What a flash disk is like. Times are in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SsdParameters {
    /// The controller's time for each command: its inverse is the highest rate.
    pub controller: f64,
    /// Dies that work in parallel.
    pub dies: usize,
    /// Median of a 4 KiB read.
    pub read_median: f64,
    /// Median of a 4 KiB write to the drive's buffer.
    pub write_median: f64,
    /// Spread of the logarithm of both.
    pub sigma: f64,
    /// Probability in 1/1000 of a stall.
    pub stall_permille: u64,
    /// Mean of a stall.
    pub stall_mean: f64,
    /// Bytes a microsecond over the bus.
    pub bandwidth: f64,
    /// Time of a flush.
    pub flush: f64,
}

impl SsdParameters {
    /// An NVMe drive for data centres, fitted to a published measurement.
    pub const fn nvme() -> SsdParameters {
        SsdParameters {
            controller: 2.5,
            dies: 128,
            read_median: 130.0,
            write_median: 25.0,
            sigma: 0.25,
            stall_permille: 4,
            stall_mean: 3_000.0,
            bandwidth: 3_000.0,
            flush: 50.0,
        }
    }
}

/// A flash disk in virtual time.
#[derive(Clone, Debug)]
pub struct Ssd {
    parameters: SsdParameters,
    random: Random,
    controller_free: Instant,
    dies_free: Vec<Instant>,
    endings: Endings,
}

impl Ssd {
    /// A flash disk at rest.
    pub fn new(parameters: SsdParameters, seed: u64) -> Ssd {
        let dies_free = vec![Instant::ZERO; parameters.dies];
        let random = Random::new(seed);
        Ssd { parameters, random, controller_free: Instant::ZERO, dies_free, endings: Endings::default() }
    }

    fn pass_controller(&mut self, now: Instant) -> Instant {
        self.controller_free = now.max(self.controller_free).plus(span(self.parameters.controller));
        self.controller_free
    }

    fn read(&mut self, now: Instant, length: u64) -> Instant {
        let passed = self.pass_controller(now);
        let time = self.random.log_normal(self.parameters.read_median, self.parameters.sigma);
        let die = self.random.index(self.parameters.dies);
        let start = passed.max(self.dies_free[die]);
        self.dies_free[die] = start.plus(span(0.4 * time));
        start.plus(span(time + self.extra(length)))
    }

    fn write(&mut self, now: Instant, length: u64) -> Instant {
        let passed = self.pass_controller(now);
        let time = self.random.log_normal(self.parameters.write_median, self.parameters.sigma);
        passed.plus(span(time + self.extra(length)))
    }

    /// The transfer of what is longer than 4 KiB, and a stall now and then.
    fn extra(&mut self, length: u64) -> f64 {
        let transfer = bytes(length.saturating_sub(4096)) / self.parameters.bandwidth;
        let stalled = self.random.chance(self.parameters.stall_permille);
        transfer + if stalled { self.random.exponential(self.parameters.stall_mean) } else { 0.0 }
    }
}

impl DeviceModel for Ssd {
    fn submit(&mut self, now: Instant, request: ModelRequest) {
        let at = match request.operation {
            ModelOperation::Read => self.read(now, request.length),
            ModelOperation::Write => self.write(now, request.length),
            ModelOperation::WriteDurable => self.write(now, request.length).plus(span(self.parameters.flush)),
            ModelOperation::Flush => self.pass_controller(now).plus(span(self.parameters.flush)),
        };
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
    fn nvme_gives_the_published_rate_and_latencies() {
        let mut ssd = Ssd::new(SsdParameters::nvme(), 1);
        let result = run(&mut ssd, &Load { depth: 16, count: 50_000, ..Load::default() });
        assert!((94_000.0..116_000.0).contains(&result.rate), "{}", result.rate);
        assert!((121.0..149.0).contains(&result.percentile(50.0)), "{}", result.percentile(50.0));
        assert!((210.0..310.0).contains(&result.percentile(99.0)), "{}", result.percentile(99.0));
    }
}
