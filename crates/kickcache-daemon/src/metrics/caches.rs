//! The metrics of a cache device.

use kickcache_engine::units::BLOCK_SIZE;

use crate::control::error_count::ErrorCount;
use crate::control::report::{CacheReport, HealthWord, RecordWord};
use crate::metrics::family::{Family, Labelled, Labels, Subject, Values, perhaps};

const YEAR_SECONDS: f64 = 365.25 * 86_400.0;

pub(super) const FAMILIES: &[Family<CacheReport>] = &[
    Family {
        name: "kickcache_cache",
        help: "A cache device.",
        values: Values::Info(|cache| {
            let record = cache.record.map_or("", record_word);
            vec![
                ("health", health_word(cache.health).into()),
                ("record", record.into()),
                ("io_engine", cache.io_engine.clone()),
            ]
        }),
    },
    Family {
        name: "kickcache_cache_in_service",
        help: "Whether the cache device is in service; without it all requests go to the origins.",
        values: Values::Flag(|cache| cache.health == HealthWord::Good),
    },
    Family {
        name: "kickcache_cache_unrecorded",
        help: "Whether the cache device is out of service and that is recorded nowhere: writes wait or fail.",
        values: Values::Flag(|cache| matches!(cache.record, Some(RecordWord::Pending | RecordWord::Failed))),
    },
    Family {
        name: "kickcache_cache_stopping",
        help: "Whether the server of the cache device stops, and waits for something.",
        values: Values::Flag(|cache| cache.stop_waits_for.is_some()),
    },
    Family {
        name: "kickcache_cache_silent_seconds",
        help: "Seconds since the cache device last completed an operation in flight, from 10 s on; 0 otherwise.",
        values: Values::Gauge(|cache| cache.silent_seconds.unwrap_or(0.0)),
    },
    Family {
        name: "kickcache_cache_replacement_left_bytes",
        help: "Bytes to be copied to the device that takes over; 0 without a replacement.",
        values: Values::Count(|cache| {
            cache.replacing.as_ref().map_or(0, |replacing| replacing.bytes - replacing.copied_bytes)
        }),
    },
    Family {
        name: "kickcache_cache_device_bytes",
        help: "The cache device, as far as it is used.",
        values: Values::Count(|cache| cache.device_bytes),
    },
    Family {
        name: "kickcache_cache_capacity_bytes",
        help: "Capacity of all segments of the log.",
        values: Values::Count(|cache| cache.capacity_bytes),
    },
    Family {
        name: "kickcache_cache_dirty_bytes",
        help: "Bytes that the origins of all volumes lack or have not flushed.",
        values: Values::Count(CacheReport::not_clean_bytes),
    },
    Family {
        name: "kickcache_cache_probation_bytes",
        help: "Cached blocks in probation.",
        values: Values::Count(|cache| cache.probation_bytes),
    },
    Family {
        name: "kickcache_cache_probation_target_bytes",
        help: "The target size of probation.",
        values: Values::Count(|cache| cache.probation_target_bytes),
    },
    Family {
        name: "kickcache_cache_main_bytes",
        help: "Cached blocks in main.",
        values: Values::Count(|cache| cache.main_bytes),
    },
    Family {
        name: "kickcache_cache_memory_bytes",
        help: "Memory of the cache metadata.",
        values: Values::Count(|cache| cache.memory_bytes),
    },
    Family {
        name: "kickcache_cache_segments",
        help: "Segments of the log.",
        values: Values::Count(|cache| cache.segments),
    },
    Family {
        name: "kickcache_cache_free_segments",
        help: "Empty segments; a full cache keeps about one in 128 free, at least six.",
        values: Values::Count(|cache| cache.free_segments),
    },
    Family {
        name: "kickcache_cache_retired_segments",
        help: "Segments that are not used any more, because the device failed there.",
        values: Values::Count(|cache| cache.retired_segments),
    },
    Family {
        name: "kickcache_cache_reads",
        help: "Reads of the cache device.",
        values: Values::Counter(|cache| cache.counters.reads),
    },
    Family {
        name: "kickcache_cache_read_bytes",
        help: "Bytes read from the cache device.",
        values: Values::Counter(|cache| cache.counters.read_bytes),
    },
    Family {
        name: "kickcache_cache_writes",
        help: "Writes to the cache device: batches, journal blocks and summaries.",
        values: Values::Counter(|cache| cache.counters.writes),
    },
    Family {
        name: "kickcache_cache_written_bytes",
        help: "Bytes written to the cache device, its wear.",
        values: Values::Counter(|cache| cache.counters.write_bytes),
    },
    Family {
        name: "kickcache_cache_day_written_bytes",
        help: "Bytes written to the cache device in the last 24 hours.",
        values: Values::Count(|cache| cache.wear.day_bytes),
    },
    Family {
        name: "kickcache_cache_write_budget_bytes",
        help: "Bytes that may be written to the cache device in a day.",
        values: Values::Gauges(|cache| perhaps(cache.wear.budget_bytes_per_day.map(|bytes| bytes as f64))),
    },
    Family {
        name: "kickcache_cache_write_budget_given_up",
        help: "Fills skipped for the write budget: 0 none, 1 read-ahead, 2 unknown blocks, 3 known blocks, 4 all.",
        values: Values::Count(|cache| cache.wear.given_up.rank()),
    },
    Family {
        name: "kickcache_cache_refused_bytes",
        help: "Blocks that the write budget kept out of the cache.",
        values: Values::Counter(|cache| cache.counters.refused_blocks * BLOCK_SIZE),
    },
    Family {
        name: "kickcache_cache_life_seconds",
        help: "Time to write the endurance of the cache device, if each day is like the last one.",
        values: Values::Gauges(|cache| perhaps(cache.wear.life_years.map(|years| years * YEAR_SECONDS))),
    },
    Family {
        name: "kickcache_cache_batches",
        help: "Writes to the cache device that carried blocks.",
        values: Values::Counter(|cache| cache.counters.batches),
    },
    Family {
        name: "kickcache_cache_flushes",
        help: "Flushes of the cache device.",
        values: Values::Counter(|cache| cache.counters.flushes),
    },
    Family {
        name: "kickcache_cache_reinserted_bytes",
        help: "Blocks that reclaim copied to a head of the log, to keep them.",
        values: Values::Counter(|cache| cache.counters.reinserted_blocks * BLOCK_SIZE),
    },
    Family {
        name: "kickcache_cache_discarded_bytes",
        help: "Bytes that were discarded on the cache device.",
        values: Values::Counter(|cache| cache.counters.discarded_bytes),
    },
    Family {
        name: "kickcache_cache_demoted_bytes",
        help: "Clean blocks that reclaim dropped.",
        values: Values::Counter(|cache| cache.counters.demoted_blocks * BLOCK_SIZE),
    },
    Family {
        name: "kickcache_cache_reclaimed_segments",
        help: "Segments that were emptied for reuse.",
        values: Values::Counter(|cache| cache.counters.reclaimed_segments),
    },
    Family {
        name: "kickcache_cache_kept_segments",
        help: "Segments of main that reclaim left in place because they were hot.",
        values: Values::Counter(|cache| cache.counters.kept_segments),
    },
    Family {
        name: "kickcache_cache_checkpoints",
        help: "Checkpoints of the journal that were completed.",
        values: Values::Counter(|cache| cache.counters.checkpoints),
    },
    Family {
        name: "kickcache_cache_journal_records",
        help: "Records written to the journal.",
        values: Values::Counter(|cache| cache.counters.journal_records),
    },
    Family {
        name: "kickcache_cache_errors",
        help: "Operations of the cache device that failed.",
        values: Values::Counter(|cache| cache.counters.errors),
    },
    Family {
        name: "kickcache_cache_errors_by_kind",
        help: "Errors of the cache device, by operation and name of the error.",
        values: Values::Counters(|cache| by_kind(&cache.errors_by_kind)),
    },
    Family {
        name: "kickcache_cache_last_error_age_seconds",
        help: "Time since the last error of the cache device, if it had one.",
        values: Values::Gauges(|cache| perhaps(cache.last_error.as_ref().map(|error| error.seconds_ago))),
    },
    Family {
        name: "kickcache_cache_scrape_pause_seconds",
        help: "Seconds for which this scrape occupied the server of the cache device.",
        values: Values::Gauge(|cache| cache.sample_seconds.unwrap_or(0.0)),
    },
];

pub(super) fn by_kind(errors: &[ErrorCount]) -> Vec<Labelled<u64>> {
    let count = |error: &ErrorCount| {
        let labels = vec![("operation", error.operation.clone()), ("error", error.name.clone())];
        Labelled { labels, value: error.count }
    };
    errors.iter().map(count).collect()
}

fn health_word(health: HealthWord) -> &'static str {
    match health {
        HealthWord::Good => "good",
        HealthWord::OutOfService => "out-of-service",
    }
}

fn record_word(record: RecordWord) -> &'static str {
    match record {
        RecordWord::ByOrder => "by-order",
        RecordWord::Earlier => "earlier",
        RecordWord::OnDevice => "on-device",
        RecordWord::InStateDirectory => "in-state-directory",
        RecordWord::Pending => "pending",
        RecordWord::Failed => "failed",
    }
}

impl Subject for CacheReport {
    fn labels(&self) -> Labels {
        vec![("cache", self.device.clone())]
    }
}
