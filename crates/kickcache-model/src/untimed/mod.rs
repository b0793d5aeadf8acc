//! The real engine on devices that take no time, except possibly for writes to the cache device: the result is the hits
//! and the bytes written, and no speed.
//!
//! A block of the trace can represent several blocks of the volume, so that segments, batches and headers
//! have the proportions of a real cache: [`Scale`].

pub mod days;
pub mod neighbour;
pub mod sampled;
mod writes;

use std::num::NonZeroU64;
use std::path::Path;

use kickcache_engine::blank_device;
use kickcache_engine::config::{EngineSettings, FILL_WINDOW_MIN, SequentialCutoff, VolumeSettings};
use kickcache_engine::engine::{Engine, Phase};
use kickcache_engine::error::Error;
use kickcache_engine::format::geometry::{DEVICE_SIZE_MAX, DEVICE_SIZE_MIN, Geometry};
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::request::{Durability, Operation, Request, RequestId};
use kickcache_engine::stats::Status;
use kickcache_engine::time::{Duration, Instant, earlier};
use kickcache_engine::units::{BLOCK_SIZE, BlockIndex, ByteExtent, VolumeId};

use crate::ratio::share;
use crate::trace_file::TraceError;
use crate::trace_file::placement::{PlacedAccess, accesses};
use crate::trace_file::survey::{Survey, blocks};
use crate::untimed::writes::Writes;
use crate::workload::Kind;

/// Bytes of the longest request.
const REQUEST_MAX: u64 = 1 << 20;

/// Blocks of the volume that a block of the trace represents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale(pub u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// Only requested blocks, even if they are of sequential streams.
    Exact,
    /// The adaptive fill window of the product; `sequential_cutoff`, in bytes of the trace, decides on
    /// sequential streams.
    Adaptive { sequential_cutoff: SequentialCutoff },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trial {
    /// Blocks of the trace that the segments of the cache device have room for at least, headers included.
    pub cache_blocks: u64,
    pub scale: Scale,
    pub fill: Fill,
    /// Bytes that may be written in a day of the trace, each block counted once.
    pub write_budget: Option<NonZeroU64>,
}

/// The counters; blocks are blocks of the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    pub touched_blocks: u64,
    pub missed_blocks: u64,
    /// Blocks that entered the cache: promoted or written.
    pub admitted_blocks: u64,
    pub reinserted_blocks: u64,
    pub cache_write_bytes: u64,
    pub origin_read_bytes: u64,
    pub read_bytes: u64,
}

impl Outcome {
    pub fn miss_ratio(&self) -> f64 {
        share(self.missed_blocks, self.touched_blocks)
    }

    #[must_use]
    pub fn since(&self, before: Outcome) -> Outcome {
        Outcome {
            touched_blocks: self.touched_blocks - before.touched_blocks,
            missed_blocks: self.missed_blocks - before.missed_blocks,
            admitted_blocks: self.admitted_blocks - before.admitted_blocks,
            reinserted_blocks: self.reinserted_blocks - before.reinserted_blocks,
            cache_write_bytes: self.cache_write_bytes - before.cache_write_bytes,
            origin_read_bytes: self.origin_read_bytes - before.origin_read_bytes,
            read_bytes: self.read_bytes - before.read_bytes,
        }
    }

    pub fn written_per_byte(&self) -> f64 {
        share(self.cache_write_bytes, self.admitted_blocks * BLOCK_SIZE)
    }
}

/// # Errors
/// If the trace cannot be read, or the cache or its volume would be larger than any can be.
pub fn run(path: &Path, survey: &Survey, trial: Trial) -> Result<Outcome, TraceError> {
    let volume_bytes = survey.placement.volume_bytes().saturating_mul(trial.scale.0);
    let mut cache = InstantCache::open(volume_bytes, trial).map_err(std::io::Error::other)?;
    for access in accesses(path, survey)? {
        let PlacedAccess { at, kind, extent } = access?;
        cache.access(at, kind, extent);
    }
    Ok(cache.outcome())
}

pub(crate) struct InstantCache {
    engine: Engine,
    scale: u64,
    now: Instant,
    write_misses: u64,
    touched: u64,
    passed: Passed,
    in_flight: usize,
    writes: Writes,
}

#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    missed_blocks: u64,
    read_bytes: u64,
}

const VOLUME: VolumeId = VolumeId::new(0);
/// Requests in flight at most, if writes take time.
const IN_FLIGHT_MAX: usize = 128;

impl InstantCache {
    pub(crate) fn open(volume_bytes: u64, trial: Trial) -> Result<InstantCache, Error> {
        let size = device_size(trial.cache_blocks * trial.scale.0);
        let mut superblock = Superblock::new([1; 16], size)?;
        let volume = superblock.add_volume("trace", volume_bytes, "trace")?;
        let mut settings = VolumeSettings::new(volume);
        match trial.fill {
            Fill::Exact => {
                (settings.fill_window_max, settings.sequential_cutoff) =
                    (FILL_WINDOW_MIN, SequentialCutoff::Off);
            }
            Fill::Adaptive { sequential_cutoff } => {
                settings.sequential_cutoff = scaled_cutoff(sequential_cutoff, trial.scale);
            }
        }
        let write_budget = trial
            .write_budget
            .map(|bytes| bytes.saturating_mul(NonZeroU64::new(trial.scale.0).unwrap_or(NonZeroU64::MIN)));
        let engine_settings = EngineSettings { write_budget, ..EngineSettings::default() };
        let engine = Engine::open(Instant::ZERO, &superblock, engine_settings, &[settings])?;
        let mut cache = InstantCache {
            engine,
            scale: trial.scale.0,
            now: Instant::ZERO,
            write_misses: 0,
            touched: 0,
            passed: Passed::default(),
            in_flight: 0,
            writes: Writes::new(Duration::from_nanos(0)),
        };
        cache.drive();
        assert_eq!(cache.engine.phase(), Phase::Running, "an empty cache device opens at once");
        Ok(cache)
    }

    pub(crate) fn with_write_time(self, time: Duration) -> InstantCache {
        InstantCache { writes: Writes::new(time), ..self }
    }

    /// One access of the trace; a time before the present counts as the present, and a write of zeroes as a discard.
    pub(crate) fn access(&mut self, at: Instant, kind: Kind, extent: ByteExtent) {
        self.wait_until(at.max(self.now));
        let operation = match kind {
            Kind::Read => Operation::Read,
            Kind::Write => Operation::Write(Durability::Volatile),
            Kind::Discard | Kind::WriteZeroes => Operation::Discard,
            Kind::Flush => Operation::Flush,
        };
        for part in parts(self.scaled(extent)) {
            self.count(kind, part);
            self.request(operation, part);
        }
    }

    /// For a long stream: a read is served from cached blocks and fills none, and a write bypasses the cache
    /// unless the cache has a block of the write.
    pub(crate) fn pass_by(&mut self, at: Instant, kind: Kind, extent: ByteExtent) {
        let scaled = self.scaled(extent);
        if kind == Kind::Write && blocks(scaled).any(|block| self.engine.is_cached(VOLUME, block)) {
            return self.access(at, kind, extent);
        }
        self.wait_until(at.max(self.now));
        if kind == Kind::Write {
            self.touched += scaled.length / BLOCK_SIZE;
            self.write_misses += scaled.length / BLOCK_SIZE;
            return;
        }
        let all: Vec<(BlockIndex, bool)> = blocks(scaled).map(|block| (block, self.holds(block))).collect();
        for run in all.chunk_by(|one, other| one.1 == other.1) {
            let (first, is_cached) = run[0];
            let part = ByteExtent { start: first.byte_offset(), length: run.len() as u64 * BLOCK_SIZE };
            if is_cached {
                parts(part).for_each(|part| self.request(Operation::Read, part));
            } else {
                self.passed.missed_blocks += run.len() as u64;
                self.passed.read_bytes += part.length;
            }
        }
        self.touched += all.len() as u64;
    }

    /// Whether an access of a long stream bypasses the cache: none of its blocks is cached, and the engine
    /// does not accept the stream.
    pub(crate) fn passes_by(&mut self, kind: Kind, extent: ByteExtent) -> bool {
        let scaled = self.scaled(extent);
        let is_new = blocks(scaled).all(|block| !self.holds(block));
        match kind {
            Kind::Read => is_new && !self.engine.takes_stream(VOLUME, Operation::Read, scaled),
            Kind::Write => {
                is_new && !self.engine.takes_stream(VOLUME, Operation::Write(Durability::Volatile), scaled)
            }
            Kind::Flush | Kind::Discard | Kind::WriteZeroes => false,
        }
    }

    pub(crate) fn holds(&self, block: BlockIndex) -> bool {
        self.engine.is_cached(VOLUME, block)
    }

    pub(crate) fn scaled(&self, extent: ByteExtent) -> ByteExtent {
        let whole = extent.widened_to_blocks();
        ByteExtent { start: whole.start * self.scale, length: whole.length * self.scale }
    }

    fn count(&mut self, kind: Kind, extent: ByteExtent) {
        if kind == Kind::Read || kind == Kind::Write {
            self.touched += extent.length / BLOCK_SIZE;
        }
        if kind == Kind::Write {
            let is_missing = |block: &BlockIndex| !self.holds(*block);
            self.write_misses += blocks(extent).filter(is_missing).count() as u64;
        }
    }

    fn request(&mut self, operation: Operation, extent: ByteExtent) {
        let count = match operation {
            Operation::Write(_) => usize::try_from(extent.length / BLOCK_SIZE).expect("at most REQUEST_MAX"),
            _ => 0,
        };
        let checksums = blank_device::checksums(count);
        let request = Request { id: RequestId::new(1), volume: VOLUME, operation, extent, checksums };
        self.engine.handle_request(self.now, request);
        self.in_flight += 1;
        self.drive();
        let most = if self.writes.are_instant() { 1 } else { IN_FLIGHT_MAX };
        self.wait_for_fewer(most);
    }

    fn wait_for_fewer(&mut self, most: usize) {
        while self.in_flight >= most {
            let due = self.next_event().expect("a request in flight waits for something");
            self.pass(due);
        }
    }

    pub(crate) fn finish(&mut self) {
        self.wait_for_fewer(1);
    }

    fn wait_until(&mut self, at: Instant) {
        while let Some(due) = self.next_event().filter(|due| *due <= at) {
            self.pass(due);
        }
        self.now = at;
    }

    fn next_event(&self) -> Option<Instant> {
        earlier(self.engine.poll_timeout(), self.writes.next())
    }

    fn pass(&mut self, due: Instant) {
        self.now = due.max(self.now);
        self.writes.end(&mut self.engine, self.now);
        if self.engine.poll_timeout().is_some_and(|due| due <= self.now) {
            self.engine.handle_timeout(self.now);
        }
        self.drive();
    }

    fn drive(&mut self) {
        loop {
            self.writes.take(&mut self.engine, self.now);
            if self.engine.poll_reply().is_none() {
                return;
            }
            self.in_flight -= 1;
        }
    }

    pub(crate) fn misses(&self) -> u64 {
        self.engine.counters(VOLUME).miss_blocks + self.write_misses + self.passed.missed_blocks
    }

    pub(crate) fn outcome(&self) -> Outcome {
        let Status { counters: cache, volumes, .. } = self.engine.status();
        let volume = volumes[0].counters;
        Outcome {
            touched_blocks: self.touched,
            missed_blocks: self.misses(),
            admitted_blocks: volume.promoted_blocks + volume.logged_blocks,
            reinserted_blocks: cache.reinserted_blocks,
            cache_write_bytes: cache.write_bytes,
            origin_read_bytes: volume.origin_read_bytes + self.passed.read_bytes,
            read_bytes: volume.read_bytes + self.passed.read_bytes,
        }
    }
}

const fn scaled_cutoff(cutoff: SequentialCutoff, Scale(scale): Scale) -> SequentialCutoff {
    match cutoff {
        SequentialCutoff::Off => SequentialCutoff::Off,
        SequentialCutoff::Above(length) => SequentialCutoff::Above(length.saturating_mul(scale)),
        SequentialCutoff::Auto(length) => SequentialCutoff::Auto(length.saturating_mul(scale)),
    }
}

fn parts(whole: ByteExtent) -> impl Iterator<Item = ByteExtent> {
    let starts = (whole.start..whole.end()).step_by(usize::try_from(REQUEST_MAX).expect("1 MiB"));
    starts.map(move |start| ByteExtent { start, length: (whole.end() - start).min(REQUEST_MAX) })
}

/// The most blocks of a trace that a cache can have room for.
pub fn blocks_max(scale: Scale) -> u64 {
    capacity(DEVICE_SIZE_MAX) / scale.0
}

/// The fewest blocks of a trace for which the smallest cache device has room: a smaller request gets this
/// number.
pub fn blocks_min(scale: Scale) -> u64 {
    capacity(DEVICE_SIZE_MIN) / scale.0
}

fn capacity(size: u64) -> u64 {
    Geometry::for_device(size).expect("below 15 TiB").capacity_blocks()
}

/// The smallest cache device whose segments have room for this many blocks, if this number is not too large.
fn device_size(blocks: u64) -> u64 {
    let most = DEVICE_SIZE_MIN + blocks * BLOCK_SIZE * 5 / 4;
    let (mut low, mut high) = (DEVICE_SIZE_MIN, most.min(DEVICE_SIZE_MAX));
    while low < high {
        let middle = low.midpoint(high);
        if capacity(middle) >= blocks { high = middle } else { low = middle + 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference_policy::{self, s3_fifo::S3Fifo};
    use crate::trace_file::survey::survey;

    /// The beginning of a developer's file system: checkouts, searches, small edits; recorded for this project.
    fn excerpt() -> (std::path::PathBuf, Survey) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/untimed/tests/gen_dev.csv.xz");
        let survey = survey(&path, None).unwrap();
        (path, survey)
    }

    fn trial(survey: &Survey, percent: u64, fill: Fill) -> Trial {
        Trial { cache_blocks: survey.footprint * percent / 100, scale: Scale(4), fill, write_budget: None }
    }

    #[test]
    fn the_log_keeps_as_much_at_under_twice_the_writes() {
        let (path, survey) = excerpt();
        for percent in [10, 50] {
            let trial = trial(&survey, percent, Fill::Exact);
            let found = run(&path, &survey, trial).unwrap();
            let best = reference_policy::run(&path, &survey, &mut S3Fifo::new(trial.cache_blocks)).unwrap();
            let reference = share(best.missed_blocks, best.touched_blocks);
            assert!(
                found.miss_ratio() < reference + 0.04,
                "{percent} %: {found:?}, S3-FIFO misses {reference}"
            );
            assert!(found.written_per_byte() < 2.0, "{percent} %: {found:?}");
        }
    }

    #[test]
    fn writes_that_wait_for_room_reclaim_only_the_needed_segments() {
        const MIB: u64 = 1 << 20;
        let trial = Trial {
            cache_blocks: 16 * MIB / BLOCK_SIZE,
            scale: Scale(1),
            fill: Fill::Exact,
            write_budget: None,
        };
        let mut cache = InstantCache::open(512 * MIB, trial).unwrap();
        let mebibyte = |number: u64| ByteExtent { start: number * MIB, length: MIB };
        (0..32).for_each(|number| cache.access(Instant::ZERO, Kind::Read, mebibyte(number)));
        let cached = |cache: &InstantCache| cache.engine.status().volumes[0].cached_blocks;
        let full = cached(&cache);
        for number in 0..400 {
            cache.access(Instant::ZERO, Kind::Write, mebibyte(64 + number));
            let left = cached(&cache);
            assert!(left * 10 > full * 8, "{left} blocks of {full} after {number} writes");
        }
    }

    #[test]
    fn the_adaptive_fill_window_hits_more_often() {
        let (path, survey) = excerpt();
        let exact = run(&path, &survey, trial(&survey, 50, Fill::Exact)).unwrap();
        let adaptive = run(
            &path,
            &survey,
            trial(&survey, 50, Fill::Adaptive { sequential_cutoff: SequentialCutoff::Off }),
        )
        .unwrap();
        assert!(adaptive.missed_blocks < exact.missed_blocks, "{adaptive:?} {exact:?}");
        assert!(adaptive.origin_read_bytes < exact.origin_read_bytes * 2, "{adaptive:?} {exact:?}");
    }

    #[test]
    fn a_backup_bypasses_the_cache_and_leaves_hot_blocks() {
        const MIB: u64 = 1 << 20;
        let cutoff = SequentialCutoff::default();
        let fill = Fill::Adaptive { sequential_cutoff: cutoff };
        let trial = Trial { cache_blocks: 128 * MIB / BLOCK_SIZE, scale: Scale(1), fill, write_budget: None };
        let mut cache = InstantCache::open(2_048 * MIB, trial).unwrap();
        let read = |cache: &mut InstantCache, at: u64, length: u64| {
            cache.access(Instant::ZERO, Kind::Read, ByteExtent { start: at, length });
        };
        let hot = |cache: &mut InstantCache| {
            let before = cache.misses();
            (0..64 * 16).for_each(|number| read(cache, number * 601 % (64 * 16) * (MIB / 16), MIB / 16));
            cache.misses() - before
        };
        // The cache is full of hot blocks and of blocks that were read once.
        for _ in 0..3 {
            hot(&mut cache);
        }
        (0..2_048)
            .for_each(|number| read(&mut cache, 1_024 * MIB + number * 331 % 2_048 * (MIB / 2), MIB / 16));
        hot(&mut cache);
        let before = cache.outcome();
        (0..512 * 4).for_each(|number| read(&mut cache, 128 * MIB + number * (MIB / 4), MIB / 4));
        let found = cache.outcome().since(before);
        let entered = found.admitted_blocks * BLOCK_SIZE / MIB;
        assert!(entered <= 128 / 8 + 5, "{entered} MiB of 512");
        assert!(hot(&mut cache) * BLOCK_SIZE < 2 * MIB, "hot blocks stay");
    }
}
