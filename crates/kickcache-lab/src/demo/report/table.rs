//! The table: a row a run.

use kickcache_units::show_count;

use crate::demo::report::numbers::{percent, range, time, times};
use crate::demo::result::{DemoResult, Phase, PhaseResult};

const NAME: usize = 12;
const SPAN: u64 = 1_000;

pub(crate) const SPEED_UP: &str =
    "Speed-up: times the slow disk's IOPS; of the run, and min-max of its seconds.";

/// The table, with a line break behind each row; 80 columns wide for two jobs.
pub(crate) fn table(result: &DemoResult) -> String {
    let base = result.phase(Phase::SlowDisk).map_or(0, |slow| slow.total.iops);
    let rows = result.phases.iter().map(|phase| row(phase, base));
    std::iter::once(head(result)).chain(rows).collect()
}

fn head(result: &DemoResult) -> String {
    let jobs: String = (1..=result.settings.jobs).map(|job| format!("{:>8}", format!("job {job}"))).collect();
    line("", "IOPS", &jobs, ["hits", "p50", "p99", "p99.9", "speed-up"].map(String::from))
}

fn row(phase: &PhaseResult, base: u64) -> String {
    let jobs: String = phase.jobs.iter().map(|job| format!("{:>8}", show_count(job.iops))).collect();
    let hits = phase.cache.map_or_else(|| "-".into(), |cache| percent(cache.hit_ratio));
    let latency = phase.total.latency;
    let [p50, p99, p99_9] = [latency.p50_ns, latency.p99_ns, latency.p99_9_ns].map(time);
    let factor = format!("{} {}", times(phase.total.iops, base), seconds(phase, base));
    line(phase.phase.name(), &show_count(phase.total.iops), &jobs, [hits, p50, p99, p99_9, factor])
}

fn line(name: &str, iops: &str, jobs: &str, rest: [String; 5]) -> String {
    let [hits, p50, p99, p99_9, factor] = rest;
    format!("{name:NAME$}{iops:>7}{jobs}{hits:>8}{p50:>8}{p99:>8}{p99_9:>8}{factor:>13}\n")
}

/// The speed-ups of the slowest and of the fastest second of a run; of the whole run, if it has no whole
/// second.
fn seconds(phase: &PhaseResult, base: u64) -> String {
    let rates = (0..phase.millis / SPAN).map(|at| phase.iops_between(at * SPAN, (at + 1) * SPAN));
    let least = rates.clone().min().unwrap_or(phase.total.iops);
    range(least, rates.max().unwrap_or(phase.total.iops), base)
}
