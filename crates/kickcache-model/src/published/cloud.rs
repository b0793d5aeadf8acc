//! The published table of cloud disks: a capped fast disk in front of a capped slow one.

use kickcache_engine::config::{Mode, SequentialCutoff};
use kickcache_engine::time::{Duration, Instant};

use crate::cache_model::bare::Bare;
use crate::cache_model::bcache::{Bcache, BcacheShape};
use crate::device_model::device_file::built_in;
use crate::published::load::{Order, Sweep, SweepShape};
use crate::replay::bench::{Course, run, run_idle};
use crate::replay::cache_model::CacheModel;
use crate::replay::devices::Devices;
use crate::replay::real_engine::Kickcache;
use crate::result::RunResult;
use crate::workload::Kind;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
const FILE_BYTES: u64 = GIB;
const CACHE_BYTES: u64 = 20 * GIB;
const ORIGIN_BYTES: u64 = 80 * GIB;
const COST: Duration = Duration::from_micros(5);
/// The caches are idle between two runs, so that dirty blocks are written back.
const PAUSE: Duration = Duration::from_millis(120_000);

/// One published workload: operations or MiB a second on the slow disk, on the fast disk, and with bcache.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CloudRow {
    pub name: &'static str,
    pub published: CloudFigures,
    pub asked: Option<f64>,
    kind: Kind,
    order: Order,
    block_bytes: u64,
    jobs: usize,
    depth: u32,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CloudFigures {
    pub slow: f64,
    /// The figure of the fast disk of 80 GiB alone.
    pub fast: f64,
    pub bcache: f64,
}

const fn row(name: &'static str, published: CloudFigures, kind: Kind, block_bytes: u64) -> CloudRow {
    let order = if block_bytes == MIB { Order::Sequential } else { Order::Scattered };
    let depth = if block_bytes == MIB { 64 } else { 128 };
    CloudRow { name, published, asked: None, kind, order, block_bytes, jobs: 1, depth }
}

/// The rows, in the order in which they are run one after the other on the same devices.
pub const ROWS: [CloudRow; 6] = [
    CloudRow {
        asked: Some(12_000.0),
        ..row(
            "4 KiB random write, depth 128",
            CloudFigures { slow: 2470.0, fast: 5943.0, bcache: 5240.0 },
            Kind::Write,
            4096,
        )
    },
    CloudRow {
        asked: Some(5_240.0),
        ..row(
            "4 KiB random read, depth 128",
            CloudFigures { slow: 2467.0, fast: 5942.0, bcache: 5286.0 },
            Kind::Read,
            4096,
        )
    },
    CloudRow {
        asked: Some(243.0),
        ..row(
            "1 MiB sequential write, depth 64",
            CloudFigures { slow: 113.0, fast: 193.0, bcache: 227.0 },
            Kind::Write,
            MIB,
        )
    },
    CloudRow {
        asked: Some(243.0),
        ..row(
            "1 MiB sequential read, depth 64",
            CloudFigures { slow: 114.0, fast: 193.0, bcache: 243.0 },
            Kind::Read,
            MIB,
        )
    },
    CloudRow {
        depth: 1,
        ..row(
            "4 KiB random write, depth 1",
            CloudFigures { slow: 2460.0, fast: 5942.0, bcache: 2800.0 },
            Kind::Write,
            4096,
        )
    },
    CloudRow {
        depth: 1,
        jobs: 2,
        ..row(
            "4 KiB random read, 2 jobs, depth 1",
            CloudFigures { slow: 2463.0, fast: 5869.0, bcache: 2816.0 },
            Kind::Read,
            4096,
        )
    },
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloudCache {
    Slow,
    Fast,
    /// bcache, write-back, without a sequential cut-off.
    Bcache,
    /// The real engine, write-back, without a sequential cut-off.
    Kickcache,
}

impl CloudRow {
    pub fn figure(&self, run: &RunResult) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a MiB is exact")]
        let mib = MIB as f64;
        if self.block_bytes == MIB { run.bytes_per_second() / mib } else { run.iops() }
    }

    fn load(&self) -> Sweep {
        let CloudRow { kind, order, block_bytes, jobs, depth, .. } = *self;
        // The long accesses have a file of their own, which the short accesses do not touch.
        let start = if order == Order::Sequential { FILE_BYTES } else { 0 };
        Sweep::new(SweepShape { kind, order, block_bytes, start, bytes: FILE_BYTES, jobs, depth })
    }
}

impl CloudCache {
    fn prepare(self, seed: u64) -> (Box<dyn CacheModel>, Devices) {
        let device = |name, seed| built_in(name).expect("it is built in").start(seed);
        let both = || Devices::cached(device("cloud-fast-20g", seed), device("cloud-slow", seed + 1));
        match self {
            CloudCache::Slow => (Box::new(Bare::default()), Devices::bare(device("cloud-slow", seed))),
            CloudCache::Fast => (Box::new(Bare::default()), Devices::bare(device("cloud-fast-80g", seed))),
            CloudCache::Bcache => {
                let (cache_bytes, origin_bytes) = (CACHE_BYTES, ORIGIN_BYTES);
                let shape = BcacheShape { cache_bytes, origin_bytes, sequential_cutoff: 0, seed };
                (Box::new(Bcache::new(shape)), both())
            }
            CloudCache::Kickcache => {
                let cache = Kickcache::new(CACHE_BYTES, ORIGIN_BYTES, |settings| {
                    settings.mode = Mode::WriteBack;
                    settings.sequential_cutoff = SequentialCutoff::Off;
                });
                (Box::new(cache.expect("possible sizes")), both())
            }
        }
    }

    pub fn run(self, seed: u64) -> Vec<RunResult> {
        let (mut model, mut devices) = self.prepare(seed);
        let mut at = Instant::ZERO;
        let mut results = Vec::new();
        for row in ROWS {
            let course = Course {
                start: at,
                length: Duration::from_millis(600_000),
                cost: COST,
                steady: None,
                ..Course::default()
            };
            let result = run(course, &mut row.load(), model.as_mut(), &mut devices, &mut |_| ());
            let end = at.plus(Duration::from_nanos(result.nanos));
            at = run_idle(model.as_mut(), &mut devices, end, PAUSE);
            results.push(result);
        }
        results
    }
}
