//! The results of a job of a run: latencies, and operations over time.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::demo::result::{Figures, Phase, PhaseResult};

pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
/// Longer latencies are counted as this one, in nanoseconds.
const LATENCY_MAX: u64 = 60_000_000_000;
/// Digits of a latency that are kept.
const DIGITS: u8 = 3;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct JobMeasure {
    pub(crate) latencies: Histogram<u64>,
    /// Operations that ended in each [`INTERVAL`].
    pub(crate) series: Vec<u64>,
}

impl JobMeasure {
    pub(crate) fn new() -> JobMeasure {
        let latencies = Histogram::new_with_bounds(1, LATENCY_MAX, DIGITS).expect("these bounds are valid");
        JobMeasure { latencies, series: Vec::new() }
    }

    /// Records an operation that ended `at` after the run's start.
    pub(crate) fn record(&mut self, at: Duration, latency: Duration) {
        self.latencies.saturating_record(nanos(latency));
        self.count(at, 1);
    }

    pub(crate) fn count(&mut self, at: Duration, operations: u64) {
        let index = usize::try_from(at.as_nanos() / INTERVAL.as_nanos()).unwrap_or(usize::MAX);
        if index >= self.series.len() {
            self.series.resize(index + 1, 0);
        }
        self.series[index] += operations;
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn summarize(phase: Phase, duration: Duration, jobs: &[JobMeasure]) -> PhaseResult {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let whole = merge(jobs);
    let mut operations = whole.series;
    operations.resize(usize::try_from(duration.as_nanos() / INTERVAL.as_nanos()).unwrap_or(usize::MAX), 0);
    PhaseResult {
        phase,
        millis,
        others: 0.0,
        total: Figures::new(&whole.latencies, millis),
        jobs: jobs.iter().map(|job| Figures::new(&job.latencies, millis)).collect(),
        cache: None,
        interval_millis: u64::try_from(INTERVAL.as_millis()).unwrap_or(u64::MAX),
        operations,
    }
}

fn merge(jobs: &[JobMeasure]) -> JobMeasure {
    let mut whole = JobMeasure::new();
    for job in jobs {
        whole.latencies.add(&job.latencies).expect("all histograms have the same bounds");
        for (at, &count) in (0_u32..).zip(&job.series) {
            whole.count(INTERVAL * at, count);
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_all_jobs_come_from_all_latencies() {
        let (mut fast, mut slow) = (JobMeasure::new(), JobMeasure::new());
        for index in 0..900_u32 {
            fast.record(Duration::from_millis(u64::from(index)), Duration::from_micros(100));
        }
        for index in 0..100_u32 {
            slow.record(Duration::from_millis(u64::from(index) * 9), Duration::from_millis(20));
        }
        let result = summarize(Phase::Cold, Duration::from_secs(1), &[fast, slow]);
        let near = |found: u64, expected: u64| found.abs_diff(expected) <= expected / 1000;
        assert_eq!((result.total.operations, result.total.iops), (1000, 1000));
        assert!(near(result.total.latency.p50_ns, 100_000), "{:?}", result.total);
        assert!(near(result.total.latency.p99_ns, 20_000_000), "{:?}", result.total);
        assert!(near(result.jobs[0].latency.p99_9_ns, 100_000), "{:?}", result.jobs);
        assert!(near(result.total.latency.mean_ns, 2_090_000), "{:?}", result.total);
        assert_eq!(result.operations.iter().sum::<u64>(), 1000);
        assert_eq!(result.operations.len(), 10);
        assert_eq!(result.iops_between(900, 1000), 0);
        assert_eq!(result.iops_between(0, 900), 1111);
    }
}
