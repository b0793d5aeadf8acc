//! `scripts/duel --cloud` in virtual time: six workloads that follow one another on the same data, over two disks with limits.

use kickcache_engine::time::{Duration, Instant};

use crate::device_model::cloud::{Cloud, CloudParameters};
use crate::replay::bench::{Course, run, run_idle};
use crate::replay::cache_model::CacheModel;
use crate::replay::devices::Devices;
use crate::result::RunResult;
use crate::workload::fio::FioWorkload;

const MIB: u64 = 1 << 20;
pub const CACHE_BYTES: u64 = 512 * MIB;
pub const ORIGIN_BYTES: u64 = 4_096 * MIB;
const DATA_BYTES: u64 = 256 * MIB;
const COST: Duration = Duration::from_micros(100);
/// Pause between two workloads.
const REST: Duration = Duration::from_millis(20_000);
const LENGTH_MAX: Duration = Duration::from_millis(600_000);

/// The workloads, as lines of a job file.
pub const WORKLOADS: [CloudWork; 6] = [
    work("random write, QD 128", "rw=randwrite\nbs=4k\niodepth=128"),
    work("random read, QD 128", "rw=randread\nbs=4k\niodepth=128"),
    work("sequential write, 1 MiB, QD 64", "rw=write\nbs=1m\niodepth=64"),
    work("sequential read, 1 MiB, QD 64", "rw=read\nbs=1m\niodepth=64"),
    work("random write, QD 1", "rw=randwrite\nbs=4k\niodepth=1"),
    work("random read, 2 jobs, QD 1", "rw=randread\nbs=4k\niodepth=1\nnumjobs=2"),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CloudWork {
    pub name: &'static str,
    lines: &'static str,
}

const fn work(name: &'static str, lines: &'static str) -> CloudWork {
    CloudWork { name, lines }
}

impl CloudWork {
    /// The figure of its row: MiB a second of long requests, otherwise requests a second.
    pub fn figure(&self, result: &RunResult) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a MiB is exact")]
        let mib = MIB as f64;
        if self.lines.contains("bs=1m") { result.bytes_per_second() / mib } else { result.iops() }
    }
}

pub fn cloud_duel(cache: &mut dyn CacheModel, seconds: u64, seed: u64) -> Vec<RunResult> {
    let mut devices = Devices::cached(capped(700.0, 31.25, seed), capped(610.0, 25.5, seed + 1));
    let mut now = Instant::ZERO;
    let mut play = |job: &str, seed: u64| {
        let text = format!("[cloud]\nioengine=libaio\nfilename=cloud\nsize={DATA_BYTES}\n{job}\n");
        let mut load = FioWorkload::parse(&text, seed).expect("a job file");
        let course = Course { start: now, length: LENGTH_MAX, cost: COST, ..Course::default() };
        let result = run(course, &mut load, cache, &mut devices, &mut |_| ());
        let end = now.plus(Duration::from_nanos(result.nanos));
        now = run_idle(cache, &mut devices, end, REST);
        result
    };
    // The file is laid out first, as fio does on a file system.
    play("rw=write\nbs=1m\niodepth=16", seed);
    let timed = |work: &CloudWork| format!("{}\ntime_based\nruntime={seconds}", work.lines);
    (0..).zip(WORKLOADS).map(|(number, work)| play(&timed(&work), seed + number)).collect()
}

/// A disk of QEMU's throttle: requests and MiB a second, and a second of burst.
fn capped(iops: f64, bandwidth: f64, seed: u64) -> Box<Cloud> {
    let slice = 1e6 / iops;
    let bandwidth = bandwidth * 1_048_576.0;
    let parameters =
        CloudParameters { slice, bandwidth, burst: 1e6, base: 300.0, ..CloudParameters::capped(iops) };
    Box::new(Cloud::new(parameters, seed))
}
