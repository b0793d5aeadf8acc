//! One way to store the data, and its results.

use std::time::Duration;

use kickcache_model::result::{Pacing, RunResult};
use kickcache_model::statistics::median;
use kickcache_units::show_bytes;

use crate::cli::advise::price::Prices;

const SECONDS_PER_DAY: f64 = 86_400.0;
const DAYS_PER_YEAR: f64 = 365.25;

/// The place of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// On the origin.
    Origin,
    /// On the origin, with a cache of this many bytes.
    Cached(u64),
    /// All data on a fast device.
    Fast,
}

impl Layout {
    pub(crate) fn cache_bytes(self) -> Option<u64> {
        match self {
            Layout::Cached(bytes) => Some(bytes),
            Layout::Origin | Layout::Fast => None,
        }
    }

    pub(crate) fn among(self, candidates: &[Candidate]) -> Option<&Candidate> {
        candidates.iter().find(|one| one.layout == self)
    }
}

/// How often the cache hits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Hits {
    pub(crate) ratio: f64,
    /// The error of the estimate; `None` if it is unknown.
    pub(crate) error: Option<f64>,
}

/// A way to store the data, with its figures.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Candidate {
    pub(crate) layout: Layout,
    pub(crate) iops: f64,
    pub(crate) mean: Duration,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) hits: Option<Hits>,
    /// Reads and writes of the origin a second, or of a fast device with all data.
    pub(crate) origin_iops: f64,
    /// Bytes that the origin, or a fast device with all data, reads and writes a second.
    pub(crate) origin_bytes: f64,
    /// Bytes written to the cache device a day; `None` without one.
    pub(crate) written_per_day: Option<f64>,
    /// Years that the cache device lasts, if they are known.
    pub(crate) years: Option<f64>,
    /// The cost a month, if it is known.
    pub(crate) cost: Option<f64>,
    /// Whether the load decides the rate.
    pub(crate) is_open: bool,
}

/// The parameters of cost and life.
#[derive(Clone, Debug)]
pub(crate) struct Economy {
    pub(crate) prices: Prices,
    pub(crate) volume_bytes: u64,
    /// Bytes that may be written to the cache device in its life.
    pub(crate) endurance_bytes: Option<u64>,
}

impl Candidate {
    pub(crate) fn new(layout: Layout, runs: &[RunResult], economy: &Economy) -> Candidate {
        let of = |figure: &dyn Fn(&RunResult) -> f64| {
            median(&runs.iter().map(figure).collect::<Vec<f64>>()).unwrap_or(0.0)
        };
        // The counters of devices include the ramp time.
        let seconds = |run: &RunResult| (run.nanos + run.ramp_nanos).max(1) as f64 / 1e9;
        let per_second = |run: &RunResult, amount: u64| amount as f64 / seconds(run);
        let origin = |run: &RunResult, figure: fn(&kickcache_model::result::DeviceResult) -> u64| {
            run.origin_device.as_ref().map_or(0.0, |device| per_second(run, figure(device)))
        };
        let written = of(&|run: &RunResult| {
            run.cache_device.as_ref().map_or(0.0, |device| per_second(run, device.write_bytes))
        });
        let written_per_day = layout.cache_bytes().map(|_| written * SECONDS_PER_DAY);
        let nanos = |nanos: f64| Duration::from_secs_f64(nanos.max(0.0) / 1e9);
        Candidate {
            layout,
            iops: of(&RunResult::iops),
            mean: nanos(of(&|run: &RunResult| run.latencies().mean())),
            p50: nanos(of(&|run: &RunResult| run.latencies().p50() as f64)),
            p99: nanos(of(&|run: &RunResult| run.latencies().p99() as f64)),
            hits: hits(runs),
            origin_iops: of(&|run: &RunResult| origin(run, |device| device.reads + device.writes)),
            origin_bytes: of(&|run: &RunResult| origin(run, |device| device.read_bytes + device.write_bytes)),
            written_per_day,
            years: economy.years(written_per_day),
            cost: economy.cost(layout),
            is_open: runs.iter().all(|run| run.pacing == Pacing::Open),
        }
    }

    /// The speed of the candidate: more is better.
    pub(crate) fn speed(&self) -> f64 {
        if self.is_open { 1.0 / self.mean.as_secs_f64().max(1e-9) } else { self.iops }
    }

    pub(crate) fn times(&self, other: &Candidate) -> f64 {
        self.speed() / other.speed().max(f64::MIN_POSITIVE)
    }

    pub(crate) fn name(&self) -> String {
        match self.layout {
            Layout::Origin => "no cache".into(),
            Layout::Cached(bytes) => format!("cache of {}", show_bytes(bytes)),
            Layout::Fast => "all on the fast device".into(),
        }
    }
}

fn hits(runs: &[RunResult]) -> Option<Hits> {
    let ratios: Vec<f64> = runs.iter().filter_map(RunResult::hit_ratio).collect();
    let ratio = median(&ratios)?;
    let off = ratios.iter().map(|one| (one - ratio).abs()).fold(0.0, f64::max);
    Some(Hits { ratio, error: (ratios.len() > 1).then_some(off) })
}

impl Economy {
    fn cost(&self, layout: Layout) -> Option<f64> {
        let Prices { cache, origin, fast, .. } = &self.prices;
        let of_origin = origin.map_or(0.0, |price| price.of(self.volume_bytes));
        match layout {
            Layout::Origin => self.prices.are_known().then_some(of_origin),
            Layout::Cached(bytes) => Some(cache.as_ref()?.of(bytes) + of_origin),
            Layout::Fast => Some(fast.or(*cache)?.of(self.volume_bytes)),
        }
    }

    fn years(&self, written_per_day: Option<f64>) -> Option<f64> {
        let written = written_per_day.filter(|bytes| *bytes > 0.0)?;
        Some(self.endurance_bytes? as f64 / written / DAYS_PER_YEAR)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::cli::advise) fn candidate(layout: Layout, iops: f64, cost: Option<f64>) -> Candidate {
        Candidate {
            layout,
            iops,
            mean: Duration::from_millis(1),
            p50: Duration::from_millis(1),
            p99: Duration::from_millis(5),
            hits: None,
            origin_iops: 0.0,
            origin_bytes: 0.0,
            written_per_day: None,
            years: None,
            cost,
            is_open: false,
        }
    }
}
