//! The measure of a comparison of runs.

use kickcache_model::result::{Pacing, RunResult};
use kickcache_model::statistics::comparison::{Better, Comparison, Pair, compare};
use kickcache_units::show_whole;

use crate::plot::axis::show_nanos;
use crate::repeated_runs::RepeatedRuns;

/// The relative difference within which runs count as equal.
const MARGIN: f64 = 0.05;

/// The figure for the comparison of runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Measure {
    Rate,
    /// For loads at fixed times: their rate is independent of the devices.
    MeanLatency,
}

/// Whether the run is of a volume with real clients: its single latencies are unknown.
pub(crate) fn is_live(run: &RunResult) -> bool {
    run.pacing == Pacing::Open && run.latencies().count() == 0
}

impl Measure {
    pub(crate) fn of(runs: &[RepeatedRuns<'_>]) -> Measure {
        // Of a live volume no single latency is known.
        let is_open =
            |known: &RepeatedRuns<'_>| known.run.pacing == Pacing::Open && known.run.latencies().count() > 0;
        if !runs.is_empty() && runs.iter().all(is_open) { Measure::MeanLatency } else { Measure::Rate }
    }

    pub(crate) fn value(self, run: &RunResult) -> f64 {
        match self {
            Measure::Rate => run.iops(),
            Measure::MeanLatency => run.latencies().mean(),
        }
    }

    /// The median of repeated runs.
    pub(crate) fn of_all(self, known: &RepeatedRuns<'_>) -> f64 {
        known.median(|run| Some(self.value(run))).unwrap_or(f64::NAN)
    }

    /// Compares runs with the same seed; `None` without several such pairs, or if a run does not count.
    pub(crate) fn compare(self, base: &RepeatedRuns<'_>, other: &RepeatedRuns<'_>) -> Option<Comparison> {
        let pair = |run: &&RunResult| {
            let twin = base.all.iter().find(|twin| twin.seed == run.seed)?;
            Some(Pair { base: self.value(twin), other: self.value(run) })
        };
        let pairs: Vec<Pair> = other.all.iter().filter_map(pair).collect();
        let better = match self {
            Measure::Rate => Better::Higher,
            Measure::MeanLatency => Better::Lower,
        };
        let counts = base.counts() && other.counts();
        compare(&pairs, MARGIN, better).filter(|known| counts && known.rounds > 1)
    }

    /// Whether the figure is a measure of speed: all runs count, and the figure is a latency, or the clients
    /// do not fix the rate.
    pub(crate) fn says_something(self, known: &RepeatedRuns<'_>) -> bool {
        known.counts() && (self == Measure::MeanLatency || known.run.pacing == Pacing::Closed)
    }

    /// The ratio of other runs' figure to the base's; `None` if either figure is no measure of speed, or the
    /// ratio is not a finite number above 0.
    pub(crate) fn ratio(self, base: &RepeatedRuns<'_>, other: &RepeatedRuns<'_>) -> Option<f64> {
        let ratio = match self.compare(base, other) {
            Some(known) => known.ratio,
            None => self.of_all(other) / self.of_all(base),
        };
        let is_known = self.says_something(base) && self.says_something(other);
        Some(ratio).filter(|ratio| is_known && ratio.is_finite() && *ratio > 0.0)
    }

    pub(crate) fn show_with_unit(self, known: &RepeatedRuns<'_>) -> String {
        match self {
            Measure::Rate => format!("{} IOPS", self.show(known)),
            Measure::MeanLatency => format!("mean latency {}", self.show(known)),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Measure::Rate => "IOPS",
            Measure::MeanLatency => "mean latency",
        }
    }

    pub(crate) fn show(self, known: &RepeatedRuns<'_>) -> String {
        match self {
            Measure::Rate => show_whole(self.of_all(known)),
            Measure::MeanLatency => show_nanos(self.of_all(known)),
        }
    }
}
