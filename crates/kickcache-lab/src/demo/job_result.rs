//! A job of the demo as a report shows it.

use kickcache_engine::time;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_model::result::JobResult;
use kickcache_model::result::series::Series;

use crate::demo::load::measure::{INTERVAL, JobMeasure};

pub(crate) fn job_result(number: usize, depth: u32, measure: &JobMeasure) -> JobResult {
    let mut job = JobResult::new(&format!("job {number}"), depth);
    job.reads.count = measure.latencies.len();
    job.reads.bytes = job.reads.count * BLOCK_SIZE;
    for step in measure.latencies.iter_recorded() {
        let latency = time::Duration::from_nanos(step.value_iterated_to());
        job.reads.latencies.record_many(latency, step.count_at_value());
    }
    let interval = time::Duration::from_nanos(u64::try_from(INTERVAL.as_nanos()).unwrap_or(u64::MAX));
    job.reads.ended = Series::with_values(interval, measure.series.clone());
    job
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_job_keeps_its_latencies_and_its_course() {
        let mut measure = JobMeasure::new();
        for index in 0..100_u32 {
            measure.record(Duration::from_millis(u64::from(index) * 10), Duration::from_micros(150));
        }
        let job = job_result(2, 8, &measure);
        assert_eq!((job.name.as_str(), job.count(), job.bytes()), ("job 2", 100, 409_600));
        assert!(job.latencies().p50().abs_diff(150_000) < 200);
        assert_eq!(job.ended().values(), [10; 10]);
    }
}
