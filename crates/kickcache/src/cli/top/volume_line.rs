//! A volume: its rates between the last two reports, and the history of its requests.

use std::collections::VecDeque;

use kickcache_daemon::control::condition::Severity;
use kickcache_daemon::control::report::{CacheReport, VolumeReport};

/// As many as a wide terminal shows.
pub(super) const SPANS_MAX: usize = 240;

pub(super) struct VolumeLine {
    pub(super) report: VolumeReport,
    pub(super) cache: String,
    /// The word of the most urgent condition.
    pub(super) health: Option<(&'static str, Severity)>,
    pub(super) rates: Rates,
    /// Reads and writes a second, between each two reports, the latest last.
    pub(super) requests: VecDeque<u64>,
    /// Mean microseconds of a read between each two reports, the latest last; 0 without reads.
    pub(super) read_micros: VecDeque<u64>,
}

/// Rates are for a second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Rates {
    pub(super) reads: f64,
    pub(super) writes: f64,
    pub(super) read_bytes: f64,
    pub(super) write_bytes: f64,
    pub(super) writeback_bytes: f64,
    /// Blocks of reads that were hits.
    pub(super) hit_blocks: u64,
    pub(super) read_blocks: u64,
    /// Mean milliseconds.
    pub(super) read_ms: Option<f64>,
    pub(super) write_ms: Option<f64>,
}

impl VolumeLine {
    pub(super) fn new(
        cache: &CacheReport,
        report: VolumeReport,
        before: Option<VolumeLine>,
        seconds: f64,
    ) -> VolumeLine {
        let (mut requests, mut read_micros, mut rates) = (VecDeque::new(), VecDeque::new(), Rates::default());
        if let Some(before) = before {
            rates = Rates::between(&before.report, &report, seconds);
            (requests, read_micros) = (before.requests, before.read_micros);
            push(&mut requests, rates.reads + rates.writes);
            push(&mut read_micros, rates.read_ms.unwrap_or(0.0) * 1e3);
        }
        VolumeLine { report, cache: cache.device.clone(), health: None, rates, requests, read_micros }
    }

    pub(super) fn hit_ratio(&self) -> Option<f64> {
        let Rates { hit_blocks, read_blocks, .. } = self.rates;
        (read_blocks > 0).then(|| hit_blocks as f64 / read_blocks as f64)
    }
}

impl Rates {
    fn between(before: &VolumeReport, now: &VolumeReport, seconds: f64) -> Rates {
        let [old, new] = [&before.counters, &now.counters];
        let rate = |new: u64, old: u64| new.saturating_sub(old) as f64 / seconds;
        let mean = |old: [(u64, f64); 2], new: [(u64, f64); 2]| {
            let count = |some: [(u64, f64); 2]| some.map(|(count, _)| count).iter().sum::<u64>();
            let total =
                |some: [(u64, f64); 2]| some.map(|(count, mean)| count as f64 * mean).iter().sum::<f64>();
            let requests = count(new).saturating_sub(count(old));
            (requests > 0).then(|| ((total(new) - total(old)) / requests as f64).max(0.0))
        };
        let reads = |report: &VolumeReport| {
            let all = &report.since_start;
            [(all.hits.count, all.hits.mean_ms), (all.misses.count, all.misses.mean_ms)]
        };
        let writes = |report: &VolumeReport| {
            let all = &report.since_start;
            [(all.writes.count, all.writes.mean_ms), (0, 0.0)]
        };
        let hits = new.hit_blocks.saturating_sub(old.hit_blocks);
        Rates {
            reads: rate(new.reads, old.reads),
            writes: rate(new.writes, old.writes),
            read_bytes: rate(new.read_bytes, old.read_bytes),
            write_bytes: rate(new.write_bytes, old.write_bytes),
            writeback_bytes: rate(new.writeback_blocks, old.writeback_blocks) * 4096.0,
            hit_blocks: hits,
            read_blocks: hits + new.miss_blocks.saturating_sub(old.miss_blocks),
            read_ms: mean(reads(before), reads(now)),
            write_ms: mean(writes(before), writes(now)),
        }
    }
}

fn push(kept: &mut VecDeque<u64>, value: f64) {
    if kept.len() == SPANS_MAX {
        kept.pop_front();
    }
    kept.push_back(whole(value));
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "no rate is negative, or that large"
)]
pub(super) fn whole(value: f64) -> u64 {
    value.round() as u64
}
