//! The figures of a run that are compared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::result::series::Series;
use crate::result::{Direction, JobResult, RunResult};

/// Accesses below which latencies are not compared.
const COUNT_MIN: u64 = 100;

/// Latencies in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct LatencyFigures {
    pub mean: f64,
    /// 99 % are not longer.
    pub p99: f64,
    /// 99.9 % are not longer.
    #[serde(rename = "p99.9")]
    pub p99_9: f64,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figures {
    pub iops: f64,
    /// The share of the blocks of reads that hit, in percent, in the second half of the run.
    pub hits: f64,
    /// Bytes written to the cache device for each byte that was written by clients or promoted.
    pub written: f64,
    #[serde(rename = "origin flushes")]
    pub origin_flushes: u64,
    /// Latencies of reads after the beginning; `None` if there were too few.
    pub reads: Option<LatencyFigures>,
    pub writes: Option<LatencyFigures>,
    /// Latencies of reads in the beginning; `None` if there were too few.
    #[serde(rename = "reads, first minute")]
    pub first_reads: Option<LatencyFigures>,
    #[serde(rename = "writes, first minute")]
    pub first_writes: Option<LatencyFigures>,
}

/// Latencies in nanoseconds, and how many there were of each.
type Histogram = BTreeMap<u64, u64>;

impl Figures {
    /// The figures of a run; latencies of its beginning are kept apart from later latencies.
    pub fn new(run: &RunResult, beginning: &RunResult) -> Figures {
        let written = |job: &JobResult| job.writes.bytes;
        let useful = run.promoted_bytes + run.jobs.iter().map(written).sum::<u64>();
        let device_written = run.cache_device.as_ref().map_or(0, |device| device.write_bytes);
        let (hits, misses) = (second_half(&run.hit_blocks), second_half(&run.miss_blocks));
        let (reads, writes) = (histogram(run, |job| &job.reads), histogram(run, |job| &job.writes));
        let first_reads = histogram(beginning, |job| &job.reads);
        let first_writes = histogram(beginning, |job| &job.writes);
        Figures {
            iops: run.iops(),
            hits: 100.0 * crate::ratio::share(hits, (hits + misses).max(1)),
            written: crate::ratio::share(device_written, useful.max(1)),
            origin_flushes: run.origin_device.as_ref().map_or(0, |device| device.flushes),
            reads: latencies(&without(reads, &first_reads)),
            writes: latencies(&without(writes, &first_writes)),
            first_reads: latencies(&first_reads),
            first_writes: latencies(&first_writes),
        }
    }
}

fn second_half(series: &Series) -> u64 {
    let values = series.values();
    values[values.len() / 2..].iter().sum()
}

fn histogram(run: &RunResult, direction: impl Fn(&JobResult) -> &Direction) -> Histogram {
    let mut found = Histogram::new();
    for (nanos, count) in run.jobs.iter().flat_map(|job| direction(job).latencies.counts()) {
        *found.entry(nanos).or_default() += count;
    }
    found
}

fn without(mut all: Histogram, first: &Histogram) -> Histogram {
    for (nanos, count) in first {
        let left = all.entry(*nanos).or_default();
        *left = left.saturating_sub(*count);
    }
    all
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn latencies(histogram: &Histogram) -> Option<LatencyFigures> {
    let count: u64 = histogram.values().sum();
    if count < COUNT_MIN {
        return None;
    }
    let sum: f64 = histogram.iter().map(|(nanos, count)| *nanos as f64 * *count as f64).sum();
    let quantile = |quantile: f64| {
        let mut seen = 0;
        let is_there = |(_, number): &(&u64, &u64)| {
            seen += **number;
            seen as f64 >= count as f64 * quantile
        };
        histogram.iter().find(is_there).map_or(0.0, |(nanos, _)| *nanos as f64 / 1e3)
    };
    Some(LatencyFigures { mean: sum / count as f64 / 1e3, p99: quantile(0.99), p99_9: quantile(0.999) })
}

#[cfg(test)]
mod tests {
    use kickcache_engine::time::{Duration, Instant};

    use super::*;

    fn run(reads: &[(u64, u64)]) -> RunResult {
        let mut result = RunResult::new("", "", 1);
        let mut job = JobResult::new("job", 1);
        for (millis, count) in reads {
            let end = Instant::ZERO.plus(Duration::from_millis(*millis));
            (0..*count).for_each(|_| job.reads.record(Instant::ZERO, end, 4096));
        }
        result.jobs.push(job);
        result.nanos = 1_000_000_000;
        result
    }

    #[test]
    fn beginning_is_subtracted_from_the_whole_run() {
        let figures = Figures::new(&run(&[(1, 990), (100, 110)]), &run(&[(100, 100)]));
        let (first, rest) = (figures.first_reads.unwrap(), figures.reads.unwrap());
        assert!(first.mean > 99_000.0 && (1_980.0..2_010.0).contains(&rest.mean), "{rest:?}");
        assert!(rest.p99 < 1_100.0 && rest.p99_9 > 99_000.0, "{rest:?}");
        assert!(figures.writes.is_none() && figures.iops > 1_099.0);
    }
}
