//! Advice for a served volume, from its curve and the counters of its requests.

use kickcache_command::exit::Failure;
use kickcache_daemon::control::ControlError;
use kickcache_daemon::control::lru_curve::{LruCurve, LruPoint};
use kickcache_daemon::control::report::{Report, VolumeReport};
use kickcache_engine::time::Duration;
use kickcache_model::cache_model::bare::Bare;
use kickcache_model::cache_model::by_chance::ByChance;
use kickcache_model::replay::bench::{Course, run};
use kickcache_model::replay::cache_model::CacheModel;
use kickcache_model::replay::devices::Devices as VirtualDevices;
use kickcache_model::result::RunResult;
use kickcache_model::workload::mix::{Mix, MixShape};
use kickcache_units::{show_bytes, show_rate};

use crate::cli::advise::candidate::{Candidate, Economy, Hits, Layout};
use crate::cli::advise::devices::Devices;
use crate::cli::simulate::pool::Task;

/// Virtual time of a run.
const LENGTH: Duration = Duration::from_millis(20_000);
/// Requests in flight if the user gives no number.
const DEPTH: u32 = 32;
/// Sizes of requests are multiples of a sector.
const SECTOR: u64 = 512;

#[derive(Clone, Debug)]
pub(super) struct LiveVolume {
    name: String,
    shape: MixShape,
    curve: LruCurve,
    /// Reads and writes of its clients a second, since the volume was added.
    rate: f64,
    /// Mean milliseconds of its reads that missed, if there were any.
    origin_ms: Option<f64>,
}

impl LiveVolume {
    pub(super) fn find(report: &Report, name: &str, depth: Option<u32>) -> Result<LiveVolume, Failure> {
        let volumes = || report.caches.iter().flat_map(|cache| &cache.volumes);
        let Some(volume) = volumes().find(|volume| volume.name == name) else {
            let known = volumes().map(|volume| volume.name.clone()).collect();
            return Err(anyhow::anyhow!(ControlError::NoVolume { name: name.into(), known }).into());
        };
        let Some(curve) = volume.lru_curve.clone().filter(|curve| !curve.points.is_empty()) else {
            return Err(anyhow::Error::msg(format!(
                "{name} has had no reads since the daemon started, so there is no basis for advice; try \
                 again later, or give a --trace or a --job"
            ))
            .into());
        };
        Ok(LiveVolume::new(volume, curve, depth.unwrap_or(DEPTH)))
    }

    fn new(volume: &VolumeReport, curve: LruCurve, depth: u32) -> LiveVolume {
        let counters = &volume.counters;
        let requests = (counters.reads + counters.writes).max(1);
        let mean = (counters.read_bytes + counters.write_bytes) / requests;
        let shape = MixShape {
            volume_bytes: volume.size_bytes,
            bytes: mean.next_multiple_of(SECTOR).clamp(SECTOR, volume.size_bytes.max(SECTOR)),
            write_share: counters.writes as f64 / requests as f64,
            depth,
        };
        let rate = volume.since_start.reads_per_second + volume.since_start.writes_per_second;
        let misses = &volume.since_start.misses;
        let origin_ms = (misses.count > 0).then_some(misses.mean_ms);
        LiveVolume { name: volume.name.clone(), shape, curve, rate, origin_ms }
    }

    /// A sentence with the measured latency of the origin; `None` without a read that missed.
    pub(super) fn measured_origin(&self) -> Option<String> {
        let mean = self.origin_ms?;
        Some(format!(
            "measured: reads of {} from the origin took {mean:.2} ms on average; the latencies in the table are of models",
            self.name
        ))
    }

    pub(super) fn volume_bytes(&self) -> u64 {
        self.shape.volume_bytes
    }

    pub(super) fn footprint_bytes(&self) -> u64 {
        self.curve.footprint_bytes
    }

    pub(super) fn description(&self) -> String {
        format!(
            "{}: {} requests a second since the start, of {}, {:.0} % writes; simulated with {} in flight",
            self.name,
            show_rate(self.rate),
            show_bytes(self.shape.bytes),
            self.shape.write_share * 100.0,
            self.shape.depth
        )
    }

    /// The hit ratio of an LRU cache of this many bytes, interpolated from the curve. A cache of the size of the
    /// footprint holds all blocks.
    fn hits(&self, bytes: u64) -> Hits {
        let footprint = self.curve.footprint_bytes;
        let at_most = |point: &LruPoint| LruPoint { cache_bytes: point.cache_bytes.min(footprint), ..*point };
        let points: Vec<LruPoint> = self.curve.points.iter().map(at_most).collect();
        let known = |point: &LruPoint| Hits { ratio: point.hit_ratio, error: Some(point.error) };
        let above = points.iter().position(|point| point.cache_bytes >= bytes);
        match above {
            None => points.last().map_or(Hits { ratio: 0.0, error: None }, known),
            Some(0) => {
                let first = points[0];
                let part = bytes as f64 / first.cache_bytes.max(1) as f64;
                Hits { ratio: first.hit_ratio * part, error: Some(first.error) }
            }
            Some(index) => {
                let (low, high) = (points[index - 1], points[index]);
                let log = |bytes: u64| (bytes.max(1) as f64).ln();
                let span = log(high.cache_bytes) - log(low.cache_bytes);
                let part = (log(bytes) - log(low.cache_bytes)) / span.max(f64::MIN_POSITIVE);
                let ratio = low.hit_ratio + part * (high.hit_ratio - low.hit_ratio);
                Hits { ratio, error: Some(low.error.max(high.error)) }
            }
        }
    }

    pub(super) fn task(&self, layout: Layout, seed: u64, devices: &Devices) -> Task<RunResult> {
        let (shape, origin, cache, fast) =
            (self.shape, devices.origin.clone(), devices.cache.clone(), devices.fast.clone());
        let hits = layout.cache_bytes().map_or(0.0, |bytes| self.hits(bytes).ratio);
        let work = move |progress: &mut dyn FnMut(u64)| {
            let (mut model, mut devices): (Box<dyn CacheModel>, VirtualDevices) = match layout {
                Layout::Origin => (Box::new(Bare::default()), VirtualDevices::bare(origin.start(seed))),
                Layout::Fast => (Box::new(Bare::default()), VirtualDevices::bare(fast.start(seed))),
                Layout::Cached(_) => (
                    Box::new(ByChance::new(hits, seed)),
                    VirtualDevices::cached(cache.start(seed), origin.start(seed.wrapping_add(1))),
                ),
            };
            let course = Course { length: LENGTH, ..Course::default() };
            let mut result = run(course, &mut Mix::new(shape, seed), model.as_mut(), &mut devices, progress);
            result.seed = seed;
            if let Layout::Cached(bytes) = layout {
                result.cache_bytes = Some(bytes);
                result.cache = Some(cache.name.clone());
                result.name = format!("kickcache, {}", show_bytes(bytes));
            }
            result
        };
        Task { name: self.name.clone(), weight: 1, nanos: LENGTH.as_nanos(), work: Box::new(work) }
    }

    /// A candidate: latencies as simulated, at full speed; load and wear as at the volume's own rate.
    pub(super) fn candidate(&self, layout: Layout, runs: &[RunResult], economy: &Economy) -> Candidate {
        let found = Candidate::new(layout, runs, economy);
        let slower = self.rate / found.iops.max(1e-9);
        let hits = layout.cache_bytes().map(|bytes| self.hits(bytes));
        Candidate {
            hits,
            origin_iops: found.origin_iops * slower,
            origin_bytes: found.origin_bytes * slower,
            written_per_day: found.written_per_day.map(|bytes| bytes * slower),
            years: found.years.filter(|_| slower > 0.0).map(|years| years / slower),
            ..found
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume() -> LiveVolume {
        let point = |mib: u64, hit_ratio| LruPoint { cache_bytes: mib << 20, hit_ratio, error: 0.01 };
        let curve = LruCurve {
            read_blocks: 100,
            footprint_bytes: 64 << 20,
            points: vec![point(16, 0.2), point(32, 0.4), point(64, 0.8)],
        };
        let shape = MixShape { volume_bytes: 1 << 30, bytes: 4096, write_share: 0.0, depth: 1 };
        LiveVolume { name: "vm1".into(), shape, curve, rate: 10.0, origin_ms: None }
    }

    #[test]
    fn hits_between_two_points_lie_between_theirs() {
        let ratio = |bytes: u64| (volume().hits(bytes).ratio * 1e6).round() / 1e6;
        let mib = |count: u64| count << 20;
        let found = [mib(8), mib(16), mib(32), mib(45) + (256 << 10), mib(64), mib(1000)].map(ratio);
        assert_eq!(found[..3], [0.1, 0.2, 0.4]);
        assert!((found[3] - 0.6).abs() < 0.01, "{found:?}");
        assert_eq!(found[4..], [0.8, 0.8]);
    }

    #[test]
    fn a_cache_as_large_as_the_footprint_has_all_hits() {
        let mut volume = volume();
        volume.curve.footprint_bytes = 8 << 20;
        volume.curve.points.truncate(1);
        let found = [4, 8, 16, 100].map(|mib: u64| volume.hits(mib << 20).ratio);
        assert_eq!(found, [0.1, 0.2, 0.2, 0.2]);
        volume.curve.footprint_bytes = 20 << 20;
        volume.curve.points = self::volume().curve.points[..2].to_vec();
        assert_eq!([16, 20, 32].map(|mib: u64| volume.hits(mib << 20).ratio), [0.2, 0.4, 0.4]);
    }
}
