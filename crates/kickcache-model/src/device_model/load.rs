//! A load of random operations with a fixed number in flight, to measure a model.

use kickcache_engine::time::Instant;
use kickcache_random::Random;

use crate::device_model::{DeviceModel, ModelOperation, ModelRequest, micros};
use crate::zipf::Zipf;

/// Random 4 KiB operations of several jobs, each on a part of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) jobs: u64,
    pub(crate) depth: u64,
    pub(crate) part: u64,
    /// Skew of the offsets; `None` is uniform.
    pub(crate) theta: Option<f64>,
    pub(crate) count: u64,
    pub(crate) operation: ModelOperation,
    pub(crate) seed: u64,
}

impl Default for Load {
    fn default() -> Load {
        let operation = ModelOperation::Read;
        Load { jobs: 1, depth: 1, part: 4 << 30, theta: None, count: 1_000, operation, seed: 1 }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct LoadResult {
    pub(crate) rate: f64,
    /// Latencies in microseconds, ascending.
    latencies: Vec<f64>,
}

impl LoadResult {
    /// The latency that `percent` of the operations stay below, in microseconds.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and the count"
        )]
        let index = (self.latencies.len() as f64 * percent / 100.0) as usize;
        self.latencies[index.min(self.latencies.len() - 1)]
    }
}

enum Offsets {
    Uniform(Random, u64),
    Skewed(Zipf),
}

impl Offsets {
    fn new(load: &Load, job: u64) -> Offsets {
        let blocks = load.part / 4096;
        match load.theta {
            None => Offsets::Uniform(Random::new(load.seed + job), blocks),
            Some(theta) => Offsets::Skewed(Zipf::new(blocks, theta, load.seed * 1000 + job)),
        }
    }

    fn next(&mut self) -> u64 {
        match self {
            Offsets::Uniform(random, blocks) => random.below(*blocks) * 4096,
            Offsets::Skewed(zipf) => zipf.next() * 4096,
        }
    }
}

/// The token's remainder by the number of jobs is the job.
pub(crate) fn run(model: &mut dyn DeviceModel, load: &Load) -> LoadResult {
    let mut offsets: Vec<Offsets> = (0..load.jobs).map(|job| Offsets::new(load, job)).collect();
    let mut started = Vec::new();
    let mut submit = |model: &mut dyn DeviceModel, now: Instant, job: u64, started: &mut Vec<Instant>| {
        let index = usize::try_from(job).expect("few jobs");
        let offset = job * load.part + offsets[index].next();
        let token = started.len() as u64 * load.jobs + job;
        started.push(now);
        model.submit(now, ModelRequest { operation: load.operation, offset, length: 4096, token });
    };
    let mut now = Instant::ZERO;
    for job in (0..load.depth).flat_map(|_| 0..load.jobs) {
        submit(model, now, job, &mut started);
    }
    let mut latencies = Vec::new();
    while (latencies.len() as u64) < load.count {
        now = model.next_event().expect("operations are in flight");
        while let Some(token) = model.poll(now) {
            let begun = started[usize::try_from(token / load.jobs).expect("an index")];
            latencies.push(micros(now) - micros(begun));
            submit(model, now, token % load.jobs, &mut started);
        }
    }
    let rate = latencies.len() as f64 / (micros(now) / 1e6);
    latencies.sort_by(f64::total_cmp);
    LoadResult { rate, latencies }
}
