//! The counters at a moment, and their differences between two moments.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use kickcache_engine::units::BLOCK_SIZE;

use crate::control::report::{CacheReport, Report, VolumeReport};
use crate::latency::LatencyHistogram;
use crate::metrics::live::busy::BusyClock;
use crate::metrics::live::history::{COLUMN_COUNT, Row, Rows, Subject};

/// The columns of a volume. Counts and bytes are rates per second, except `dirty_bytes` and `cached_bytes`;
/// times are means, and `origin_busy` is a share.
pub(super) const VOLUME_COLUMNS: [&str; COLUMN_COUNT] = [
    "hits",
    "misses",
    "writes",
    "hit_ms",
    "miss_ms",
    "write_ms",
    "hit_bytes",
    "miss_bytes",
    "dirty_bytes",
    "writeback_bytes",
    "origin_busy",
    "cached_bytes",
];
/// The columns of a cache device. Bytes and errors are rates per second, except `dirty_bytes`; `busy` and
/// `full` are shares.
pub(super) const CACHE_COLUMNS: [&str; COLUMN_COUNT] =
    ["busy", "read_bytes", "write_bytes", "dirty_bytes", "full", "errors", "", "", "", "", "", ""];

#[derive(Clone)]
pub(super) struct Totals {
    pub(super) at: Instant,
    of: BTreeMap<Subject, Counters>,
}

#[derive(Clone, Default)]
struct Counters {
    grows: [u64; COLUMN_COUNT],
    /// Present values, which can also fall.
    stands: [f64; 2],
    busy_millis: Option<u64>,
}

impl Totals {
    pub(super) fn of(at: Instant, report: &Report, busy: &mut BusyClock) -> Totals {
        let mut of = BTreeMap::new();
        for cache in &report.caches {
            for volume in &cache.volumes {
                let busy_millis = busy.origin_millis(&volume.origin);
                let counters = Counters { busy_millis, ..volume_counters(volume) };
                of.insert(Subject::Volume(volume.name.clone()), counters);
            }
            let busy_millis = busy.millis(Path::new(&cache.device));
            of.insert(
                Subject::Cache(cache.device.clone()),
                Counters { busy_millis, ..cache_counters(cache) },
            );
        }
        Totals { at, of }
    }

    /// Rates, means and present values, for the subjects of an earlier moment and of this one.
    pub(super) fn rows_since(&self, before: &Totals) -> Rows {
        let seconds = self.at.duration_since(before.at).as_secs_f64().max(1e-3);
        let row = |(subject, counters): (&Subject, &Counters)| {
            let row = counters.row(subject, before.of.get(subject)?, seconds);
            Some((subject.clone(), row))
        };
        self.of.iter().filter_map(row).collect()
    }
}

fn volume_counters(volume: &VolumeReport) -> Counters {
    let latencies = volume.latencies.unwrap_or_default();
    let [hits, misses, writes] = [latencies.hits, latencies.misses, latencies.writes];
    let count = |histogram: &LatencyHistogram| histogram.count();
    let counters = &volume.counters;
    let (hit, miss) = (counters.hit_blocks * BLOCK_SIZE, counters.miss_blocks * BLOCK_SIZE);
    let writeback = counters.writeback_blocks * BLOCK_SIZE;
    let nanos = [hits.total_nanos, misses.total_nanos, writes.total_nanos];
    Counters {
        grows: [
            count(&hits),
            count(&misses),
            count(&writes),
            nanos[0],
            nanos[1],
            nanos[2],
            hit,
            miss,
            0,
            writeback,
            0,
            0,
        ],
        stands: [volume.dirty_bytes as f64, volume.cached_bytes as f64],
        busy_millis: None,
    }
}

fn cache_counters(cache: &CacheReport) -> Counters {
    let counters = &cache.counters;
    let full = 1.0 - cache.free_segments as f64 / cache.segments.max(1) as f64;
    let grows = [0, counters.read_bytes, counters.write_bytes, 0, 0, counters.errors, 0, 0, 0, 0, 0, 0];
    Counters { grows, stands: [cache.dirty_bytes() as f64, full], busy_millis: None }
}

impl Counters {
    fn row(&self, subject: &Subject, before: &Counters, seconds: f64) -> Row {
        let grown = |column: usize| self.grows[column].saturating_sub(before.grows[column]) as f64;
        let rate = |column: usize| grown(column) / seconds;
        // Without requests the mean is NaN.
        let mean_millis = |column: usize| grown(column + 3) / grown(column) / 1e6;
        let busy = match (self.busy_millis, before.busy_millis) {
            (Some(now), Some(then)) => (now.saturating_sub(then) as f64 / seconds / 1e3).min(1.0),
            (_, _) => f64::NAN,
        };
        let [first, second] = self.stands;
        let none = f64::NAN;
        let row = match subject {
            Subject::Volume(_) => [
                rate(0),
                rate(1),
                rate(2),
                mean_millis(0),
                mean_millis(1),
                mean_millis(2),
                rate(6),
                rate(7),
                first,
                rate(9),
                busy,
                second,
            ],
            Subject::Cache(_) => {
                [busy, rate(1), rate(2), first, second, rate(5), none, none, none, none, none, none]
            }
        };
        row.map(short)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "seven digits are more than a chart shows")]
fn short(number: f64) -> f32 {
    number as f32
}
