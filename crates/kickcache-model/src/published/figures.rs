//! The figures of a run or of a published row.

use crate::ratio;
use crate::result::series::Series;
use crate::result::{JobResult, RunResult};

/// The number of intervals, before the last one of a run, from which the continuation of the run is
/// extrapolated.
const TAIL_SECONDS: usize = 30;

#[derive(Clone, PartialEq, Debug)]
pub struct Figures {
    pub jobs: Vec<f64>,
    /// Hit ratio, in percent; `None` if it is unknown.
    pub share: Option<f64>,
    /// Microseconds that half of the accesses took at most, by job; of the whole run.
    pub p50: Vec<f64>,
    /// The 99th percentile in microseconds, by job; of the whole run.
    pub p99: Vec<f64>,
    /// Bytes written to the cache device for each byte that was promoted or logged; of the whole run; `None` if it is
    /// unknown.
    pub written_per_byte: Option<f64>,
}

impl Figures {
    /// The figures of the first minutes of a run; a shorter run is extrapolated from its end.
    pub fn new(run: &RunResult, minutes: u64) -> Figures {
        let seconds = usize::try_from(minutes * 60).unwrap_or(usize::MAX);
        let iops = |job: &JobResult| total(&job.ended(), seconds) / float(seconds);
        let micros =
            |job: &JobResult, quantile: f64| ratio::float(job.latencies().quantile(quantile)) / 1_000.0;
        let (hits, misses) = (total(&run.hit_blocks, seconds), total(&run.miss_blocks, seconds));
        Figures {
            jobs: run.jobs.iter().map(iops).collect(),
            share: (hits + misses > 0.0).then(|| 100.0 * hits / (hits + misses)),
            p50: run.jobs.iter().map(|job| micros(job, 0.5)).collect(),
            p99: run.jobs.iter().map(|job| micros(job, 0.99)).collect(),
            written_per_byte: run.written_per_byte(),
        }
    }

    pub fn iops(&self) -> f64 {
        self.jobs.iter().sum()
    }
}

/// Accesses a second in the last minutes of the first `minutes` of a run.
pub fn iops_at_end(run: &RunResult, minutes: u64, last: u64) -> f64 {
    let seconds = |minutes: u64| usize::try_from(minutes * 60).unwrap_or(usize::MAX);
    let ended = run.ended();
    let before = total(&ended, seconds(minutes - last));
    (total(&ended, seconds(minutes)) - before) / float(seconds(last))
}

fn total(series: &Series, seconds: usize) -> f64 {
    let rates = series.rates();
    let step = ratio::float(series.interval().as_nanos()) / 1e9;
    let length = float(seconds) / step;
    let whole = rates.iter().take(seconds).take(count(length)).sum::<f64>() * step;
    let missing = length - float(rates.len());
    if missing <= 0.0 || rates.is_empty() {
        return whole;
    }
    // The last interval may be incomplete, so it is left out.
    let tail = &rates[rates.len().saturating_sub(TAIL_SECONDS + 1)..rates.len().saturating_sub(1).max(1)];
    let tail_rate = tail.iter().sum::<f64>() / float(tail.len().max(1));
    whole + missing * step * tail_rate
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "lengths of a run in seconds")]
fn count(length: f64) -> usize {
    length.round() as usize
}

#[expect(clippy::cast_precision_loss, reason = "lengths of a run in seconds")]
fn float(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use kickcache_engine::time::Duration;

    #[test]
    fn a_run_that_ended_early_goes_on_as_it_ended() {
        let second = Duration::from_millis(1000);
        let mut values = vec![10; 60];
        values.extend([100; 61]);
        let series = Series::with_values(second, values);
        assert!((total(&series, 60) - 600.0).abs() < 1e-6);
        assert!((total(&series, 120) - 6_600.0).abs() < 1e-6);
        assert!((total(&series, 240) - 18_600.0).abs() < 200.0);
    }
}
