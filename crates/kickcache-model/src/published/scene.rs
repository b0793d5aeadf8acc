//! A scene: the cache in front of the disk, the amount of data, and the cache's content at the start.

use kickcache_engine::config::Mode;
use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::ByteExtent;

use crate::cache_model::bare::Bare;
use crate::cache_model::bcache::{Bcache, BcacheShape};
use crate::cache_model::block_state::BlockState;
use crate::cache_model::dm_cache::age::Age;
use crate::cache_model::dm_cache::{DmCache, DmCacheShape, WriteMode};
use crate::device_model::DeviceModel;
use crate::device_model::disk::Disk;
use crate::device_model::disk::parameters::DiskParameters;
use crate::device_model::mirror::Mirror;
use crate::device_model::ssd::{Ssd, SsdParameters};
use crate::published::load::{Order, Sweep, SweepShape, ZipfReads};
use crate::replay::bench::{Course, Progress, run, run_idle};
use crate::replay::cache_model::CacheModel;
use crate::replay::devices::Devices;
use crate::replay::real_engine::Kickcache;
use crate::result::RunResult;
use crate::workload::Kind;

const GIB: u64 = 1 << 30;
const ORIGIN_BYTES: u64 = 50 * GIB;
/// Bytes of the origin of bcache and of kickcache: 48 GiB of data and the blocks of deleted files fit.
const ROOMY_ORIGIN_BYTES: u64 = 64 * GIB;
const CACHE_BYTES: u64 = 4 * GIB;
const BCACHE_BYTES: u64 = 5 * GIB;
/// Where the files lie that were deleted: behind all data.
const STALE_AT: u64 = 52 * GIB;
/// Bytes that an ext4 file system of [`ORIGIN_BYTES`] writes before it has a file: the tables of its inodes
/// (3,276,800 of 256 bytes) and its journal, as mke2fs makes them.
const TABLE_BYTES: u64 = (800 + 256) << 20;
const TABLES_AT: u64 = ORIGIN_BYTES - TABLE_BYTES;
const DM_STALE_AT: u64 = TABLES_AT - CACHE_BYTES;
/// Bytes of a block of dm-cache: lvm's default.
const DM_BLOCK_BYTES: u64 = 64 << 10;
/// Bytes of the cache that hold no data.
const DM_OVERHEAD: u64 = 8 << 20;
/// Processor time of a job for each read, as the rows of the bare SSD imply.
const COST: Duration = Duration::from_micros(12);
/// A run with a cache ends early, and its rate is assumed to stay, if its last `STEADY` seconds were like the
/// `STEADY` seconds before.
const STEADY: usize = 60;
/// Length of the run of the bare SSD, in seconds: its rate is constant.
const SSD_SECONDS: u64 = 60;
/// Reads of the deleted files before the run, for each block of the cache.
const STALE_READS: u64 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cache {
    BareSsd,
    BareDisk,
    DmCache(Age),
    Bcache {
        /// Sequential cut-off in bytes; 0 for none.
        cutoff: u64,
    },
    Kickcache,
}

/// The models of caches support some of these contents, and start empty otherwise: dm-cache all but
/// [`Start::FirstFile`], bcache [`Start::FirstFile`], kickcache [`Start::Stale`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    Empty,
    /// The tables and the journal of a new file system.
    NewFileSystem,
    /// Blocks of deleted files, which were used a lot.
    Stale,
    /// Blocks of deleted files, which were written just before and are only in the cache.
    StaleDirty,
    FirstFile,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disks {
    Pair,
    /// One disk of the pair, as during the resynchronisation of a mirror.
    One,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scene {
    pub cache: Cache,
    /// Data of all files, in GiB.
    pub data_gib: u64,
    pub start: Start,
    pub jobs: u64,
    pub disks: Disks,
}

fn ssd(seed: u64) -> Box<dyn DeviceModel> {
    Box::new(Ssd::new(SsdParameters::articles(), seed))
}

impl Disks {
    fn start(self, seed: u64) -> Box<dyn DeviceModel> {
        match self {
            Disks::Pair => Box::new(Mirror::new(DiskParameters::rpm_5400(), seed)),
            Disks::One => Box::new(Disk::new(DiskParameters::rpm_5400(), seed)),
        }
    }
}

/// A device that takes hardly any time.
fn quick(seed: u64) -> Box<dyn DeviceModel> {
    let articles = SsdParameters::articles();
    let quick =
        SsdParameters { command: 0.1, bandwidth: 1e5, read_median: 1.0, write_median: 1.0, ..articles };
    Box::new(Ssd::new(SsdParameters { dies: 1024, flush: 1.0, ..quick }, seed))
}

struct Ready {
    model: Box<dyn CacheModel>,
    at: Instant,
    devices: Devices,
}

impl Scene {
    /// # Panics
    /// If the sizes are impossible.
    pub fn run(&self, minutes: u64, seed: u64, progress: Progress<'_>) -> RunResult {
        let mut ready = self.prepare(seed);
        let seconds = if self.cache == Cache::BareSsd { SSD_SECONDS } else { minutes * 60 };
        let steady = (self.cache != Cache::BareSsd && self.cache != Cache::BareDisk).then_some(STEADY);
        let length = Duration::from_millis(seconds * 1_000);
        let course = Course { start: ready.at, length, cost: COST, steady, ..Course::default() };
        let jobs = usize::try_from(self.jobs).expect("few jobs");
        let mut load = ZipfReads::new(jobs, 0, self.data_gib * GIB / 2, seed, u64::MAX);
        let mut result = run(course, &mut load, ready.model.as_mut(), &mut ready.devices, progress);
        result.seed = seed;
        result.workload = format!("{} jobs of random reads, zipf 1.2, {} GiB", self.jobs, self.data_gib);
        result.origin = match self.disks {
            Disks::Pair => "a mirrored pair of ST4000LM016".into(),
            Disks::One => "one ST4000LM016".into(),
        };
        result.name = self.name().into();
        result
    }

    pub fn name(&self) -> &'static str {
        match self.cache {
            Cache::BareSsd => "SSD",
            Cache::BareDisk => "disk",
            Cache::DmCache(_) => "dm-cache",
            Cache::Bcache { .. } => "bcache",
            Cache::Kickcache => "kickcache",
        }
    }

    fn prepare(&self, seed: u64) -> Ready {
        let bare = |device| Ready {
            model: Box::new(Bare::default()),
            at: Instant::ZERO,
            devices: Devices::bare(device),
        };
        match self.cache {
            Cache::BareSsd => bare(ssd(seed)),
            Cache::BareDisk => bare(self.disks.start(seed)),
            Cache::DmCache(age) => self.prepare_dm_cache(age, seed),
            Cache::Bcache { cutoff } => self.prepare_bcache(cutoff, seed),
            Cache::Kickcache => self.prepare_kickcache(seed),
        }
    }

    fn prepare_dm_cache(&self, age: Age, seed: u64) -> Ready {
        let mut cache = DmCache::new(DmCacheShape {
            age,
            block_bytes: DM_BLOCK_BYTES,
            cache_bytes: CACHE_BYTES - DM_OVERHEAD,
            origin_bytes: ORIGIN_BYTES,
            mode: WriteMode::Back,
        });
        let mut devices = Devices::cached(ssd(seed), self.disks.start(seed + 1));
        let mut at = Instant::ZERO;
        match self.start {
            Start::Empty | Start::FirstFile => {}
            Start::NewFileSystem => {
                let tables = ByteExtent { start: TABLES_AT, length: TABLE_BYTES };
                at = lay_out(&mut cache, &mut devices, at, tables);
            }
            Start::Stale => cache.fill_with_stale_data(DM_STALE_AT, BlockState::Clean),
            Start::StaleDirty => cache.fill_with_stale_data(DM_STALE_AT, BlockState::Dirty),
        }
        if self.start != Start::StaleDirty {
            at = run_idle(&mut cache, &mut devices, at, Duration::from_millis(120_000));
        }
        let files = ByteExtent { start: 0, length: self.data_gib * GIB };
        let at = lay_out(&mut cache, &mut devices, at, files);
        // The run uses the same devices: background work of the cache is in flight there.
        Ready { model: Box::new(cache), at, devices }
    }

    fn prepare_bcache(&self, cutoff: u64, seed: u64) -> Ready {
        let mut cache = Bcache::new(BcacheShape {
            cache_bytes: BCACHE_BYTES,
            origin_bytes: ROOMY_ORIGIN_BYTES,
            sequential_cutoff: cutoff,
            seed,
        });
        if self.start == Start::FirstFile {
            cache.fill(ByteExtent { start: 0, length: self.data_gib * GIB / 2 });
        }
        let devices = Devices::cached(ssd(seed), self.disks.start(seed + 1));
        Ready { model: Box::new(cache), at: Instant::ZERO, devices }
    }

    fn prepare_kickcache(&self, seed: u64) -> Ready {
        let change =
            |settings: &mut kickcache_engine::config::VolumeSettings| settings.mode = Mode::WriteBack;
        let mut cache = Kickcache::new(CACHE_BYTES, ROOMY_ORIGIN_BYTES, change).expect("possible sizes");
        let mut at = Instant::ZERO;
        if self.start == Start::Stale {
            at = fill_with_stale_data(&mut cache, CACHE_BYTES, STALE_AT, seed);
        }
        Ready { model: Box::new(cache), at, devices: Devices::cached(ssd(seed), self.disks.start(seed + 1)) }
    }
}

/// Writes an extent, as fio does before it reads its files; returns the time of completion.
fn lay_out(cache: &mut dyn CacheModel, devices: &mut Devices, at: Instant, stretch: ByteExtent) -> Instant {
    let kind = Kind::Write;
    let (order, block_bytes) = (Order::Sequential, 16 * DM_BLOCK_BYTES);
    let ByteExtent { start, length: bytes } = stretch;
    let shape = SweepShape { kind, order, block_bytes, start, bytes, jobs: 1, depth: 2 };
    let length = Duration::from_millis(10_000_000);
    let course = Course { start: at, length, cost: COST, steady: None, ..Course::default() };
    let result = run(course, &mut Sweep::new(shape), cache, devices, &mut |_| ());
    at.plus(Duration::from_nanos(result.nanos))
}

/// Fills a cache with the blocks of files that are read a lot and then deleted; returns the time of the end.
pub fn fill_with_stale_data(cache: &mut dyn CacheModel, cache_bytes: u64, start: u64, seed: u64) -> Instant {
    let mut devices = Devices::cached(quick(seed), quick(seed + 1));
    let length = Duration::from_millis(10_000_000);
    let cost = Duration::from_micros(1);
    let (kind, order, block_bytes) = (Kind::Read, Order::Scattered, 64 << 10);
    let bytes = cache_bytes.next_power_of_two();
    let shape = SweepShape { kind, order, block_bytes, start, bytes, jobs: 1, depth: 16 };
    let mut course = Course { start: Instant::ZERO, length, cost, steady: None, ..Course::default() };
    let result = run(course, &mut Sweep::new(shape), cache, &mut devices, &mut |_| ());
    let pause = Duration::from_millis(2_000);
    course.start = run_idle(cache, &mut devices, Instant::from_nanos(result.nanos), pause);
    let mut reads = ZipfReads::new(2, start, bytes / 2, seed + 7, STALE_READS * bytes / 4096);
    let result = run(course, &mut reads, cache, &mut devices, &mut |_| ());
    run_idle(cache, &mut devices, course.start.plus(Duration::from_nanos(result.nanos)), pause)
}
