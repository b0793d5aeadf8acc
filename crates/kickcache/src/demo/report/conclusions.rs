//! What the figures say, in three sentences.

use kickcache_units::show_count;

use crate::demo::report::numbers::{factor, times};
use crate::demo::result::{DemoResult, Phase, PhaseResult};

/// How many times the slow disk's speed is worth a mention.
const NOTABLE: u64 = 10;
/// A difference below this one, in percent, is called none.
const NOISE: f64 = 5.0;
/// Span over which a speed is taken, in milliseconds.
const SPAN: u64 = 1_000;

/// One sentence for each of the runs with a cache.
pub(crate) fn conclusions(result: &DemoResult) -> Vec<String> {
    let [slow, cold, stale, restart] =
        [Phase::SlowDisk, Phase::Cold, Phase::Stale, Phase::Restart].map(|phase| result.phase(phase));
    let (Some(slow), Some(cold), Some(stale), Some(restart)) = (slow, cold, stale, restart) else {
        return Vec::new();
    };
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

fn of_stale(cold: &PhaseResult, stale: &PhaseResult) -> String {
    let change = (factor(stale.total.iops, cold.total.iops) - 1.0) * 100.0;
    let verdict = match change {
        loss if loss < -NOISE => format!("cost {:.0} %", -loss),
        gain if gain > NOISE => format!("cost nothing ({gain:+.0} %)"),
        _ => "cost nothing".into(),
    };
    let (with, without) = (show_count(stale.total.iops), show_count(cold.total.iops));
    format!("Stale data in the cache {verdict}: {with} IOPS, {without} without it.")
}

fn of_restart(before: &PhaseResult, restart: &PhaseResult) -> String {
    let first = restart.iops_between(0, SPAN);
    let part = factor(first, at_end(before)) * 100.0;
    let lowest =
        (0..restart.millis / SPAN).map(|second| restart.iops_between(second * SPAN, (second + 1) * SPAN));
    let (first, lowest) = (show_count(first), show_count(lowest.min().unwrap_or(0)));
    format!("Restart: {first} IOPS in the first second, {part:.0} % of before it; lowest {lowest}.")
}
