//! fio's report on its jobs, in its format json+: histograms with every bin.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use kickcache_engine::time;
use kickcache_model::result::{Direction, JobResult};
use serde::Deserialize;

use crate::fio::log;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct FioRun {
    pub(crate) jobs: Vec<JobResult>,
    /// How long the longest job was measured.
    pub(crate) took: Duration,
}

#[derive(Deserialize)]
struct Report {
    jobs: Vec<Job>,
    #[serde(default, rename = "global options")]
    global: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    error: i64,
    #[serde(default, rename = "job options")]
    options: BTreeMap<String, String>,
    read: Side,
    write: Side,
    #[serde(default)]
    trim: Count,
    #[serde(default)]
    sync: Count,
}

#[derive(Deserialize)]
struct Side {
    io_bytes: u64,
    /// Measured time in milliseconds.
    runtime: u64,
    total_ios: u64,
    clat_ns: Completion,
}

#[derive(Deserialize, Default)]
struct Count {
    #[serde(default)]
    total_ios: u64,
}

#[derive(Deserialize)]
struct Completion {
    #[serde(default)]
    bins: BTreeMap<String, u64>,
}

/// Reads a report and, for each of its jobs, the log of operations over time.
///
/// # Errors
/// If the report or a log is invalid, a job failed, or there are not as many logs as jobs.
pub(crate) fn read(report: &str, logs: &[String], interval: Duration) -> anyhow::Result<FioRun> {
    let start = report.find('{').unwrap_or(0);
    let report: Report = serde_json::from_str(&report[start..]).context("fio's report is no JSON")?;
    if report.jobs.len() != logs.len() {
        anyhow::bail!("fio reports on {} jobs, not on {}", report.jobs.len(), logs.len());
    }
    let read = |(number, (job, log)): (usize, (&Job, &String))| {
        let mut result = job.result(number + 1, &report.global)?;
        log::read(log, interval, &mut result)?;
        Ok(result)
    };
    let jobs = report.jobs.iter().zip(logs).enumerate().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    let millis = report.jobs.iter().map(|job| job.read.runtime.max(job.write.runtime)).max().unwrap_or(0);
    Ok(FioRun { jobs, took: Duration::from_millis(millis) })
}

pub(crate) fn count(report: &str) -> anyhow::Result<usize> {
    let start = report.find('{').unwrap_or(0);
    let report: Report = serde_json::from_str(&report[start..]).context("fio's report is no JSON")?;
    Ok(report.jobs.len())
}

impl Job {
    fn result(&self, number: usize, global: &BTreeMap<String, String>) -> anyhow::Result<JobResult> {
        if self.error != 0 {
            anyhow::bail!("fio's job {} failed with errno {}", self.jobname, self.error);
        }
        let depth = self.options.get("iodepth").or_else(|| global.get("iodepth"));
        let depth = depth.and_then(|depth| depth.parse().ok()).unwrap_or(1);
        let mut result = JobResult::new(&format!("{} {number}", self.jobname), depth);
        result.reads = self.read.direction()?;
        result.writes = self.write.direction()?;
        result.others = self.trim.total_ios + self.sync.total_ios;
        Ok(result)
    }
}

impl Side {
    fn direction(&self) -> anyhow::Result<Direction> {
        let mut direction = Direction { count: self.total_ios, bytes: self.io_bytes, ..Direction::default() };
        for (nanos, count) in &self.clat_ns.bins {
            let nanos = nanos.parse().context("fio's report has a latency that is no number")?;
            direction.latencies.record_many(time::Duration::from_nanos(nanos), *count);
        }
        Ok(direction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of fio 3.33: three jobs of a second, two with mixed reads and writes.
    const RECORDED: &str = include_str!("recorded/report.json");
    const LOGS: [&str; 3] = [
        include_str!("recorded/iops.1.log"),
        include_str!("recorded/iops.2.log"),
        include_str!("recorded/iops.3.log"),
    ];

    fn recorded() -> FioRun {
        read(RECORDED, &LOGS.map(str::to_owned), Duration::from_millis(100)).unwrap()
    }

    #[test]
    fn histograms_have_the_percentiles_that_fio_names() {
        let text: serde_json::Value = serde_json::from_str(RECORDED).unwrap();
        for (job, told) in recorded().jobs.iter().zip(text["jobs"].as_array().unwrap()) {
            for (side, told) in [(&job.reads, &told["read"]), (&job.writes, &told["write"])] {
                assert_eq!(side.latencies.count(), side.count, "every operation is in a bin");
                for (name, part) in [("50.000000", 0.5), ("99.000000", 0.99), ("99.900000", 0.999)] {
                    let Some(named) = told["clat_ns"]["percentile"][name].as_u64() else { continue };
                    let own = side.latencies.quantile(part);
                    assert!(own.abs_diff(named) <= named / 1_000, "{name}: {own} for {named}");
                }
            }
        }
    }

    #[test]
    fn jobs_are_summed_over_time() {
        let run = recorded();
        assert_eq!(run.jobs.iter().map(|job| job.depth).collect::<Vec<_>>(), [4, 4, 4]);
        assert_eq!(run.took, Duration::from_millis(1_001));
        let count: u64 = run.jobs.iter().map(JobResult::count).sum();
        let logged: u64 = run.jobs.iter().map(|job| job.ended().total()).sum();
        // fio logs no interval that a job ended within.
        assert!(logged.abs_diff(count) < count / 8, "{logged} operations of {count} are in the logs");
        assert!(run.jobs[0].writes.count > 0 && run.jobs[2].writes.count == 0);
    }

    #[test]
    fn an_invalid_report_is_refused_with_a_sentence() {
        let logs = [String::new()];
        let fault = |report: &str| read(report, &logs, Duration::from_millis(100)).unwrap_err().to_string();
        assert_eq!(fault("fio: oops"), "fio's report is no JSON");
        assert_eq!(fault(r#"{"jobs":[]}"#), "fio reports on 0 jobs, not on 1");
        let side = r#"{"io_bytes":0,"runtime":0,"total_ios":0,"clat_ns":{}}"#;
        let failed = format!(r#"{{"jobs":[{{"jobname":"a","error":5,"read":{side},"write":{side}}}]}}"#);
        assert_eq!(fault(&failed), "fio's job a failed with errno 5");
    }
}
