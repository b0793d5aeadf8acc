//! The runs of `simulate run` and `compare` as a table, a row a run.

use kickcache_model::result::{DeviceResult, RunResult};

use crate::cli::simulate::parquet_file::Column;
use crate::cli::simulate::planned_run::PlannedRun;

pub(crate) fn columns(runs: &[PlannedRun], results: &[RunResult]) -> Vec<Column> {
    let count = |name, figure: fn(&RunResult) -> Option<u64>| Column::count(name, results.iter().map(figure));
    let real = |name, figure: fn(&RunResult) -> Option<f64>| Column::real(name, results.iter().map(figure));
    vec![
        Column::text("workload", results.iter().map(|run| run.workload.clone())),
        Column::text("origin", results.iter().map(|run| run.origin.clone())),
        Column::text("cache", runs.iter().map(|run| run.choice.name().to_owned())),
        Column::count("cache_bytes", runs.iter().map(PlannedRun::cache_bytes)),
        count("seed", |run| Some(run.seed)),
        count("nanoseconds", |run| Some(run.nanos)),
        count("accesses", |run| Some(run.count())),
        real("iops", |run| Some(run.iops())),
        real("bytes_per_second", |run| Some(run.bytes_per_second())),
        count("p50_nanoseconds", |run| Some(run.latencies().p50())),
        count("p99_nanoseconds", |run| Some(run.latencies().p99())),
        real("hit_ratio", RunResult::hit_ratio),
        count("cache_write_bytes", |run| run.cache_device.as_ref().map(written)),
        count("origin_reads", |run| run.origin_device.as_ref().map(|device| device.reads)),
        count("origin_read_bytes", |run| run.origin_device.as_ref().map(|device| device.read_bytes)),
        count("origin_writes", |run| run.origin_device.as_ref().map(|device| device.writes)),
        count("origin_write_bytes", |run| run.origin_device.as_ref().map(written)),
        real("write_amplification", RunResult::written_per_byte),
    ]
}

fn written(device: &DeviceResult) -> u64 {
    device.write_bytes
}
