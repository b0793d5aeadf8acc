//! The table: a row a run.

use kickcache_units::show_count;

use crate::demo::report::numbers::{percent, time, times};
use crate::demo::result::{DemoResult, Phase, PhaseResult};

/// Width of the first column.
const NAME: usize = 12;

/// The table, with a line break behind each row; 80 columns wide for two jobs.
pub(crate) fn table(result: &DemoResult) -> String {
    let base = result.phase(Phase::SlowDisk).map_or(0, |slow| slow.total.iops);
    let rows = result.phases.iter().map(|phase| row(phase, base));
    std::iter::once(head(result)).chain(rows).collect()
}

fn head(result: &DemoResult) -> String {
    let jobs: String = (1..=result.settings.jobs).map(|job| format!("{:>8}", format!("job {job}"))).collect();
    let (nothing, iops, rest) = ("", "IOPS", ["hits", "p50", "p99", "p99.9", "speed-up"]);
    let [hits, p50, p99, p99_9, factor] = rest;
    format!("{nothing:NAME$}{iops:>8}{jobs}{hits:>8}{p50:>9}{p99:>9}{p99_9:>9}{factor:>9}\n")
}

fn row(phase: &PhaseResult, base: u64) -> String {
    let (name, iops) = (phase.phase.name(), show_count(phase.total.iops));
    let jobs: String = phase.jobs.iter().map(|job| format!("{:>8}", show_count(job.iops))).collect();
    let hits = phase.cache.map_or_else(|| "-".into(), |cache| percent(cache.hit_ratio));
    let latency = phase.total.latency;
    let [p50, p99, p99_9] = [latency.p50_ns, latency.p99_ns, latency.p99_9_ns].map(time);
    let factor = times(phase.total.iops, base);
    format!("{name:NAME$}{iops:>8}{jobs}{hits:>8}{p50:>9}{p99:>9}{p99_9:>9}{factor:>9}\n")
}
