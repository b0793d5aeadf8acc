//! The conclusions from the figures, and the warnings about the runs.

use kickcache_units::show_count;

use crate::demo::report::numbers::{factor, times};
use crate::demo::result::{DemoResult, Phase, PhaseResult};

/// How many times the slow disk's speed is worth a mention.
const NOTABLE: u64 = 10;
/// If all runs are shorter, in milliseconds, a warning calls them too short.
const MILLIS_MIN: u64 = 8_000;
/// The part of the processors that other programs may take without a warning.
const OTHERS_MAX: f64 = 0.05;
/// The interval of a speed, in milliseconds.
const SPAN: u64 = 1_000;

/// A sentence for each run with a cache; none if such a run, or the run of the slow disk, is missing, or if a
/// run with a cache is shorter than 4 s.
pub(crate) fn conclusions(result: &DemoResult) -> Vec<String> {
    let [slow, cold, stale, restart] =
        [Phase::SlowDisk, Phase::Cold, Phase::Stale, Phase::Restart].map(|phase| result.phase(phase));
    let (Some(slow), Some(cold), Some(stale), Some(restart)) = (slow, cold, stale, restart) else {
        return Vec::new();
    };
    // The half of a run below 4 s has one whole second at most, which shows no range.
    if [cold, stale, restart].iter().any(|phase| phase.millis < 4 * SPAN) {
        return Vec::new();
    }
    vec![of_cold(slow, cold), of_stale(cold, stale), of_restart(stale, restart)]
}

fn at_end(phase: &PhaseResult) -> u64 {
    phase.iops_between(phase.millis.saturating_sub(2 * SPAN), phase.millis)
}

fn of_cold(slow: &PhaseResult, cold: &PhaseResult) -> String {
    let base = slow.total.iops;
    let end = times(at_end(cold), base);
    let passed = (0..cold.millis.saturating_sub(SPAN))
        .step_by(usize::try_from(cold.interval_millis.max(1)).unwrap_or(1))
        .find(|from| cold.iops_between(*from, from + SPAN) >= NOTABLE * base);
    let passed = match passed {
        Some(0) => format!("{NOTABLE}x at once"),
        Some(from) => format!("{NOTABLE}x after {:.1} s", from as f64 / 1000.0),
        None => format!("not yet {NOTABLE}x"),
    };
    format!("Empty cache: {end} the slow disk's speed in its last 2 s; {passed}.")
}

/// The lowest and the highest IOPS of some whole seconds; 0 without any.
#[derive(Clone, Copy)]
struct Seconds {
    low: u64,
    high: u64,
}

impl Seconds {
    /// The seconds of a run from a point on, in milliseconds from its start.
    fn of(phase: &PhaseResult, from: u64) -> Seconds {
        let first = from.div_ceil(SPAN);
        let seconds = first..phase.millis / SPAN;
        let rates = seconds.map(|second| phase.iops_between(second * SPAN, (second + 1) * SPAN));
        let rates: Vec<u64> = rates.collect();
        let (low, high) = (rates.iter().min(), rates.iter().max());
        Seconds { low: low.copied().unwrap_or(0), high: high.copied().unwrap_or(0) }
    }

    fn show(self) -> String {
        format!("{}-{}", show_count(self.low), show_count(self.high))
    }
}

/// With one run of each, there is a difference only if every second of the second half of one run is faster
/// than every such second of the other.
fn of_stale(cold: &PhaseResult, stale: &PhaseResult) -> String {
    let [before, after] = [cold, stale].map(|phase| Seconds::of(phase, phase.millis / 2));
    let loss = (1.0 - factor(stale.total.iops, cold.total.iops)) * 100.0;
    let verdict = if after.high < before.low && loss > 0.0 {
        format!("cost {loss:.0} %")
    } else if before.high < after.low {
        "cost nothing".into()
    } else {
        "made no difference that one run of each can show".into()
    };
    let (with, without) = (show_count(stale.total.iops), show_count(cold.total.iops));
    format!(
        "Stale data in the cache {verdict}: {with} IOPS, {without} without it (seconds of the second halves: {} and {}).",
        after.show(),
        before.show()
    )
}

fn of_restart(before: &PhaseResult, restart: &PhaseResult) -> String {
    let first = show_count(restart.iops_between(0, SPAN));
    let last = Seconds::of(before, before.millis / 2);
    let all = Seconds::of(restart, 0);
    format!(
        "Restart: {first} IOPS in the first second; seconds before it, in the second half: {}; after it: {}.",
        last.show(),
        all.show()
    )
}

pub(crate) fn warnings(result: &DemoResult) -> Vec<String> {
    let mut warnings = Vec::new();
    let longest = result.phases.iter().map(|phase| phase.millis).max().unwrap_or(0);
    if longest < MILLIS_MIN && longest > 0 {
        let seconds = longest as f64 / 1000.0;
        warnings.push(format!(
            "WARNING: runs of {seconds:.1} s are too short to conclude from; use --runtime 14s or more."
        ));
    }
    let others = result.phases.iter().map(|phase| phase.others).fold(0.0, f64::max);
    if others > OTHERS_MAX {
        warnings.push(format!(
            "WARNING: other programs took up to {:.0} % of the processors; differences between the runs may be theirs.",
            others * 100.0
        ));
    }
    warnings
}
