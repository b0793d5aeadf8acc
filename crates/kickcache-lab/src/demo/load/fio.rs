//! fio as the load, over its NBD engine.

use std::fs;
use std::path::Path;
use std::time::Duration;

use kickcache_daemon::plan::address::NbdAddress;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_model::result::JobResult;

use crate::demo::load::measure::{INTERVAL, JobMeasure};
use crate::demo::load::{Glance, Run, Watch};
use crate::demo::workload::{JobLoad, THETA};
use crate::fio::child::Fio;
use crate::fio::report;

/// How much longer than the run fio may take to start and to end.
const GRACE: Duration = Duration::from_secs(20);

/// Runs the load.
///
/// # Errors
/// If fio fails, its output is invalid, or the watch returns an error.
pub(crate) fn run(run: &Run<'_>, directory: &Path, watch: Watch<'_>) -> anyhow::Result<Vec<JobMeasure>> {
    let arguments = arguments(run).into_iter().map(Into::into).collect();
    let fio = Fio { arguments, directory, longest: Some(run.duration + GRACE) };
    let report =
        fio.run(&mut |elapsed| watch(Glance { elapsed: elapsed.min(run.duration), operations: None }))?;
    let log = |job: usize| fs::read_to_string(directory.join(format!("load_iops.{job}.log")));
    let logs = (1..=run.jobs.len()).map(log).collect::<Result<Vec<_>, _>>()?;
    Ok(report::read(&report, &logs, INTERVAL)?.jobs.iter().map(measure).collect())
}

fn measure(job: &JobResult) -> JobMeasure {
    let mut measure = JobMeasure::new();
    for (nanos, count) in job.reads.latencies.counts() {
        measure.latencies.saturating_record_n(nanos, count);
    }
    measure.series = job.reads.ended.values().to_vec();
    measure
}

fn arguments(run: &Run<'_>) -> Vec<String> {
    let uri = NbdAddress::Unix(run.socket.into()).uri(run.export);
    let mut arguments: Vec<String> = vec![
        "--ioengine=nbd".into(),
        format!("--uri={uri}"),
        "--rw=randread".into(),
        format!("--bs={BLOCK_SIZE}"),
        format!("--iodepth={}", run.depth),
        "--norandommap".into(),
        "--time_based".into(),
        format!("--runtime={}ms", run.duration.as_millis()),
        "--write_iops_log=load".into(),
        format!("--log_avg_msec={}", INTERVAL.as_millis()),
        "--allow_file_create=0".into(),
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
