//! The state of a daemon as the control socket and `status --json` report it. Sizes are in bytes; counters grow,
//! until they begin again at 0.
//!
//! Over 500 lines because a report is one tree, whose fields are listed in one place.

use std::path::PathBuf;

use kickcache_engine::stats::{self, CacheHealth};
use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::{BLOCK_SIZE, BlockIndex, VolumeId};
use serde::{Deserialize, Serialize};

use crate::control::activity::Activity;
use crate::control::condition::{Condition, Health};
use crate::control::error_count::ErrorCount;
use crate::control::host_report::HostReport;
use crate::control::last_error::LastError;
use crate::control::limits_report::LimitsReport;
use crate::control::lru_curve::LruCurve;
use crate::control::memory_report::MemoryReport;
use crate::control::replacing_report::{LeavingOutReport, ReplacingReport};
use crate::control::wear_report::WearReport;
use crate::extents::{Extent, extents};
use crate::latency::Latencies;
use crate::plan::cache_spec::SkippedVolume;
use crate::plan::client_cap::ClientCap;
use crate::plan::frontends::{ServedAt, Sessions};
use crate::words::ModeWord;

/// The state of a daemon.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    pub version: String,
    pub pid: u32,
    pub uptime_seconds: f64,
    /// The configured I/O engine: `auto`, `io_uring` or `threads`.
    pub io_engine: String,
    #[serde(default)]
    pub state_directory: Option<PathBuf>,
    pub caches: Vec<CacheReport>,
    /// Configured volumes that are not served, and volumes without a configuration that have blocks on a cache
    /// device which their origins lack.
    #[serde(default)]
    pub unserved: Vec<UnservedReport>,
    /// Whether the monitor has ended before the daemon.
    #[serde(default)]
    pub monitor_ended: bool,
    #[serde(default)]
    pub memory: MemoryReport,
    /// Why the present files of certificates cannot be used; `None` if they can, or without certificates.
    #[serde(default)]
    pub tls_failure: Option<String>,
    #[serde(default)]
    pub health: Health,
    /// The conditions, the most urgent first.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    #[serde(default)]
    pub host: HostReport,
}

/// A volume that is not served.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UnservedReport {
    pub name: String,
    /// Why the volume is not served.
    pub why: String,
    /// The commands of the remedy, in their order; empty if there are none.
    #[serde(default)]
    pub commands: Vec<String>,
}

impl From<SkippedVolume> for UnservedReport {
    fn from(SkippedVolume { name, why }: SkippedVolume) -> UnservedReport {
        UnservedReport { name, why, commands: Vec::new() }
    }
}

/// A cache device.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CacheReport {
    pub device: String,
    pub health: HealthWord,
    /// The I/O engine in use: `io_uring` or `threads`.
    #[serde(default)]
    pub io_engine: String,
    /// If the cache device is out of service: where this is recorded.
    #[serde(default)]
    pub record: Option<RecordWord>,
    #[serde(default)]
    pub last_error: Option<LastError>,
    #[serde(default)]
    pub errors_by_kind: Vec<ErrorCount>,
    /// Seconds in which it completed none of its outstanding operations, if at least 10; `None` also while a cache
    /// device only waits for the new one.
    #[serde(default)]
    pub silent_seconds: Option<f64>,
    /// The path below /proc of the cache file, if the file has no name any more.
    #[serde(default)]
    pub unlinked_at: Option<String>,
    #[serde(default)]
    pub stop_waits_for: Option<String>,
    /// The size of the cache device in bytes, as its superblock records it.
    #[serde(default)]
    pub device_bytes: u64,
    /// The size in bytes after the growth in progress; `None` without one, and until the new size has been checked.
    #[serde(default)]
    pub growing_to_bytes: Option<u64>,
    /// The replacement in progress.
    #[serde(default)]
    pub replacing: Option<ReplacingReport>,
    /// Why the last replacement failed; `None` if it did not, if its caller got the error, or if a new
    /// replacement has begun.
    #[serde(default)]
    pub replacement_failure: Option<String>,
    #[serde(default)]
    pub leaving_out: Option<LeavingOutReport>,
    /// Bytes that its segments can hold.
    pub capacity_bytes: u64,
    pub segments: u64,
    /// Segments that are free for new blocks.
    pub free_segments: u64,
    /// Segments that get no more blocks.
    #[serde(default)]
    pub retired_segments: u64,
    pub probation_bytes: u64,
    /// The size in bytes that the policy aims at for probation.
    pub probation_target_bytes: u64,
    pub main_bytes: u64,
    /// Memory of the tables in bytes.
    pub memory_bytes: u64,
    #[serde(default)]
    pub wear: WearReport,
    /// Seconds of the server's time for this report; for metrics only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_seconds: Option<f64>,
    pub counters: CacheCounters,
    pub volumes: Vec<VolumeReport>,
}

/// Whether a cache device is in service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HealthWord {
    Good,
    /// The cache device failed, or was left out.
    OutOfService,
}

/// Where it is on record that a cache device is out of service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordWord {
    /// No record is needed: the user took the cache device out of use, or an offline tool writes its dirty blocks
    /// back.
    ByOrder,
    /// The record that the start found: the device was out of service before.
    Earlier,
    OnDevice,
    InStateDirectory,
    Pending,
    Failed,
}

/// The state of a volume.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct VolumeReport {
    pub name: String,
    /// The recorded identity of the origin, such as `file:/srv/vm1.raw`.
    pub origin: String,
    #[serde(default)]
    pub origin_last_error: Option<LastError>,
    #[serde(default)]
    pub origin_errors_by_kind: Vec<ErrorCount>,
    /// Seconds in which the origin completed none of its outstanding operations, if at least 10.
    #[serde(default)]
    pub origin_silent_seconds: Option<f64>,
    /// Seconds since the connection to the server of a remote origin was lost, if there is none now.
    #[serde(default)]
    pub origin_away_seconds: Option<f64>,
    /// How the connection was lost, or why the last attempt to connect again failed; `None` if there is a
    /// connection.
    #[serde(default)]
    pub origin_away_why: Option<String>,
    /// Seconds until requests fail because the server is unreachable; 0 if they fail already, `None` if there is a
    /// connection.
    #[serde(default)]
    pub origin_fails_in_seconds: Option<f64>,
    /// The path below /proc of the origin's file, if the file has no name any more.
    #[serde(default)]
    pub origin_unlinked_at: Option<String>,
    #[serde(flatten)]
    pub served_at: ServedAt,
    pub mode: ModeWord,
    #[serde(default)]
    pub limits: LimitsReport,
    /// Requests that waited because of the clients' caps, since the volume was added.
    #[serde(default)]
    pub held_requests: u64,
    #[serde(default)]
    pub recordings: u64,
    pub size_bytes: u64,
    pub cached_bytes: u64,
    /// Bytes of dirty blocks.
    pub dirty_bytes: u64,
    /// Seconds since the volume last had no dirty bytes, or since it was opened if it has had some since then; `None`
    /// if it has none now.
    #[serde(default)]
    pub dirty_seconds: Option<f64>,
    /// Bytes that were dirty at the start; 0 once the volume has had no dirty block.
    #[serde(default)]
    pub recovered_bytes: u64,
    /// Dirty bytes that are lost.
    #[serde(default)]
    pub damaged_bytes: u64,
    /// Where the damaged bytes are; a part of a very long list.
    #[serde(default)]
    pub damaged: Vec<Extent>,
    /// Bytes that the origin has but has not flushed.
    pub unflushed_bytes: u64,
    /// The volume is being drained: blocks are left to write back or to flush, or their records are not durable yet.
    #[serde(default)]
    pub draining: bool,
    /// Remaining seconds of a pause of caching; `None` if caching is not paused.
    #[serde(default)]
    pub caching_paused_seconds: Option<f64>,
    pub fill_window_bytes: u64,
    pub requests_in_flight: u64,
    #[serde(default)]
    pub sessions: Sessions,
    /// Whether the cache device is out of service, and may hold blocks that the origin lacks.
    #[serde(default)]
    pub incomplete: bool,
    /// The hit blocks of reads as a share of these and of the missed blocks of reads and promotions, from 0 to 1;
    /// `None` before the first.
    #[serde(default)]
    pub hit_ratio: Option<f64>,
    /// The part of the blocks read ahead that were hit later, from 0 to 1; `None` if no block was read ahead.
    #[serde(default)]
    pub read_ahead_hit_ratio: Option<f64>,
    /// Reads, writes and write-zeroes of the origin for each 1,000 reads and writes of clients, if there were any.
    #[serde(default)]
    pub origin_requests_per_1000: Option<f64>,
    /// Bytes of missed blocks that were not promoted, and of blocks written past the log of a cache device in
    /// service.
    #[serde(default)]
    pub bypass_bytes: u64,
    /// The requests since the volume was added; none in a report for metrics.
    #[serde(default)]
    pub since_start: Activity,
    /// The requests of the present and of the previous interval; none in a report for metrics.
    #[serde(default)]
    pub recent: Activity,
    /// The hit ratios of LRU caches of other sizes, once there were reads; a report for metrics has the ratios of
    /// one volume at a time.
    #[serde(default)]
    pub lru_curve: Option<LruCurve>,
    /// How long requests took, in fixed buckets; for metrics only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latencies: Option<Latencies>,
    pub counters: VolumeCounters,
}

/// The data of a report about a cache device that the engine's status does not have.
#[derive(Clone, PartialEq, Debug)]
pub struct CacheFacts {
    /// The time of the engine's numbers.
    pub now: Instant,
    pub device: PathBuf,
    pub size: u64,
    pub growing_to: Option<u64>,
    pub replacing: Option<ReplacingReport>,
    pub replacement_failure: Option<String>,
    pub wear: WearReport,
    pub trouble: Trouble,
    pub stop_waits_for: Option<String>,
    pub io_engine: String,
    pub sample_seconds: Option<f64>,
    pub volumes: Vec<VolumeFacts>,
}

/// The problems of a device, as far as it has any.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Trouble {
    pub last_error: Option<LastError>,
    pub errors_by_kind: Vec<ErrorCount>,
    pub silent_seconds: Option<f64>,
    pub away_seconds: Option<f64>,
    pub away_why: Option<String>,
    pub fails_in_seconds: Option<f64>,
    pub unlinked_at: Option<String>,
}

/// The data of a report about a volume that the engine's status does not have, and its id.
#[derive(Clone, PartialEq, Debug)]
pub struct VolumeFacts {
    pub id: VolumeId,
    pub name: String,
    pub origin: String,
    pub trouble: Trouble,
    pub since_start: Activity,
    pub recent: Activity,
    pub lru_curve: Option<LruCurve>,
    pub latencies: Option<Latencies>,
    pub served_at: ServedAt,
    pub sessions: Sessions,
    pub client_cap: ClientCap,
    pub held_requests: u64,
    pub recordings: u64,
    pub recovered: u64,
}

impl Report {
    /// The most urgent condition that concerns a volume, itself or through its cache device.
    pub fn condition_of(&self, volume: &str, device: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.concerns(volume, device))
    }
}

impl CacheReport {
    /// Whether the device was neither left out, nor out of service at the start.
    pub fn is_in_use(&self) -> bool {
        !matches!(self.record, Some(RecordWord::ByOrder | RecordWord::Earlier))
    }

    /// Bytes of cached blocks.
    pub fn used_bytes(&self) -> u64 {
        self.probation_bytes + self.main_bytes
    }

    pub fn dirty_bytes(&self) -> u64 {
        self.volumes.iter().map(|volume| volume.dirty_bytes).sum()
    }

    /// Bytes of all its volumes that are dirty, or written back and not flushed.
    pub fn not_clean_bytes(&self) -> u64 {
        self.volumes.iter().map(VolumeReport::not_clean_bytes).sum()
    }

    /// The report on one engine; volumes without facts or without a status in the engine are left out.
    pub fn new(status: &stats::Status, facts: CacheFacts) -> CacheReport {
        let (now, capacity) = (facts.now, status.capacity_blocks);
        let volume = |facts: VolumeFacts| {
            let damaged = status.damaged.iter().filter(|key| key.volume() == facts.id);
            let damaged: Vec<BlockIndex> = damaged.map(|key| key.block()).collect();
            let status = status.volumes.iter().find(|status| status.volume == facts.id)?;
            Some(VolumeReport::new(status, &damaged, now, capacity, facts))
        };
        CacheReport {
            device: facts.device.display().to_string(),
            health: status.health.into(),
            record: status.record.map(RecordWord::from),
            io_engine: facts.io_engine,
            last_error: facts.trouble.last_error,
            errors_by_kind: facts.trouble.errors_by_kind,
            silent_seconds: facts.trouble.silent_seconds,
            unlinked_at: facts.trouble.unlinked_at,
            stop_waits_for: facts.stop_waits_for,
            device_bytes: facts.size,
            growing_to_bytes: facts.growing_to,
            replacing: facts.replacing,
            replacement_failure: facts.replacement_failure,
            leaving_out: None,
            capacity_bytes: status.capacity_blocks * BLOCK_SIZE,
            segments: status.segments,
            free_segments: status.free_segments,
            retired_segments: status.retired_segments,
            probation_bytes: status.probation_blocks * BLOCK_SIZE,
            probation_target_bytes: status.probation_target * BLOCK_SIZE,
            main_bytes: status.main_blocks * BLOCK_SIZE,
            memory_bytes: status.memory_bytes,
            wear: facts.wear,
            sample_seconds: facts.sample_seconds,
            counters: status.counters.into(),
            volumes: facts.volumes.into_iter().filter_map(volume).collect(),
        }
    }
}

impl VolumeReport {
    /// Bytes that are dirty, or written back and not flushed.
    pub fn not_clean_bytes(&self) -> u64 {
        self.dirty_bytes + self.unflushed_bytes
    }

    fn new(
        status: &stats::VolumeStatus,
        damaged: &[BlockIndex],
        now: Instant,
        capacity: u64,
        facts: VolumeFacts,
    ) -> VolumeReport {
        let counters = &status.counters;
        VolumeReport {
            name: facts.name,
            origin: facts.origin,
            origin_last_error: facts.trouble.last_error,
            origin_errors_by_kind: facts.trouble.errors_by_kind,
            origin_silent_seconds: facts.trouble.silent_seconds,
            origin_away_seconds: facts.trouble.away_seconds,
            origin_away_why: facts.trouble.away_why,
            origin_fails_in_seconds: facts.trouble.fails_in_seconds,
            origin_unlinked_at: facts.trouble.unlinked_at,
            served_at: facts.served_at,
            mode: status.mode.into(),
            limits: LimitsReport::new(&status.settings, facts.client_cap, capacity),
            held_requests: facts.held_requests,
            recordings: facts.recordings,
            size_bytes: status.size,
            cached_bytes: status.cached_blocks * BLOCK_SIZE,
            dirty_bytes: status.dirty_blocks * BLOCK_SIZE,
            dirty_seconds: status.dirty_since.map(|since| seconds(now.since(since))),
            recovered_bytes: facts.recovered,
            damaged_bytes: status.damaged_blocks * BLOCK_SIZE,
            damaged: extents(damaged).iter().map(Extent::from).collect(),
            unflushed_bytes: status.unflushed_blocks * BLOCK_SIZE,
            draining: status.is_draining,
            caching_paused_seconds: (status.paused_until > now)
                .then(|| seconds(status.paused_until.since(now))),
            fill_window_bytes: status.fill_window,
            requests_in_flight: status.requests_in_flight,
            sessions: facts.sessions,
            incomplete: status.is_incomplete,
            hit_ratio: ratio(counters.hit_blocks, counters.hit_blocks + counters.miss_blocks),
            read_ahead_hit_ratio: ratio(counters.read_ahead_hit_blocks, counters.read_ahead_blocks),
            origin_requests_per_1000: ratio(
                counters.origin_reads + counters.origin_writes,
                counters.reads + counters.writes,
            )
            .map(|ratio| ratio * 1e3),
            bypass_bytes: counters.bypass_blocks * BLOCK_SIZE,
            since_start: facts.since_start,
            recent: facts.recent,
            lru_curve: facts.lru_curve,
            latencies: facts.latencies,
            counters: status.counters.into(),
        }
    }
}

fn seconds(span: Duration) -> f64 {
    span.as_nanos() as f64 / 1e9
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl From<stats::Record> for RecordWord {
    fn from(record: stats::Record) -> RecordWord {
        match record {
            stats::Record::ByOrder => RecordWord::ByOrder,
            stats::Record::OnDevice => RecordWord::OnDevice,
            stats::Record::WithHost => RecordWord::InStateDirectory,
            stats::Record::Pending => RecordWord::Pending,
            stats::Record::Failed => RecordWord::Failed,
        }
    }
}

impl From<CacheHealth> for HealthWord {
    fn from(health: CacheHealth) -> HealthWord {
        match health {
            CacheHealth::Good => HealthWord::Good,
            CacheHealth::OutOfService => HealthWord::OutOfService,
        }
    }
}

macro_rules! counters {
    ($(#[$doc:meta])* $name:ident { $($field:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $(
                #[doc = concat!("See [`stats::", stringify!($name), "::", stringify!($field), "`].")]
                pub $field: u64,
            )*
        }

        impl From<stats::$name> for $name {
            fn from(counters: stats::$name) -> $name {
                let stats::$name { $($field),* } = counters;
                $name { $($field),* }
            }
        }
    };
}

counters! {
    /// Counters of a volume since the daemon opened it, or since a cache device was last left out or put into use
    /// for it.
    VolumeCounters {
        reads, writes, flushes, discards, read_bytes, write_bytes, hit_blocks, miss_blocks, shared_blocks,
        offloaded_blocks, bypass_blocks, stream_blocks, promoted_blocks, read_ahead_blocks, read_ahead_hit_blocks, logged_blocks, writeback_blocks,
        drains, origin_reads, origin_read_bytes, origin_writes, origin_write_bytes, origin_flushes, origin_errors,
        healed_blocks, damaged_blocks, failed_requests,
    }
}

counters! {
    /// Counters of a cache device since the daemon opened it or the device that it replaced.
    CacheCounters {
        reads, read_bytes, writes, write_bytes, batches, flushes, reinserted_blocks, discarded_bytes, demoted_blocks,
        refused_blocks, reclaimed_segments, kept_segments, checkpoints, journal_records, errors,
    }
}
