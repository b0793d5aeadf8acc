//! The comparison of kickcache with the best of the other caches.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::grid::figures::{Figures, LatencyFigures};
use crate::result::Pacing;

/// Factors are relative to the best figure of the other caches or without a cache.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Least factor of the reads and writes a second.
    pub iops: f64,
    /// Greatest factor of a mean latency after the first minute.
    pub mean: f64,
    pub p99: f64,
    #[serde(rename = "p99.9")]
    pub p99_9: f64,
    /// Greatest factor of a 99.9th percentile of the first minute.
    #[serde(rename = "first minute")]
    pub first_minute: f64,
    /// Microseconds that each latency may be longer, in addition to its factor.
    pub slack_us: f64,
    /// Percentage points that the hit ratio may be below the best of the other caches.
    pub hits: f64,
    /// Greatest number of bytes written to the cache device for each byte that clients wrote or that was
    /// promoted, for a load without a rate.
    pub written: f64,
    /// As `written`, for a load with a rate.
    #[serde(rename = "written, paced")]
    pub written_paced: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    Iops,
    Latency(Side, Statistic),
    Hits,
    Written,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Reads after the first minute.
    Reads,
    Writes,
    FirstReads,
    FirstWrites,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statistic {
    Mean,
    P99,
    P99Point9,
}

pub const MEASURES: [Measure; 11] = [
    Measure::Iops,
    Measure::Latency(Side::Reads, Statistic::Mean),
    Measure::Latency(Side::Reads, Statistic::P99),
    Measure::Latency(Side::Reads, Statistic::P99Point9),
    Measure::Latency(Side::Writes, Statistic::Mean),
    Measure::Latency(Side::Writes, Statistic::P99),
    Measure::Latency(Side::Writes, Statistic::P99Point9),
    Measure::Latency(Side::FirstReads, Statistic::P99Point9),
    Measure::Latency(Side::FirstWrites, Statistic::P99Point9),
    Measure::Hits,
    Measure::Written,
];

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Comparison {
    pub measure: Measure,
    pub found: f64,
    /// The best figure of the other caches or without a cache; for [`Measure::Hits`], of the other caches
    /// alone; for [`Measure::Written`], the bound.
    pub best: f64,
    pub limit: f64,
}

impl Statistic {
    fn of(self, latencies: LatencyFigures) -> f64 {
        match self {
            Statistic::Mean => latencies.mean,
            Statistic::P99 => latencies.p99,
            Statistic::P99Point9 => latencies.p99_9,
        }
    }
}

impl Side {
    fn of(self, figures: &Figures) -> Option<LatencyFigures> {
        match self {
            Side::Reads => figures.reads,
            Side::Writes => figures.writes,
            Side::FirstReads => figures.first_reads,
            Side::FirstWrites => figures.first_writes,
        }
    }
}

impl Measure {
    /// The figure; `None` for a latency of too few accesses.
    pub fn of(self, figures: &Figures) -> Option<f64> {
        match self {
            Measure::Iops => Some(figures.iops),
            Measure::Latency(side, statistic) => side.of(figures).map(|found| statistic.of(found)),
            Measure::Hits => Some(figures.hits),
            Measure::Written => Some(figures.written),
        }
    }

    pub fn grows(self) -> bool {
        matches!(self, Measure::Iops | Measure::Hits)
    }

    fn limit(self, best: f64, bounds: &Bounds) -> f64 {
        match self {
            Measure::Iops => bounds.iops * best,
            Measure::Latency(Side::FirstReads | Side::FirstWrites, _) => {
                bounds.first_minute * best + bounds.slack_us
            }
            Measure::Latency(_, Statistic::Mean) => bounds.mean * best + bounds.slack_us,
            Measure::Latency(_, Statistic::P99) => bounds.p99 * best + bounds.slack_us,
            Measure::Latency(_, Statistic::P99Point9) => bounds.p99_9 * best + bounds.slack_us,
            Measure::Hits => best - bounds.hits,
            Measure::Written => best,
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct CaseFigures {
    pub judged: Figures,
    pub bare: Figures,
    pub others: Vec<Figures>,
}

impl CaseFigures {
    /// Compares every figure that all caches have.
    pub fn comparisons(&self, bounds: &Bounds, pacing: Pacing) -> Vec<Comparison> {
        let comparison = |measure: Measure| {
            let found = measure.of(&self.judged)?;
            let best = self.best(measure, bounds, pacing)?;
            Some(Comparison { measure, found, best, limit: measure.limit(best, bounds) })
        };
        MEASURES.into_iter().filter_map(comparison).collect()
    }

    fn best(&self, measure: Measure, bounds: &Bounds, pacing: Pacing) -> Option<f64> {
        let bare = (measure != Measure::Hits).then_some(&self.bare);
        let all = bare.into_iter().chain(&self.others).map(|figures| measure.of(figures));
        let all: Vec<f64> = all.collect::<Option<_>>()?;
        match measure {
            Measure::Written if pacing == Pacing::Open => Some(bounds.written_paced),
            Measure::Written => Some(bounds.written),
            Measure::Iops | Measure::Hits => all.into_iter().reduce(f64::max),
            Measure::Latency(..) => all.into_iter().reduce(f64::min),
        }
    }
}

impl Comparison {
    pub fn is_within(&self) -> bool {
        if self.measure.grows() { self.found >= self.limit } else { self.found <= self.limit }
    }

    /// How many times as bad as the limit it is; at most 1 within the bound.
    pub fn excess(&self) -> f64 {
        let (worse, better) =
            if self.measure.grows() { (self.limit, self.found) } else { (self.found, self.limit) };
        worse / better.max(f64::MIN_POSITIVE)
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Reads => "reads",
            Side::Writes => "writes",
            Side::FirstReads => "reads, first minute",
            Side::FirstWrites => "writes, first minute",
        })
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Statistic::Mean => "mean",
            Statistic::P99 => "p99",
            Statistic::P99Point9 => "p99.9",
        })
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::Iops => f.write_str("IOPS"),
            Measure::Latency(side, statistic) => write!(f, "{side} {statistic}"),
            Measure::Hits => f.write_str("hits"),
            Measure::Written => f.write_str("written per byte"),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison { measure, found, best, .. } = self;
        match measure {
            Measure::Iops => write!(f, "{measure} {found:.0} for {best:.0}"),
            Measure::Latency(..) => {
                write!(f, "{measure} {found:.0} us for {best:.0} ({:.1}x)", found / best)
            }
            Measure::Hits => write!(f, "{measure} {found:.1} % for {best:.1} %"),
            Measure::Written => write!(f, "written {found:.2} per byte"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::set::{DEFAULT, GridSet};

    fn figures(iops: f64, hits: f64, micros: f64) -> Figures {
        let latencies = LatencyFigures { mean: micros, p99: 2.0 * micros, p99_9: 3.0 * micros };
        Figures {
            iops,
            hits,
            written: 2.5,
            origin_flushes: 0,
            reads: Some(latencies),
            writes: None,
            first_reads: Some(latencies),
            first_writes: None,
        }
    }

    #[test]
    fn each_figure_is_compared_with_the_best_of_the_others() {
        let bounds = GridSet::parse(DEFAULT).unwrap().bounds;
        let compared = CaseFigures {
            judged: figures(960.0, 70.0, 1_000.0),
            bare: figures(1_000.0, 0.0, 500.0),
            others: vec![figures(900.0, 70.4, 2_000.0), figures(800.0, 60.0, 3_000.0)],
        };
        let missed = |pacing| {
            let all = compared.comparisons(&bounds, pacing);
            let missed = all.iter().filter(|comparison| !comparison.is_within()).map(ToString::to_string);
            missed.collect::<Vec<_>>().join("; ")
        };
        let latencies = "IOPS 960 for 1000; reads mean 1000 us for 500 (2.0x); reads p99 2000 us for 1000 (2.0x); \
                         reads p99.9 3000 us for 1500 (2.0x)";
        assert_eq!(missed(Pacing::Open), latencies);
        assert_eq!(missed(Pacing::Closed), format!("{latencies}; written 2.50 per byte"));
    }
}
