//! The metrics of a volume.

use kickcache_engine::units::BLOCK_SIZE;

use crate::control::lru_curve::LruPoint;
use crate::control::report::VolumeReport;
use crate::latency::LatencyHistogram;
use crate::metrics::caches::by_kind;
use crate::metrics::family::{Family, Labelled, Labels, Subject, Values, perhaps};

pub(super) const FAMILIES: &[Family<VolumeReport>] = &[
    Family { name: "kickcache_volume", help: "A volume, and where it is.", values: Values::Info(info) },
    Family {
        name: "kickcache_volume_size_bytes",
        help: "Size of the volume.",
        values: Values::Count(|volume| volume.size_bytes),
    },
    Family {
        name: "kickcache_volume_cached_bytes",
        help: "Bytes of the volume in the cache.",
        values: Values::Count(|volume| volume.cached_bytes),
    },
    Family {
        name: "kickcache_volume_room_min_bytes",
        help: "Cache space reserved for this volume.",
        values: Values::Gauges(|volume| bytes(volume.limits.room_min_bytes)),
    },
    Family {
        name: "kickcache_volume_room_max_bytes",
        help: "Cache space limit of this volume; dirty blocks are never dropped for it.",
        values: Values::Gauges(|volume| bytes(volume.limits.room_max_bytes)),
    },
    Family {
        name: "kickcache_volume_dirty_bytes",
        help: "Bytes that the origin of the volume lacks.",
        values: Values::Count(|volume| volume.dirty_bytes),
    },
    Family {
        name: "kickcache_volume_dirty_for_seconds",
        help: "Time since the volume last had no dirty block, 0 if it has none now; no block is older, and all may be newer.",
        values: Values::Gauge(|volume| volume.dirty_seconds.unwrap_or(0.0)),
    },
    Family {
        name: "kickcache_volume_unflushed_bytes",
        help: "Bytes written to the origin and not flushed there.",
        values: Values::Count(|volume| volume.unflushed_bytes),
    },
    Family {
        name: "kickcache_volume_damaged_bytes",
        help: "Dirty blocks that are damaged; reads fail until the whole block is overwritten.",
        values: Values::Count(|volume| volume.damaged_bytes),
    },
    Family {
        name: "kickcache_volume_draining",
        help: "Whether a drain is in progress.",
        values: Values::Flag(|volume| volume.draining),
    },
    Family {
        name: "kickcache_volume_caching_paused_seconds",
        help: "Remaining seconds of a pause of caching reads, 0 without a pause.",
        values: Values::Gauge(|volume| volume.caching_paused_seconds.unwrap_or(0.0)),
    },
    Family {
        name: "kickcache_volume_incomplete",
        help: "Whether the cache device is out of service and the origin may lack blocks on it, or may not have flushed them.",
        values: Values::Flag(|volume| volume.incomplete),
    },
    Family {
        name: "kickcache_volume_fill_window_bytes",
        help: "The fill window: how much a miss reads from the origin.",
        values: Values::Count(|volume| volume.fill_window_bytes),
    },
    Family {
        name: "kickcache_volume_read_ahead_hit_ratio",
        help: "Part of the blocks of read-ahead that were hit later, since the start; 0 without any.",
        values: Values::Gauge(|volume| volume.read_ahead_hit_ratio.unwrap_or(0.0)),
    },
    Family {
        name: "kickcache_volume_requests_in_flight",
        help: "Requests of clients in flight.",
        values: Values::Count(|volume| volume.requests_in_flight),
    },
    Family {
        name: "kickcache_volume_sessions",
        help: "Clients by front end: NBD connections, virtual machines, block devices of the host.",
        values: Values::Gauges(sessions),
    },
    Family {
        name: "kickcache_volume_origin_silent_seconds",
        help: "Seconds since the origin last completed an operation in flight, from 10 s on; 0 otherwise.",
        values: Values::Gauge(|volume| volume.origin_silent_seconds.unwrap_or(0.0)),
    },
    Family {
        name: "kickcache_volume_origin_away_seconds",
        help: "Seconds since the server of a remote origin was lost; 0 otherwise.",
        values: Values::Gauge(|volume| volume.origin_away_seconds.unwrap_or(0.0)),
    },
    Family {
        name: "kickcache_volume_request_duration_seconds",
        help: "Time from a request to its reply, of requests that succeeded: reads that the cache served alone (hit), other reads (miss), writes and flushes.",
        values: Values::Histograms(durations),
    },
    Family {
        name: "kickcache_volume_read_requests",
        help: "Read requests of clients.",
        values: Values::Counter(|volume| volume.counters.reads),
    },
    Family {
        name: "kickcache_volume_write_requests",
        help: "Write requests of clients.",
        values: Values::Counter(|volume| volume.counters.writes),
    },
    Family {
        name: "kickcache_volume_flush_requests",
        help: "Flush requests of clients.",
        values: Values::Counter(|volume| volume.counters.flushes),
    },
    Family {
        name: "kickcache_volume_discard_requests",
        help: "Discards and writes of zeroes of clients.",
        values: Values::Counter(|volume| volume.counters.discards),
    },
    Family {
        name: "kickcache_volume_failed_requests",
        help: "Requests of clients that ended with an error.",
        values: Values::Counter(|volume| volume.counters.failed_requests),
    },
    Family {
        name: "kickcache_volume_held_requests",
        help: "Requests of clients that waited for the cap on them.",
        values: Values::Counter(|volume| volume.held_requests),
    },
    Family {
        name: "kickcache_volume_recordings",
        help: "Running recordings of client requests.",
        values: Values::Count(|volume| volume.recordings),
    },
    Family {
        name: "kickcache_volume_read_bytes",
        help: "Bytes that clients read.",
        values: Values::Counter(|volume| volume.counters.read_bytes),
    },
    Family {
        name: "kickcache_volume_written_bytes",
        help: "Bytes that clients wrote.",
        values: Values::Counter(|volume| volume.counters.write_bytes),
    },
    Family {
        name: "kickcache_volume_hit_bytes",
        help: "Blocks that reads found in the cache.",
        values: Values::Counter(|volume| volume.counters.hit_blocks * BLOCK_SIZE),
    },
    Family {
        name: "kickcache_volume_miss_bytes",
        help: "Blocks that reads did not find in the cache.",
        values: Values::Counter(|volume| volume.counters.miss_blocks * BLOCK_SIZE),
    },
    Family {
        name: "kickcache_volume_shared_miss_bytes",
        help: "Misses that a fill in flight brought anyway.",
        values: Values::Counter(|volume| volume.counters.shared_blocks * BLOCK_SIZE),
    },
    Family {
        name: "kickcache_volume_offloaded_bytes",
        help: "Hits that were read from the origin, to take load off the cache device.",
        values: Values::Counter(|volume| volume.counters.offloaded_blocks * BLOCK_SIZE),
    },
    Family {
        name: "kickcache_volume_bypassed_bytes",
        help: "Blocks that bypassed the cache; for reads, they are misses, too.",
        values: Values::Counter(|volume| volume.counters.bypass_blocks * BLOCK_SIZE),
    },
    Family {
        name: "kickcache_volume_stream_bypassed_bytes",
        help: "Blocks of long sequential streams among these.",
        values: Values::Counter(|volume| volume.counters.stream_blocks * BLOCK_SIZE),
    },
    Family {
        name: "kickcache_volume_promoted_bytes",
        help: "Blocks filled into the cache, with those of read-ahead.",
        values: Values::Counter(|volume| volume.counters.promoted_blocks * BLOCK_SIZE),
    },
    Family {
        name: "kickcache_volume_read_ahead_bytes",
        help: "Blocks read from the origin in addition to requested ones.",
        values: Values::Counter(|volume| volume.counters.read_ahead_blocks * BLOCK_SIZE),
    },
    Family {
        name: "kickcache_volume_read_ahead_hit_bytes",
        help: "Blocks of read-ahead that were hit later.",
        values: Values::Counter(|volume| volume.counters.read_ahead_hit_blocks * BLOCK_SIZE),
    },
    Family {
        name: "kickcache_volume_logged_bytes",
        help: "Blocks of writes of clients that entered the cache.",
        values: Values::Counter(|volume| volume.counters.logged_blocks * BLOCK_SIZE),
    },
    Family {
        name: "kickcache_volume_writeback_bytes",
        help: "Blocks copied to the origin by writeback.",
        values: Values::Counter(|volume| volume.counters.writeback_blocks * BLOCK_SIZE),
    },
    Family {
        name: "kickcache_volume_healed_bytes",
        help: "Clean blocks with a wrong checksum, which were read from the origin instead.",
        values: Values::Counter(|volume| volume.counters.healed_blocks * BLOCK_SIZE),
    },
    Family {
        name: "kickcache_volume_damage_found_bytes",
        help: "Dirty blocks that were found damaged.",
        values: Values::Counter(|volume| volume.counters.damaged_blocks * BLOCK_SIZE),
    },
    Family {
        name: "kickcache_volume_origin_reads",
        help: "Reads of the origin.",
        values: Values::Counter(|volume| volume.counters.origin_reads),
    },
    Family {
        name: "kickcache_volume_origin_read_bytes",
        help: "Bytes read from the origin.",
        values: Values::Counter(|volume| volume.counters.origin_read_bytes),
    },
    Family {
        name: "kickcache_volume_origin_writes",
        help: "Writes to the origin.",
        values: Values::Counter(|volume| volume.counters.origin_writes),
    },
    Family {
        name: "kickcache_volume_origin_written_bytes",
        help: "Bytes written to the origin.",
        values: Values::Counter(|volume| volume.counters.origin_write_bytes),
    },
    Family {
        name: "kickcache_volume_origin_flushes",
        help: "Flushes of the origin.",
        values: Values::Counter(|volume| volume.counters.origin_flushes),
    },
    Family {
        name: "kickcache_volume_origin_errors",
        help: "Operations of the origin that failed.",
        values: Values::Counter(|volume| volume.counters.origin_errors),
    },
    Family {
        name: "kickcache_volume_origin_errors_by_kind",
        help: "Errors of the origin, by operation and name of the error.",
        values: Values::Counters(|volume| by_kind(&volume.origin_errors_by_kind)),
    },
    Family {
        name: "kickcache_volume_origin_last_error_age_seconds",
        help: "Time since the last error of the origin, if it had one.",
        values: Values::Gauges(|volume| {
            perhaps(volume.origin_last_error.as_ref().map(|error| error.seconds_ago))
        }),
    },
    Family {
        name: "kickcache_volume_lru_read_bytes",
        help: "Blocks that were read, which the curve of LRU caches is about.",
        values: Values::Counters(|volume| {
            let curve = volume.lru_curve.iter();
            curve
                .map(|curve| Labelled { labels: Labels::new(), value: curve.read_blocks * BLOCK_SIZE })
                .collect()
        }),
    },
    Family {
        name: "kickcache_volume_lru_footprint_bytes",
        help: "Different blocks that were read or written, an estimate.",
        values: Values::Gauges(|volume| {
            perhaps(volume.lru_curve.as_ref().map(|curve| curve.footprint_bytes as f64))
        }),
    },
    Family {
        name: "kickcache_volume_lru_hit_ratio",
        help: "The part of the blocks read since the start that an LRU cache of this size would have hit, an estimate.",
        values: Values::Gauges(|volume| points(volume, |point| point.hit_ratio)),
    },
    Family {
        name: "kickcache_volume_lru_hit_ratio_error",
        help: "How far off that estimate may be; 95 of 100 are closer.",
        values: Values::Gauges(|volume| points(volume, |point| point.error)),
    },
];

fn info(volume: &VolumeReport) -> Labels {
    let place = |place: &Option<String>| place.clone().unwrap_or_default();
    let served_at = &volume.served_at;
    vec![
        ("origin", volume.origin.clone()),
        ("mode", volume.mode.as_str().into()),
        ("nbd", served_at.nbd.join(" ")),
        ("vhost_user", place(&served_at.vhost_user)),
        ("ublk", place(&served_at.ublk)),
        ("ublk_removed", place(&served_at.ublk_removed)),
    ]
}

fn bytes(value: Option<u64>) -> Vec<Labelled<f64>> {
    perhaps(value.map(|bytes| bytes as f64))
}

fn sessions(volume: &VolumeReport) -> Vec<Labelled<f64>> {
    let sessions = &volume.sessions;
    let counts = [("nbd", sessions.nbd), ("vhost-user", sessions.vhost_user), ("ublk", sessions.ublk)];
    counts.map(|(frontend, count)| Labelled::one("frontend", frontend, count as f64)).into()
}

fn durations(volume: &VolumeReport) -> Vec<Labelled<LatencyHistogram>> {
    let Some(found) = &volume.latencies else { return Vec::new() };
    let kinds =
        [("hit", found.hits), ("miss", found.misses), ("write", found.writes), ("flush", found.flushes)];
    kinds.map(|(kind, histogram)| Labelled::one("kind", kind, histogram)).into()
}

fn points(volume: &VolumeReport, value: fn(&LruPoint) -> f64) -> Vec<Labelled<f64>> {
    let points = volume.lru_curve.iter().flat_map(|curve| &curve.points);
    points.map(|point| Labelled::one("size_bytes", point.cache_bytes.to_string(), value(point))).collect()
}

impl Subject for VolumeReport {
    fn labels(&self) -> Labels {
        vec![("volume", self.name.clone())]
    }
}
