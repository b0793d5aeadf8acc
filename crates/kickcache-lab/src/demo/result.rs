//! The measurements of the demo, as they are printed, stored and read again.

use hdrhistogram::Histogram;
use kickcache_model::result::RunResult;
use serde::{Deserialize, Serialize};

use crate::demo::load_maker::LoadMaker;

pub const RESULT_VERSION: u32 = 2;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DemoResult {
    pub version: u32,
    pub settings: Settings,
    pub phases: Vec<PhaseResult>,
    /// The runs as other commands store them, with histograms and series.
    #[serde(default)]
    pub runs: Vec<RunResult>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Settings {
    pub kickcache: String,
    pub load: LoadMaker,
    pub seed: u64,
    pub jobs: u64,
    pub depth: u64,
    pub block_bytes: u64,
    pub zipf_theta: f64,
    pub job_bytes: u64,
    /// Bytes of the cache device.
    pub cache_bytes: u64,
    /// The disk that the slow disk simulates.
    pub slow_disk: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The slow disk, no cache.
    SlowDisk,
    /// The fast file, no cache.
    FastFile,
    /// An empty cache in front of the slow disk.
    Cold,
    /// The cache is full of blocks that are never requested.
    Stale,
    /// The same cache after its server was stopped and started.
    Restart,
}

impl Phase {
    pub const ALL: [Phase; 5] = [Phase::SlowDisk, Phase::FastFile, Phase::Cold, Phase::Stale, Phase::Restart];

    pub fn name(self) -> &'static str {
        match self {
            Phase::SlowDisk => "slow alone",
            Phase::FastFile => "fast alone",
            Phase::Cold => "empty cache",
            Phase::Stale => "stale data",
            Phase::Restart => "restarted",
        }
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PhaseResult {
    pub phase: Phase,
    pub millis: u64,
    #[serde(default)]
    pub others: f64,
    pub total: Figures,
    pub jobs: Vec<Figures>,
    /// The counters of the cache; `None` for runs without a cache.
    pub cache: Option<CacheFigures>,
    pub interval_millis: u64,
    /// Operations of all jobs that ended in each interval.
    pub operations: Vec<u64>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figures {
    pub operations: u64,
    pub iops: u64,
    pub latency: Latency,
}

/// Times from request to reply, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Latency {
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub p99_9_ns: u64,
    pub max_ns: u64,
}

/// The counters of the engine during a run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct CacheFigures {
    pub hit_blocks: u64,
    pub miss_blocks: u64,
    pub hit_ratio: f64,
    pub promoted_blocks: u64,
    pub origin_reads: u64,
    /// Blocks of the slow disk in the cache at the end.
    pub cached_blocks: u64,
}

impl CacheFigures {
    /// The part of the blocks that was found in the cache, to four places; 0 without blocks.
    pub fn ratio(hit_blocks: u64, miss_blocks: u64) -> f64 {
        let whole = (hit_blocks + miss_blocks).max(1);
        (hit_blocks as f64 / whole as f64 * 10_000.0).round() / 10_000.0
    }
}

impl Figures {
    pub fn new(latencies: &Histogram<u64>, millis: u64) -> Figures {
        let operations = latencies.len();
        Figures {
            operations,
            iops: operations * 1000 / millis.max(1),
            latency: Latency {
                mean_ns: rounded(latencies.mean()),
                p50_ns: latencies.value_at_quantile(0.5),
                p99_ns: latencies.value_at_quantile(0.99),
                p99_9_ns: latencies.value_at_quantile(0.999),
                max_ns: latencies.max(),
            },
        }
    }
}

impl PhaseResult {
    /// Operations a second between two points of the run, in milliseconds from its start, each rounded down
    /// to a whole interval.
    pub fn iops_between(&self, from: u64, to: u64) -> u64 {
        let interval = self.interval_millis.max(1);
        let index = |millis: u64| usize::try_from(millis / interval).unwrap_or(usize::MAX);
        let end = index(to).min(self.operations.len());
        let part = &self.operations[index(from).min(end)..end];
        let millis = part.len() as u64 * interval;
        part.iter().sum::<u64>() * 1000 / millis.max(1)
    }
}

impl DemoResult {
    pub fn phase(&self, phase: Phase) -> Option<&PhaseResult> {
        self.phases.iter().find(|result| result.phase == phase)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and times are positive"
)]
fn rounded(nanos: f64) -> u64 {
    nanos.round() as u64
}
