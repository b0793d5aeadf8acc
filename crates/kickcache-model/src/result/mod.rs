//! The results of a run of a model, of the real engine on virtual devices, of the demo, or of fio.

pub mod latencies;
pub mod series;

use kickcache_engine::time::Instant;
use serde::{Deserialize, Serialize};

use crate::ratio::share;
use crate::result::latencies::Latencies;
use crate::result::series::Series;

/// Version of the JSON that [`RunResult`] is stored as.
pub const RESULT_VERSION: u32 = 1;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunResult {
    pub version: u32,
    pub name: String,
    /// The run without the size of the cache: runs with the same family form a line by size.
    #[serde(default)]
    pub family: Option<String>,
    /// The name of the measured run that this one foretells, if it is a simulation made for that.
    #[serde(default)]
    pub predicts: Option<String>,
    /// The name of the run that a report compares this one with, if that is not its first.
    #[serde(skip)]
    pub twin: Option<String>,
    /// The displayed name of the cache device; none for a bare device.
    pub cache: Option<String>,
    /// Bytes of the cache device, if they are known.
    #[serde(default)]
    pub cache_bytes: Option<u64>,
    pub origin: String,
    pub workload: String,
    pub seed: u64,
    /// Measured time in nanoseconds, without the time before [`crate::workload::Workload::measured_from`].
    pub nanos: u64,
    /// Nanoseconds before the measured time: counters of devices and cache include them.
    #[serde(default)]
    pub ramp_nanos: u64,
    pub jobs: Vec<JobResult>,
    /// Blocks of reads that were found in the cache, over time, with the ramp time.
    pub hit_blocks: Series,
    /// Blocks of reads that were not found in the cache, over time, with the ramp time.
    pub miss_blocks: Series,
    pub cache_device: Option<DeviceResult>,
    pub origin_device: Option<DeviceResult>,
    /// Bytes copied from the origin into the cache after a miss, read-ahead and, in dm-cache, the whole block
    /// included.
    pub promoted_bytes: u64,
    /// Bytes of client writes that entered the cache; in dm-cache only of writes that brought a block in.
    pub logged_bytes: u64,
    /// Bytes of dirty blocks at the end; in a simulation of kickcache also of blocks that were written back
    /// and not yet flushed. Results of `bench` and `demo` have 0.
    pub dirty_bytes: u64,
    #[serde(default)]
    pub pacing: Pacing,
    #[serde(default, skip_serializing_if = "Validity::is_usual")]
    pub standing: Validity,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Validity {
    #[default]
    Counts,
    /// An effect other than the measured one, such as other programs, had too much influence.
    Void,
}

impl Validity {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
    fn is_usual(&self) -> bool {
        *self == Validity::Counts
    }
}

/// The trigger of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// The end of an earlier access: a fixed number are in flight.
    #[default]
    Closed,
    /// Its own time, so that the rate is no measure of the devices.
    Open,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobResult {
    pub name: String,
    pub depth: u32,
    pub reads: Direction,
    pub writes: Direction,
    /// Flushes, discards and writes of zeroes that ended.
    pub others: u64,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Direction {
    pub count: u64,
    pub bytes: u64,
    pub latencies: Latencies,
    pub ended: Series,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DeviceResult {
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    /// Nanoseconds of each interval in which an operation was in flight; empty if there were none, or they are unknown.
    pub busy: Series,
    /// Bytes written in each interval; empty if there were none, or they are unknown.
    pub written: Series,
}

impl Direction {
    pub fn record(&mut self, begun: Instant, ended: Instant, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
        self.latencies.record(ended.since(begun));
        self.ended.add(ended, 1);
    }
}

impl JobResult {
    pub fn new(name: &str, depth: u32) -> JobResult {
        let (reads, writes) = (Direction::default(), Direction::default());
        JobResult { name: name.into(), depth, reads, writes, others: 0 }
    }

    pub fn count(&self) -> u64 {
        self.reads.count + self.writes.count
    }

    pub fn bytes(&self) -> u64 {
        self.reads.bytes + self.writes.bytes
    }

    pub fn latencies(&self) -> Latencies {
        self.reads.latencies.merged(&self.writes.latencies)
    }

    pub fn ended(&self) -> Series {
        self.reads.ended.merged(&self.writes.ended)
    }
}

impl RunResult {
    pub fn new(name: &str, workload: &str, seed: u64) -> RunResult {
        RunResult {
            version: RESULT_VERSION,
            name: name.into(),
            family: None,
            predicts: None,
            twin: None,
            cache: None,
            cache_bytes: None,
            origin: String::new(),
            workload: workload.into(),
            seed,
            nanos: 0,
            ramp_nanos: 0,
            jobs: Vec::new(),
            hit_blocks: Series::default(),
            miss_blocks: Series::default(),
            cache_device: None,
            origin_device: None,
            promoted_bytes: 0,
            logged_bytes: 0,
            dirty_bytes: 0,
            pacing: Pacing::Closed,
            standing: Validity::Counts,
        }
    }

    pub fn count(&self) -> u64 {
        self.jobs.iter().map(JobResult::count).sum()
    }

    pub fn iops(&self) -> f64 {
        self.per_second(self.count())
    }

    pub fn job_iops(&self, job: &JobResult) -> f64 {
        self.per_second(job.count())
    }

    pub fn bytes_per_second(&self) -> f64 {
        self.per_second(self.jobs.iter().map(JobResult::bytes).sum())
    }

    fn per_second(&self, amount: u64) -> f64 {
        share(amount, self.nanos) * 1e9
    }

    pub fn latencies(&self) -> Latencies {
        self.jobs.iter().fold(Latencies::default(), |all, job| all.merged(&job.latencies()))
    }

    pub fn ended(&self) -> Series {
        self.jobs.iter().fold(Series::default(), |all, job| all.merged(&job.ended()))
    }

    /// The share of the requested blocks that hit; `None` if no block was looked up.
    pub fn hit_ratio(&self) -> Option<f64> {
        let (hits, misses) = (self.hit_blocks.total(), self.miss_blocks.total());
        (hits + misses > 0).then(|| share(hits, hits + misses))
    }

    /// Bytes written to the cache device for each byte stored there; `None` if no data was stored, or there is no cache
    /// device.
    pub fn written_per_byte(&self) -> Option<f64> {
        let kept = self.promoted_bytes + self.logged_bytes;
        let written = self.cache_device.as_ref()?.write_bytes;
        (kept > 0).then(|| share(written, kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> RunResult {
        let mut result = RunResult::new("test", "two reads and a write", 7);
        let mut job = JobResult::new("one", 2);
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        job.reads.record(at(0), at(1), 4096);
        job.reads.record(at(500), at(1500), 4096);
        job.writes.record(at(0), at(3), 8192);
        result.jobs.push(job);
        result.nanos = 2_000_000_000;
        result.hit_blocks.add(at(1), 1);
        result.miss_blocks.add(at(1500), 1);
        result
    }

    #[test]
    fn figures_come_from_all_jobs_and_both_directions() {
        let result = run();
        assert_eq!(result.count(), 3);
        assert!((result.iops() - 1.5).abs() < 1e-9);
        assert!((result.bytes_per_second() - 8192.0).abs() < 1e-6);
        assert_eq!(result.hit_ratio(), Some(0.5));
        assert_eq!(result.ended().values(), [2, 1]);
        assert_eq!(result.latencies().count(), 3);
    }

    #[test]
    fn json_gives_the_same_result_back() {
        let result = run();
        let text = serde_json::to_string(&result).unwrap();
        assert_eq!(serde_json::from_str::<RunResult>(&text).unwrap(), result);
    }
}
