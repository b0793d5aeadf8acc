//! Figures and problems without a column in the table, in sentences.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use kickcache_daemon::control::activity::{Activity, Took};
use kickcache_daemon::control::memory_report::MemoryReport;
use kickcache_daemon::control::replacing_report::{LeavingOutReport, ReplacingReport, ReplacingStep};
use kickcache_daemon::control::report::{CacheReport, HealthWord, RecordWord, Report, VolumeReport};
use kickcache_daemon::control::wear_report::{GivenUpWord, WearReport};
use kickcache_daemon::driver::rights::separation::MONITOR_ENDED;
use kickcache_daemon::extents::show_extents;
use kickcache_daemon::offline::EXTENTS_SHOWN;
use kickcache_daemon::shell_command::DaemonCommands;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};
use kickcache_units::{counted, show_bytes, show_count, show_duration, show_ratio, show_years};

use crate::cli::table::Tone;

/// A sentence and how it is meant.
type Sentence = (String, Tone);

/// The I/O engine: the configured one, and the choice of `auto`.
pub(super) fn engines(report: &Report) -> String {
    let used: BTreeSet<&str> = report.caches.iter().map(|cache| cache.io_engine.as_str()).collect();
    let used: Vec<&str> = used.into_iter().filter(|engine| !engine.is_empty()).collect();
    match used.as_slice() {
        [] => report.io_engine.clone(),
        [one] if *one == report.io_engine => report.io_engine.clone(),
        some => format!("{} ({})", report.io_engine, some.join(", ")),
    }
}

/// The payload memory in use; `None` for a daemon that does not report it.
pub(super) fn memory_sentence(memory: &MemoryReport) -> Option<Sentence> {
    let waiting = match memory.waiting_requests {
        0 => String::new(),
        1 => "; 1 request waits for more".into(),
        some => format!("; {} requests wait for more", show_count(some)),
    };
    let (used, limit) = (show_bytes(memory.used_bytes), show_bytes(memory.limit_bytes));
    let tone = if memory.waiting_requests > 0 { Tone::Warning } else { Tone::Plain };
    (memory.limit_bytes > 0).then(|| (format!("memory for payload: {used} of {limit}{waiting}"), tone))
}

pub(super) fn cache_sentence(cache: &CacheReport, commands: &DaemonCommands) -> Vec<Sentence> {
    let word = match (cache.health, cache.record) {
        (HealthWord::Good, _) => "good",
        (HealthWord::OutOfService, Some(RecordWord::ByOrder)) => "LEFT OUT: every request goes to the origin",
        (HealthWord::OutOfService, _) => "OUT OF SERVICE: every request goes to the origin",
    };
    let tone = match (cache.health, cache.last_error.is_some() || cache.silent_seconds.is_some()) {
        (HealthWord::OutOfService, _) => Tone::Bad,
        (HealthWord::Good, true) => Tone::Warning,
        (HealthWord::Good, false) => Tone::Plain,
    };
    let retired = match cache.retired_segments {
        0 => String::new(),
        1 => ", 1 retired".into(),
        some => format!(", {} retired", show_count(some)),
    };
    let trouble = match (cache.silent_seconds, &cache.last_error) {
        (Some(seconds), _) => format!(", {}", show_silence(seconds)),
        (None, Some(error)) => format!(", {}", error.show()),
        (None, None) => String::new(),
    };
    let replacing = cache.replacing.as_ref().map_or_else(String::new, replacing);
    let leaving =
        cache.leaving_out.as_ref().map_or_else(String::new, |LeavingOutReport { left_bytes, .. }| {
            format!(", {} to be written back before it is left out", show_bytes(*left_bytes))
        });
    let capacity = show_bytes(cache.capacity_bytes);
    let free = show_ratio(cache.free_segments, cache.segments);
    let (memory, written) = (show_bytes(cache.memory_bytes), show_bytes(cache.counters.write_bytes));
    let figures = format!(
        "; {capacity}, {free} of the segments free{retired}{replacing}{leaving}; {written} written to it; tables take \
         {memory} of memory"
    );
    // The internal stand-in for a device out of use has a size of its own, which is meaningless to users.
    let has_none = matches!(cache.record, Some(RecordWord::ByOrder | RecordWord::Earlier));
    let figures = if has_none { "" } else { &figures };
    let text = format!("cache device {}: {word}{trouble}{figures}", cache.device);
    let mut sentences = vec![(text, tone)];
    let failure = cache.replacement_failure.as_ref();
    sentences.extend(failure.map(|why| (format!("  it was not replaced: {why}"), Tone::Warning)));
    sentences.extend(wear(&cache.wear).filter(|_| !has_none));
    sentences.extend(cache.record.and_then(|record| out_of_service(cache, record, commands)));
    sentences
}

/// How far it is with the device that takes over.
fn replacing(replacing: &ReplacingReport) -> String {
    let ReplacingReport { with, step, copied_bytes, bytes } = replacing;
    match step {
        ReplacingStep::Preparing => format!(", {with} is made ready to take over"),
        ReplacingStep::Copying => {
            format!(", {} copied to {with}, which takes over then", show_ratio(*copied_bytes, *bytes))
        }
        ReplacingStep::TakingOver => format!(", {with} has all blocks, and takes over"),
    }
}

/// The share of its write budget that a cache device used, the fills that are skipped for it, and its
/// remaining life.
fn wear(wear: &WearReport) -> Option<Sentence> {
    let day = Duration::from_secs_f64(wear.day_seconds.clamp(0.0, 86_400.0));
    let (written, day) = (show_bytes(wear.day_bytes), show_duration(day));
    let life = wear.life_years.map(|life| format!("at this rate it lasts {}", show_years(life)));
    let Some(budget) = wear.budget_bytes_per_day else {
        return Some((format!("  {written} written in the last {day}; {}", life?), Tone::Plain));
    };
    let share = show_ratio(wear.day_bytes, budget);
    let (given_up, tone) = match wear.given_up {
        GivenUpWord::Nothing => (None, Tone::Plain),
        GivenUpWord::ReadAhead => (Some("less is read ahead"), Tone::Plain),
        GivenUpWord::UnknownBlocks => {
            (Some("only a part of the blocks that are requested for the first time is cached"), Tone::Plain)
        }
        GivenUpWord::KnownBlocks => (Some("only a part of the misses is cached"), Tone::Warning),
        GivenUpWord::Everything if wear.day_bytes > budget => {
            (Some("no misses are cached, as client writes exceed the budget"), Tone::Warning)
        }
        GivenUpWord::Everything => (Some("no misses are cached"), Tone::Warning),
    };
    let all = [
        Some(format!(
            "{written} written in the last {day}, {share} of the write budget of {} a day",
            show_bytes(budget)
        )),
        given_up.map(str::to_owned),
        life,
    ];
    Some((format!("  {}", all.into_iter().flatten().collect::<Vec<_>>().join("; ")), tone))
}

/// Where it is on record that a cache device is out of service, and what to do next.
fn out_of_service(cache: &CacheReport, record: RecordWord, commands: &DaemonCommands) -> Option<Sentence> {
    let (place, tone) = match record {
        RecordWord::ByOrder => return None,
        RecordWord::Earlier => ("out of service since before the start", Tone::Plain),
        RecordWord::OnDevice => ("recorded on the device", Tone::Plain),
        RecordWord::InStateDirectory => ("noted in the state directory", Tone::Plain),
        RecordWord::Pending => ("being recorded: writes wait for that", Tone::Warning),
        RecordWord::Failed => {
            ("NOT RECORDED, on the device or in the state directory: writes fail", Tone::Bad)
        }
    };
    let needed = cache.volumes.iter().filter(|volume| volume.incomplete);
    let drains: Vec<String> = needed.map(|volume| format!("`{}`", commands.drain(&volume.name))).collect();
    let device = Path::new(&cache.device);
    let (first, hangs) = match drains.as_slice() {
        [] => (String::new(), String::new()),
        some => (
            format!("first {}, then ", some.join(" and ")),
            format!("; {}", commands.if_a_drain_hangs(device)),
        ),
    };
    let format = commands.format(device);
    let next = format!("next: {first}stop, then `{format}` before it is used again{hangs}");
    Some((format!("  {place}; {next}"), tone))
}

/// The time that a page covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Span {
    /// Since the daemon started.
    SinceStart,
    /// The last 30 to 60 seconds.
    Recent,
}

pub(super) fn volume_sentences(cache: &CacheReport, volume: &VolumeReport, span: Span) -> Vec<Sentence> {
    let mut sentences = troubles(cache, volume);
    let (activity, span) = match span {
        Span::Recent => (&volume.recent, format!(" in the last {:.0} s", volume.recent.seconds)),
        Span::SinceStart => (&volume.since_start, String::new()),
    };
    let name = &volume.name;
    sentences.push((format!("{name}: {}{span}", gained(activity)), Tone::Plain));
    if volume.recordings > 0 {
        sentences.push(("its requests are being recorded".into(), Tone::Plain));
    }
    let kinds = [("hits", &activity.hits), ("misses", &activity.misses), ("writes", &activity.writes)];
    let times: Vec<String> = kinds.into_iter().filter_map(|(kind, took)| show_took(kind, took)).collect();
    if !times.is_empty() {
        sentences.push((format!("  {}", times.join("; ")), Tone::Plain));
    }
    let mut costs = Vec::new();
    if let Some(requests) = volume.origin_requests_per_1000 {
        costs.push(format!("{requests:.0} requests to the origin for each 1,000 of clients"));
    }
    if volume.counters.offloaded_blocks > 0 {
        let offloaded = show_bytes(volume.counters.offloaded_blocks * BLOCK_SIZE);
        costs.push(format!("{offloaded} of hits were read from the origin"));
    }
    if volume.bypass_bytes > 0 {
        costs.push(format!("{} bypassed the cache", show_bytes(volume.bypass_bytes)));
    }
    if !costs.is_empty() {
        sentences.push((format!("  since the start: {}", costs.join("; ")), Tone::Plain));
    }
    sentences
}

/// As in `2,309 reads, 110 from the origin; mean 0.21 ms instead of 5.3 ms`.
fn gained(activity: &Activity) -> String {
    let (reads, misses) = (activity.reads(), activity.misses.count);
    if reads == 0 {
        return "no reads".into();
    }
    let noun = if reads == 1 { "read" } else { "reads" };
    let from = match misses {
        0 => "none from the origin".into(),
        some => format!("{} from the origin", show_count(some)),
    };
    let mean = show_millis(activity.read_mean_ms());
    let instead = match misses {
        0 => String::new(),
        _ => format!(" instead of {}", show_millis(activity.misses.mean_ms)),
    };
    format!("{} {noun}, {from}; mean {mean}{instead}", show_count(reads))
}

fn show_took(kind: &str, took: &Took) -> Option<String> {
    let (mean, p99) = (show_millis(took.mean_ms), show_millis(took.p99_ms));
    (took.count > 0).then(|| format!("{kind} take {mean}, 99 % at most {p99}"))
}

/// The problems of a daemon, except the problems of its cache devices and their volumes.
pub(super) fn daemon_troubles(report: &Report) -> Vec<String> {
    let unserved =
        report.unserved.iter().map(|volume| format!("{}: NOT SERVED: {}", volume.name, volume.why));
    let monitor = report.monitor_ended.then(|| MONITOR_ENDED.to_owned());
    unserved.chain(monitor).chain(report.tls_failure.clone()).collect()
}

pub(super) fn troubles(cache: &CacheReport, volume: &VolumeReport) -> Vec<Sentence> {
    let (name, counters) = (&volume.name, &volume.counters);
    let mut troubles = Vec::new();
    if volume.damaged_bytes > 0 {
        let what = show_damage(volume, &cache.device);
        troubles.push((format!("{name}: DAMAGED: {what}"), Tone::Bad));
    }
    if let Some(device) = &volume.served_at.ublk_removed {
        let what =
            "was removed by another program; to create it again, stop this daemon and serve the volume again";
        troubles.push((format!("{name}: DEVICE REMOVED: {device} {what}"), Tone::Bad));
    }
    if let Some(seconds) = volume.origin_away_seconds {
        let span = show_seconds(seconds);
        let why = volume.origin_away_why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        let what = format!("ORIGIN AWAY: the server of {} was lost {span} ago{why}", volume.origin);
        troubles.push((format!("{name}: {what}"), Tone::Bad));
    } else if let Some(seconds) = volume.origin_silent_seconds {
        troubles
            .push((format!("{name}: its origin {} is {}", volume.origin, show_silence(seconds)), Tone::Bad));
    }
    if let Some(seconds) = volume.caching_paused_seconds {
        let what = format!("reads are not cached for {} more (pause-caching)", show_seconds(seconds));
        troubles.push((format!("{name}: {what}"), Tone::Warning));
    }
    if volume.incomplete && volume.dirty_bytes > 0 {
        let dirty = show_bytes(volume.dirty_bytes);
        let what = "are dirty and on the cache device alone: a drain writes back the readable ones";
        troubles.push((format!("{name}: {dirty} {what}"), Tone::Bad));
    } else if volume.incomplete {
        let what = "its origin has all cached data, and has yet to flush it";
        troubles.push((format!("{name}: {what}"), Tone::Warning));
    }
    if let Some(error) = &volume.origin_last_error {
        troubles.push((format!("{name}: its origin {} had {}", volume.origin, error.show()), Tone::Warning));
    }
    if counters.healed_blocks > 0 && cache.health == HealthWord::Good {
        let count = counted(counters.healed_blocks, "block");
        let what = "with a damaged copy in the cache: read from the origin instead";
        troubles.push((format!("{name}: {count} {what}"), Tone::Warning));
    }
    troubles
}

/// The lost blocks of a volume, and the remedy.
pub(crate) fn show_damage(volume: &VolumeReport, device: &str) -> String {
    let blocks = volume.damaged_bytes / BLOCK_SIZE;
    let extents: Vec<ByteExtent> = volume.damaged.iter().map(ByteExtent::from).collect();
    let (what, them) = match blocks {
        1 => (format!("1 dirty block on {device} is"), "it"),
        some => (format!("{} dirty blocks on {device} are", show_count(some)), "them"),
    };
    let which = show_extents(&extents, EXTENTS_SHOWN);
    let told: u64 = extents.iter().map(|extent| extent.length).sum();
    let more = if told < volume.damaged_bytes { " and others" } else { "" };
    format!("{what} lost, as {which}{more}; reads of {them} fail until the whole block is written again")
}

fn show_silence(seconds: f64) -> String {
    format!("SILENT: it has completed no operation for {}", show_seconds(seconds))
}

fn show_seconds(seconds: f64) -> String {
    show_duration(Duration::from_secs_f64(seconds.clamp(0.0, 1e12)))
}

/// Two digits of a time in milliseconds.
fn show_millis(millis: f64) -> String {
    let digits = match millis {
        tiny if tiny < 0.0995 => 3,
        small if small < 0.995 => 2,
        middle if middle < 9.95 => 1,
        _ => 0,
    };
    format!("{millis:.digits$} ms")
}
