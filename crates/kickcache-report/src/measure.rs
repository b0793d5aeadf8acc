//! What runs are compared by.

use kickcache_model::result::{Pacing, RunResult};
use kickcache_units::show_whole;

use crate::plot::axis::show_nanos;
use crate::repeated::Repeated;

/// The figure that ratios are of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Measure {
    /// Operations a second.
    Rate,
    /// The mean latency: of a load that comes at times of its own, whose rate says nothing about the devices.
    MeanLatency,
}

impl Measure {
    /// That of some runs.
    pub(crate) fn of(runs: &[Repeated<'_>]) -> Measure {
        let is_open = |known: &Repeated<'_>| known.run.pacing == Pacing::Open;
        if !runs.is_empty() && runs.iter().all(is_open) { Measure::MeanLatency } else { Measure::Rate }
    }

    /// The figure of a run.
    pub(crate) fn value(self, run: &RunResult) -> f64 {
        match self {
            Measure::Rate => run.iops(),
            Measure::MeanLatency => run.latencies().mean(),
        }
    }

    /// It as a text, with what it is.
    pub(crate) fn show_with_unit(self, run: &RunResult) -> String {
        match self {
            Measure::Rate => format!("{} IOPS", self.show(run)),
            Measure::MeanLatency => format!("mean latency {}", self.show(run)),
        }
    }

    /// It as a text.
    pub(crate) fn show(self, run: &RunResult) -> String {
        match self {
            Measure::Rate => show_whole(run.iops()),
            Measure::MeanLatency => show_nanos(run.latencies().mean()),
        }
    }
}
