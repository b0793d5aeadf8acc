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
        // Of a live volume no single latency is known.
        let is_open =
            |known: &Repeated<'_>| known.run.pacing == Pacing::Open && known.run.latencies().count() > 0;
        if !runs.is_empty() && runs.iter().all(is_open) { Measure::MeanLatency } else { Measure::Rate }
    }

    /// The figure of a run.
    pub(crate) fn value(self, run: &RunResult) -> f64 {
        match self {
            Measure::Rate => run.iops(),
            Measure::MeanLatency => run.latencies().mean(),
        }
    }

    /// How often the figure of a base another run has; nothing if one of both comes at its own times, so that its rate says
    /// nothing, and the other as fast as it can.
    pub(crate) fn ratio(self, base: &RunResult, other: &RunResult) -> Option<f64> {
        let ratio = self.value(other) / self.value(base);
        Some(ratio).filter(|ratio| base.pacing == other.pacing && ratio.is_finite() && *ratio > 0.0)
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
