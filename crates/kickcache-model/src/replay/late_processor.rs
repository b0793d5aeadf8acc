//! The daemon and the clients get a processor late each time they wake.

use kickcache_engine::config::{EngineSettings, Mode, OriginOffload, VolumeSettings};
use kickcache_engine::time::{Duration, Instant};

use crate::device_model::cloud::{Cloud, CloudParameters};
use crate::device_model::ssd::{Ssd, SsdParameters};
use crate::published::load::ZipfReads;
use crate::replay::bench::{Course, run};
use crate::replay::devices::Devices;
use crate::replay::real_engine::Kickcache;

const ORIGIN_IOPS: f64 = 300.0;
const WAKES_LATE: Duration = Duration::from_millis(20);
/// Processor time of a client for each read.
const COST: Duration = Duration::from_micros(12);
const JOBS: u64 = 2;

/// Random reads of 4 KiB, zipf 1.2, two jobs of depth 8, before a fast cache device and a slow origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LateProcessor {
    pub cache_bytes: u64,
    pub data_bytes: u64,
    pub first_reads: u64,
    pub reads: u64,
    /// Whether the origin may serve cached blocks.
    pub offload: OriginOffload,
    pub seed: u64,
}

/// The reads and writes of the origin, in proportion to the reads of the clients.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OriginRequests {
    pub first: f64,
    pub later: f64,
}

impl LateProcessor {
    /// # Panics
    /// If the sizes are impossible.
    pub fn run(&self) -> OriginRequests {
        let origin_bytes = (2 * self.data_bytes).next_power_of_two();
        let change = |settings: &mut VolumeSettings| settings.mode = Mode::WriteBack;
        let settings = EngineSettings { origin_offload: self.offload, ..EngineSettings::default() };
        let cache = Kickcache::with(settings, self.cache_bytes, origin_bytes, change);
        let mut cache = cache.expect("possible sizes");
        let origin = CloudParameters {
            slice: 1e6 / ORIGIN_IOPS,
            bandwidth: 150e6,
            base: 100.0,
            operation_bytes: 1 << 20,
            ..CloudParameters::capped(ORIGIN_IOPS)
        };
        let ssd = Ssd::new(SsdParameters::articles(), self.seed);
        let mut devices = Devices::cached(Box::new(ssd), Box::new(Cloud::new(origin, self.seed + 1)));
        let mut start = Instant::ZERO;
        let jobs = usize::try_from(JOBS).expect("two");
        let mut load = ZipfReads::new(jobs, 0, self.data_bytes / JOBS, self.seed, 0);
        let mut play = |count: u64| {
            load.go_on(count);
            let length = Duration::from_millis(100_000_000);
            let course = Course { start, length, cost: COST, wakes_late: WAKES_LATE, ..Course::default() };
            let result = run(course, &mut load, &mut cache, &mut devices, &mut |_| ());
            start = start.plus(Duration::from_nanos(result.nanos));
            let device = result.origin_device.expect("there is an origin");
            #[expect(clippy::cast_precision_loss, reason = "few requests")]
            let per_thousand = 1_000.0 * (device.reads + device.writes) as f64 / count as f64;
            per_thousand
        };
        let first = play(self.first_reads);
        OriginRequests { first, later: play(self.reads) }
    }
}
