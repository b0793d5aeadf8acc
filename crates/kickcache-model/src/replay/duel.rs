//! `scripts/duel` in virtual time: the same work on a cache over a slow disk, and the requests that both
//! devices received.

use kickcache_engine::time::{Duration, Instant};

use crate::device_model::DeviceModel;
use crate::device_model::cloud::{Cloud, CloudParameters};
use crate::device_model::ssd::{Ssd, SsdParameters};
use crate::replay::bench::{Course, Stalls, run, run_idle};
use crate::replay::cache_model::CacheModel;
use crate::replay::devices::Devices;
use crate::result::DeviceResult;
use crate::workload::fio::FioWorkload;

const MIB: u64 = 1 << 20;
/// Requests a second of the slow disk.
const HDD_IOPS: f64 = 300.0;
/// Bytes a second of a disk that is a file in a host's memory.
const BANDWIDTH: f64 = 1e9;
/// The place of blocks that are never requested again, at the end of the disk.
const STALE_OFFSET: u64 = 3_500 * MIB;
/// The length of a rest, in which the cache writes back: after each pass over the stale blocks, and after the
/// work.
const REST: Duration = Duration::from_millis(2_000);
/// The longest time of a job, and the longest wait for a clean cache.
const LENGTH_MAX: Duration = Duration::from_millis(3_600_000);
/// The place of the most popular blocks of the old hot set in a job's half of the data, from 0 to 1.
const OLD_CENTRE: f64 = 0.1;
const NEW_CENTRE: f64 = 0.6;
pub const ORIGIN_BYTES: u64 = 4_096 * MIB;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    Cold,
    /// Blocks that are never requested again: they were written, written back and read twice.
    Stale,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    Read,
    /// Writes; at the end, all of their data is on the slow disk.
    Write,
}

/// Requests of 4 KiB, zipf 1.2, with a fast disk and a disk of 300 requests a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Duel {
    pub cache_bytes: u64,
    /// Data, as a multiple of the cache's size.
    pub data_times: u64,
    pub start: Start,
    pub work: Work,
    pub requests: u64,
    /// In this many steps the requests move from one hot set to another; with one step, the hot set stays the same.
    pub steps: u64,
    pub cost: Duration,
    /// Limit of the fast disk, in requests a second; `None` for a flash disk without one.
    pub ssd_iops: Option<u32>,
    pub stalls: Stalls,
    pub seed: u64,
}

/// Requests to the devices, for each 1,000 requests of the clients.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DuelResult {
    pub hdd_requests: f64,
    /// MiB read from the slow disk.
    pub hdd_read: f64,
    /// MiB written to the slow disk.
    pub hdd_written: f64,
    /// MiB written to the fast disk.
    pub ssd_written: f64,
}

impl Duel {
    /// # Panics
    /// If the cache does not get clean.
    pub fn run(&self, cache: &mut dyn CacheModel) -> DuelResult {
        let mut scene = Scene::new(cache, self);
        if self.start == Start::Stale {
            for rw in ["randwrite", "randread", "randread"] {
                scene.play(&self.stale_job(rw), self.seed);
                scene.drain();
            }
        }
        scene.count();
        scene.counted = Counted::default();
        for step in 0..self.steps {
            scene.play(&self.job(step), self.seed + step);
        }
        match self.work {
            Work::Read => scene.rest(),
            Work::Write => scene.drain(),
        }
        scene.count();
        scene.counted.per_thousand(self.requests)
    }

    fn job(&self, step: u64) -> String {
        let rw = match self.work {
            Work::Read => "randread",
            Work::Write => "randwrite",
        };
        let half = self.cache_bytes * self.data_times / 2;
        let requests = self.requests / self.steps;
        let common = format!("rw={rw}\nbs=4k\nsize={half}\nnorandommap\n");
        if self.steps == 1 {
            let share = requests / 2 * 4096;
            return format!(
                "[duel]\n{common}iodepth=8\nnumjobs=2\nio_size={share}\nrandom_distribution=zipf:1.2\n"
            );
        }
        let new = requests * step / (self.steps - 1);
        let sets = [("old", requests - new, OLD_CENTRE), ("new", new, NEW_CENTRE)];
        let is_mixed = sets.iter().all(|(_, requests, _)| *requests > 0);
        let depth = if is_mixed { 4 } else { 8 };
        let mut text = format!("[global]\n{common}iodepth={depth}\nfilename=duel\n");
        for (name, requests, centre) in sets.into_iter().filter(|(_, requests, _)| *requests > 0) {
            let share = requests / 2 * 4096;
            for (part, offset) in [("a", 0), ("b", half)] {
                text += &format!("[{name}-{part}]\noffset={offset}\nio_size={share}\n");
                text += &format!("random_distribution=zipf:1.2:{centre}\n");
            }
        }
        text
    }

    fn stale_job(&self, rw: &str) -> String {
        let size = self.cache_bytes * 5 / 4;
        format!("[stale]\nrw={rw}\nbs=64k\niodepth=8\noffset={STALE_OFFSET}\nsize={size}\n")
    }
}

struct Scene<'a> {
    cache: &'a mut dyn CacheModel,
    devices: Devices,
    now: Instant,
    cost: Duration,
    stalls: Stalls,
    counted: Counted,
}

impl<'a> Scene<'a> {
    fn new(cache: &'a mut dyn CacheModel, duel: &Duel) -> Scene<'a> {
        let Duel { seed, cost, stalls, .. } = *duel;
        let hdd = limited(HDD_IOPS, seed + 1);
        let ssd = || Box::new(Ssd::new(SsdParameters::articles(), seed)) as Box<dyn DeviceModel>;
        let ssd = duel.ssd_iops.map_or_else(ssd, |iops| limited(iops.into(), seed));
        let devices = Devices::cached(ssd, hdd);
        Scene { cache, devices, now: Instant::ZERO, cost, stalls, counted: Counted::default() }
    }

    fn play(&mut self, job: &str, seed: u64) {
        let mut load = FioWorkload::parse(job, seed).expect("a job file");
        self.count();
        let (cost, stalls) = (self.cost, self.stalls);
        let course = Course { start: self.now, length: LENGTH_MAX, cost, stalls, ..Course::default() };
        let result = run(course, &mut load, self.cache, &mut self.devices, &mut |_| ());
        let hdd = result.origin_device.expect("there is an origin");
        self.counted.add(result.cache_device.as_ref(), &hdd);
        self.now = self.now.plus(Duration::from_nanos(result.nanos));
    }

    fn rest(&mut self) {
        self.now = run_idle(self.cache, &mut self.devices, self.now, REST);
    }

    fn drain(&mut self) {
        let from = self.now;
        self.rest();
        while self.cache.tally().dirty_bytes > 0 {
            self.rest();
            assert!(self.now.since(from).as_nanos() < LENGTH_MAX.as_nanos(), "the cache is still dirty");
        }
    }

    fn count(&mut self) {
        let (ssd, hdd) = self.devices.take_results(self.now);
        self.counted.add(ssd.as_ref(), &hdd);
    }
}

/// A disk that completes at most this many requests a second, independent of their size up to [`BANDWIDTH`].
fn limited(iops: f64, seed: u64) -> Box<dyn DeviceModel> {
    let parameters = CloudParameters {
        slice: 1e6 / iops,
        bandwidth: BANDWIDTH,
        base: 100.0,
        operation_bytes: 1 << 30,
        ..CloudParameters::capped(iops)
    };
    Box::new(Cloud::new(parameters, seed))
}

#[derive(Clone, Copy, Default)]
struct Counted {
    hdd_requests: u64,
    hdd_read: u64,
    hdd_written: u64,
    ssd_written: u64,
}

impl Counted {
    fn add(&mut self, ssd: Option<&DeviceResult>, hdd: &DeviceResult) {
        self.hdd_requests += hdd.reads + hdd.writes;
        self.hdd_read += hdd.read_bytes;
        self.hdd_written += hdd.write_bytes;
        self.ssd_written += ssd.map_or(0, |ssd| ssd.write_bytes);
    }

    fn per_thousand(&self, requests: u64) -> DuelResult {
        #[expect(clippy::cast_precision_loss, reason = "few requests, and bytes far below 2^53")]
        let of = |count: u64| count as f64 * 1_000.0 / requests as f64;
        let mib = |bytes: u64| of(bytes) / 1_048_576.0;
        DuelResult {
            hdd_requests: of(self.hdd_requests),
            hdd_read: mib(self.hdd_read),
            hdd_written: mib(self.hdd_written),
            ssd_written: mib(self.ssd_written),
        }
    }
}
