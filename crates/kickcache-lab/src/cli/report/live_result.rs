//! The volumes in `status --json`, converted to results.

use kickcache_daemon::control::activity::{Activity, RequestLatency};
use kickcache_daemon::control::report::{CacheReport, Report, VolumeReport};
use kickcache_engine::time::Duration;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_model::result::series::Series;
use kickcache_model::result::{DeviceResult, JobResult, Pacing, RunResult};

pub(super) fn runs(report: &Report) -> Vec<RunResult> {
    let of_cache = |cache: &CacheReport| {
        cache.volumes.iter().map(|volume| of_volume(cache, volume)).collect::<Vec<RunResult>>()
    };
    report.caches.iter().flat_map(of_cache).collect()
}

fn of_volume(cache: &CacheReport, volume: &VolumeReport) -> RunResult {
    let activity = &volume.since_start;
    let mut run = RunResult::new(&volume.name, &load(activity), 0);
    run.cache = Some(format!("{}, {}", cache.device, volume.mode.as_str()));
    run.cache_bytes = Some(cache.capacity_bytes);
    run.origin.clone_from(&volume.origin);
    run.pacing = Pacing::Open;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and saturates")]
    let nanos = (activity.seconds.max(0.0) * 1e9) as u64;
    run.nanos = nanos;
    let counters = &volume.counters;
    let whole = Duration::from_nanos(nanos.max(1));
    run.hit_blocks = Series::with_values(whole, vec![counters.hit_blocks]);
    run.miss_blocks = Series::with_values(whole, vec![counters.miss_blocks]);
    let mut job = JobResult::new("clients", 1);
    (job.reads.count, job.reads.bytes) = (counters.reads, counters.read_bytes);
    (job.writes.count, job.writes.bytes) = (counters.writes, counters.write_bytes);
    job.others = counters.flushes + counters.discards;
    run.jobs.push(job);
    run.promoted_bytes = counters.promoted_blocks * BLOCK_SIZE;
    run.logged_bytes = counters.logged_blocks * BLOCK_SIZE;
    run.dirty_bytes = volume.dirty_bytes;
    run.origin_device = Some(DeviceResult {
        reads: counters.origin_reads,
        writes: counters.origin_writes,
        flushes: counters.origin_flushes,
        read_bytes: counters.origin_read_bytes,
        write_bytes: counters.origin_write_bytes,
        ..DeviceResult::default()
    });
    // If several volumes share a cache device, its operations cannot be assigned to one volume.
    run.cache_device = (cache.volumes.len() == 1).then(|| DeviceResult {
        reads: cache.counters.reads,
        writes: cache.counters.writes,
        flushes: cache.counters.flushes,
        read_bytes: cache.counters.read_bytes,
        write_bytes: cache.counters.write_bytes,
        ..DeviceResult::default()
    });
    run
}

fn load(activity: &Activity) -> String {
    let known = [("hits", &activity.hits), ("misses", &activity.misses), ("writes", &activity.writes)];
    let took = |(name, took): (&str, &RequestLatency)| {
        (took.count > 0)
            .then(|| format!("{name} take {:.2} ms, 99 % at most {:.2} ms", took.mean_ms, took.p99_ms))
    };
    let parts: Vec<String> = known.into_iter().filter_map(took).collect();
    if parts.is_empty() { "nothing yet".into() } else { format!("clients: {}", parts.join("; ")) }
}
