//! Figures without a column in the table, in sentences.

use std::collections::BTreeSet;
use std::time::Duration;

use kickcache_daemon::control::activity::{Activity, RequestLatency};
use kickcache_daemon::control::memory_report::MemoryReport;
use kickcache_daemon::control::report::{CacheReport, Report, VolumeCounters, VolumeReport};
use kickcache_daemon::control::wear_report::WearReport;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_units::{counted, show_bytes, show_count, show_duration, show_ratio, show_years};

/// The configured I/O engine, and the engines in use if they differ.
pub(super) fn engines(report: &Report) -> String {
    let used: BTreeSet<&str> = report.caches.iter().map(|cache| cache.io_engine.as_str()).collect();
    let used: Vec<&str> = used.into_iter().filter(|engine| !engine.is_empty()).collect();
    match used.as_slice() {
        [] => report.io_engine.clone(),
        [one] if *one == report.io_engine => report.io_engine.clone(),
        some => format!("{} ({})", report.io_engine, some.join(", ")),
    }
}

/// `None` for a daemon that does not report its memory.
pub(super) fn memory_sentence(memory: &MemoryReport) -> Option<String> {
    let waiting = match memory.waiting_requests {
        0 => String::new(),
        1 => "; 1 request waits for more".into(),
        some => format!("; {} requests wait for more", show_count(some)),
    };
    let (used, limit) = (show_bytes(memory.used_bytes), show_bytes(memory.limit_bytes));
    (memory.limit_bytes > 0).then(|| format!("memory for payload: {used} of {limit}{waiting}"))
}

pub(super) fn cache_sentences(cache: &CacheReport) -> Vec<String> {
    if !cache.is_in_use() {
        return vec![format!("cache device {}: not in use", cache.device)];
    }
    let retired = match cache.retired_segments {
        0 => String::new(),
        some => format!(", {} retired", show_count(some)),
    };
    let (capacity, dirty) = (show_bytes(cache.capacity_bytes), show_bytes(cache.dirty_bytes()));
    let free = show_ratio(cache.free_segments, cache.segments);
    let (memory, written) = (show_bytes(cache.memory_bytes), show_bytes(cache.counters.write_bytes));
    let figures = format!(
        "cache device {}: {capacity}, {dirty} dirty, {free} of the segments free{retired}; {written} written to it; tables take \
         {memory} of memory",
        cache.device
    );
    [figures].into_iter().chain(wear(&cache.wear)).collect()
}

/// The wear of a cache device; `None` without a budget and a known life.
fn wear(wear: &WearReport) -> Option<String> {
    let day = Duration::from_secs_f64(wear.day_seconds.clamp(0.0, 86_400.0));
    let (written, day) = (show_bytes(wear.day_bytes), show_duration(day));
    let life = wear.life_years.map(|life| format!("at this rate it lasts {}", show_years(life)));
    let Some(budget) = wear.budget_bytes_per_day else {
        return Some(format!("  {written} written in the last {day}; {}", life?));
    };
    let share = show_ratio(wear.day_bytes, budget);
    let all = [
        Some(format!(
            "{written} written in the last {day}, {share} of the write budget of {} a day",
            show_bytes(budget)
        )),
        wear.given_up.effect().map(str::to_owned),
        life,
    ];
    Some(format!("  {}", all.into_iter().flatten().collect::<Vec<_>>().join("; ")))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Span {
    /// Since the volume was added.
    SinceStart,
    /// The present interval of 30 seconds and the interval before.
    Recent,
}

pub(super) fn volume_sentences(volume: &VolumeReport, span: Span) -> Vec<String> {
    let mut sentences = vec![format!("{}: {}", volume.name, gained(volume, span))];
    if volume.recordings > 0 {
        sentences.push("  its requests are being recorded".into());
    }
    let activity = activity(volume, span);
    let kinds = [
        ("reads from the cache", &activity.hits),
        ("from the origin", &activity.misses),
        ("writes", &activity.writes),
    ];
    let times: Vec<String> = kinds.into_iter().filter_map(|(kind, took)| show_took(kind, took)).collect();
    if !times.is_empty() {
        sentences.push(format!("  {}", times.join("; ")));
    }
    let mut costs = Vec::new();
    if let Some(requests) = volume.origin_requests_per_1000 {
        costs
            .push(format!("{requests:.0} requests to the origin for each 1,000 of clients{}", saved(volume)));
    }
    if volume.counters.offloaded_blocks > 0 {
        let offloaded = show_bytes(volume.counters.offloaded_blocks * BLOCK_SIZE);
        costs.push(format!("{offloaded} of hits were read from the origin"));
    }
    if volume.bypass_bytes > 0 {
        costs.push(format!("{} bypassed the cache", show_bytes(volume.bypass_bytes)));
    }
    if !costs.is_empty() {
        sentences.push(format!("  since the start: {}", costs.join("; ")));
    }
    sentences
}

fn activity(volume: &VolumeReport, span: Span) -> &Activity {
    match span {
        Span::Recent => &volume.recent,
        Span::SinceStart => &volume.since_start,
    }
}

/// As in ` (2,600 saved)`.
fn saved(volume: &VolumeReport) -> String {
    let VolumeCounters { reads, writes, origin_reads, origin_writes, .. } = volume.counters;
    match (reads + writes).checked_sub(origin_reads + origin_writes) {
        Some(saved) if saved > 0 => format!(" ({} saved)", show_count(saved)),
        Some(_) | None => String::new(),
    }
}

/// The reads and their latency; an estimate of the latency without the cache, if there is one.
fn gained(volume: &VolumeReport, span: Span) -> String {
    let activity = activity(volume, span);
    let reads = activity.reads();
    if reads == 0 {
        return match span {
            Span::SinceStart => "no reads".into(),
            Span::Recent => format!("no reads in the last {:.0} s", activity.seconds),
        };
    }
    let count = counted(reads, "read");
    let first = match (span, volume.hit_ratio) {
        (Span::SinceStart, Some(ratio)) => {
            format!("{count}, {:.1} % of the data from the cache (hit ratio)", ratio * 100.0)
        }
        (Span::SinceStart, None) => count,
        (Span::Recent, _) => format!("{count} in the last {:.0} s", activity.seconds),
    };
    let mean = show_millis(activity.read_mean_ms());
    format!("{first}; {mean} on average{}", without_cache(volume, activity))
}

/// Above this ratio of read-ahead blocks to missed blocks, reads of the origin do not show the latency of a
/// read alone.
const READ_AHEAD_MAX: f64 = 0.25;

/// The latency of reads of the origin: an estimate without the cache, if they read little ahead. Empty
/// without misses.
fn without_cache(volume: &VolumeReport, activity: &Activity) -> String {
    let misses = &activity.misses;
    if misses.count == 0 {
        return String::new();
    }
    let mean = show_millis(misses.mean_ms);
    let VolumeCounters { read_ahead_blocks, miss_blocks, .. } = volume.counters;
    let ahead = read_ahead_blocks as f64 / miss_blocks.max(1) as f64;
    match ahead <= READ_AHEAD_MAX {
        true => format!(", without the cache about {mean} (estimate)"),
        false => format!("; reads of the origin take {mean} with their read-ahead"),
    }
}

fn show_took(kind: &str, took: &RequestLatency) -> Option<String> {
    let (mean, p99) = (show_millis(took.mean_ms), show_millis(took.p99_ms));
    (took.count > 0).then(|| format!("{kind} take {mean}, 99 % at most {p99}"))
}

/// With at most three digits behind the point.
fn show_millis(millis: f64) -> String {
    let digits = match millis {
        tiny if tiny < 0.0995 => 3,
        small if small < 0.995 => 2,
        middle if middle < 9.95 => 1,
        _ => 0,
    };
    format!("{millis:.digits$} ms")
}
