//! fio as the load, over its NBD engine.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use kickcache_engine::units::BLOCK_SIZE;
use serde::Deserialize;

use crate::demo::load::measure::{INTERVAL, JobMeasure};
use crate::demo::load::{Glance, Run, Watch};
use crate::demo::workload::{JobLoad, THETA};

/// How often fio is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How much longer than the run fio may take to start and to end.
const GRACE: Duration = Duration::from_secs(20);

/// Whether there is a fio that can do it.
///
/// # Errors
/// A sentence that says what to install.
pub(crate) fn check() -> anyhow::Result<()> {
    let output = Command::new("fio").arg("--enghelp=nbd").stdin(Stdio::null()).output();
    let output = output.context("fio cannot be started; install it, or leave --fio out")?;
    if !output.status.success() {
        anyhow::bail!("this fio was built without its nbd engine; leave --fio out, or install another one");
    }
    Ok(())
}

/// Runs the load.
///
/// # Errors
/// If fio fails or makes no sense, or the watch wants it to end.
pub(crate) fn run(run: &Run<'_>, directory: &Path, watch: Watch<'_>) -> anyhow::Result<Vec<JobMeasure>> {
    let files = Files { directory: directory.to_path_buf() };
    let child = Command::new("fio")
        .args(arguments(run, &files))
        .current_dir(directory)
        .stdin(Stdio::null())
        .stderr(fs::File::create(files.complaints())?)
        .spawn()
        .context("fio cannot be started; install it, or leave --fio out")?;
    let ended = wait(Guard(child), run.duration, watch)?;
    if !ended {
        let complaints = fs::read_to_string(files.complaints()).unwrap_or_default();
        anyhow::bail!("fio failed: {}", complaints.lines().last().unwrap_or("it does not say why"));
    }
    let report = fs::read_to_string(files.report())?;
    let numbers = 1..=run.jobs.len();
    let logs = numbers.map(|job| fs::read_to_string(files.log(job))).collect::<Result<Vec<_>, _>>()?;
    read(&report, &logs)
}

/// What fio leaves behind.
struct Files {
    directory: PathBuf,
}

impl Files {
    fn report(&self) -> PathBuf {
        self.directory.join("fio.json")
    }

    fn complaints(&self) -> PathBuf {
        self.directory.join("fio.err")
    }

    fn log(&self, job: usize) -> PathBuf {
        self.directory.join(format!("load_iops.{job}.log"))
    }
}

/// A child that does not outlive its owner.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // One that has ended needs no end; nothing can be done about other errors.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for fio; returns whether it says that all went well.
fn wait(mut child: Guard, duration: Duration, watch: Watch<'_>) -> anyhow::Result<bool> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.0.try_wait()? {
            return Ok(status.success());
        }
        let elapsed = start.elapsed();
        if elapsed > duration + GRACE {
            anyhow::bail!("fio did not end {} seconds after its time", GRACE.as_secs());
        }
        watch(Glance { elapsed: elapsed.min(duration), operations: None })?;
        std::thread::sleep(LOOK_EVERY);
    }
}

fn arguments(run: &Run<'_>, files: &Files) -> Vec<String> {
    let uri = format!("nbd+unix:///{}?socket={}", run.export, run.socket.display());
    let mut arguments: Vec<String> = vec![
        "--ioengine=nbd".into(),
        format!("--uri={uri}"),
        "--rw=randread".into(),
        format!("--bs={BLOCK_SIZE}"),
        format!("--iodepth={}", run.depth),
        "--norandommap".into(),
        "--time_based".into(),
        format!("--runtime={}ms", run.duration.as_millis()),
        "--output-format=json+".into(),
        format!("--output={}", files.report().display()),
        "--write_iops_log=load".into(),
        format!("--log_avg_msec={}", INTERVAL.as_millis()),
        "--allow_file_create=0".into(),
        "--eta=never".into(),
    ];
    for (index, job) in run.jobs.iter().enumerate() {
        arguments.extend(job_arguments(index, job));
    }
    arguments
}

fn job_arguments(index: usize, job: &JobLoad) -> [String; 5] {
    [
        format!("--name=job{}", index + 1),
        format!("--offset={}", job.start),
        format!("--size={}", job.length),
        format!("--randseed={}", job.seed >> 1),
        format!("--random_distribution=zipf:{THETA}:{:.4}", job.centre),
    ]
}

#[derive(Deserialize)]
struct Report {
    jobs: Vec<FioJob>,
}

#[derive(Deserialize)]
struct FioJob {
    error: i64,
    read: Read,
}

#[derive(Deserialize)]
struct Read {
    clat_ns: Latencies,
}

#[derive(Deserialize)]
struct Latencies {
    #[serde(default)]
    bins: BTreeMap<String, u64>,
}

/// Reads fio's report and, for each job, its log of IOPS.
fn read(report: &str, logs: &[String]) -> anyhow::Result<Vec<JobMeasure>> {
    let start = report.find('{').unwrap_or(0);
    let report: Report = serde_json::from_str(&report[start..]).context("fio's report is no JSON")?;
    if report.jobs.len() != logs.len() {
        anyhow::bail!("fio reports on {} jobs, not on {}", report.jobs.len(), logs.len());
    }
    report.jobs.iter().zip(logs).map(|(job, log)| read_job(job, log)).collect()
}

fn read_job(job: &FioJob, log: &str) -> anyhow::Result<JobMeasure> {
    if job.error != 0 {
        anyhow::bail!("fio's reads failed with errno {}", job.error);
    }
    let mut measure = JobMeasure::new();
    for (nanos, &count) in &job.read.clat_ns.bins {
        let nanos = nanos.parse().context("fio's report has a latency that is no number")?;
        measure.latencies.saturating_record_n(nanos, count);
    }
    for line in log.lines() {
        let mut fields = line.split(',').map(|field| field.trim().parse::<u64>());
        let (Some(Ok(millis)), Some(Ok(iops))) = (fields.next(), fields.next()) else {
            anyhow::bail!("fio's log has the line `{line}`, which is not understood");
        };
        let end = Duration::from_millis(millis);
        let interval = u64::try_from(INTERVAL.as_millis()).expect("short");
        measure.count(end.saturating_sub(INTERVAL / 2), iops * interval / 1000);
    }
    Ok(measure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_and_logs_are_read() {
        let report =
            r#"{ "jobs": [ { "error": 0, "read": { "clat_ns": { "bins": { "100": 3, "2000": 1 } } } } ] }"#;
        let logs = ["100, 20, 0, 4096, 0\n200, 30, 0, 4096, 0\n".to_owned()];
        let jobs = read(report, &logs).unwrap();
        assert_eq!(jobs[0].series, [2, 3]);
        assert_eq!((jobs[0].latencies.len(), jobs[0].latencies.max()), (4, 2000));
        assert_eq!(jobs[0].latencies.value_at_quantile(0.5), 100);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_sentence() {
        let fault = |report: &str, log: &str| read(report, &[log.to_owned()]).unwrap_err().to_string();
        assert_eq!(fault("fio: oops", ""), "fio's report is no JSON");
        assert_eq!(fault(r#"{"jobs":[]}"#, ""), "fio reports on 0 jobs, not on 1");
        let failed = r#"{"jobs":[{"error":5,"read":{"clat_ns":{}}}]}"#;
        assert_eq!(fault(failed, ""), "fio's reads failed with errno 5");
        let fine = failed.replace('5', "0");
        assert_eq!(fault(&fine, "a, b"), "fio's log has the line `a, b`, which is not understood");
    }
}
