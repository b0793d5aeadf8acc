//! The page's data, as JSON.

use std::collections::VecDeque;
use std::fmt::Write;

use kickcache_units::{show_bytes, show_count};
use serde_json::{Value, json};

use crate::control::condition::Condition;
use crate::control::limits_report::LimitsReport;
use crate::control::report::{CacheReport, HealthWord, Report, VolumeReport};
use crate::metrics::live::events::{LiveEvent, LiveEvents};
use crate::metrics::live::history::{
    COARSE_COUNT, COARSE_SPAN, FINE_COUNT, FINE_SPAN, Row, Subject, Track, Tracks,
};
use crate::metrics::live::totals::{CACHE_COLUMNS, VOLUME_COLUMNS};

/// Whether a document contains the curves and the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::metrics) enum Curves {
    Sent,
    LeftOut,
}

pub(super) struct DocumentParts<'a> {
    /// The last report; `None` before the first one.
    pub(super) report: Option<&'a Report>,
    pub(super) tracks: &'a Tracks,
    pub(super) happenings: &'a LiveEvents,
}

/// The page's data as JSON: the present state, and the rows after the second `since`.
pub(super) fn document(shown: &DocumentParts<'_>, since: u64, curves: Curves) -> String {
    let mut text = String::from("{");
    let _ = write!(text, "\"state\":{}", state(shown, curves));
    for (name, track, span, count) in [
        ("fine", &shown.tracks.fine, FINE_SPAN, FINE_COUNT),
        ("coarse", &shown.tracks.coarse, COARSE_SPAN, COARSE_COUNT),
    ] {
        let _ = write!(text, ",\"{name}\":{{\"span\":{},\"count\":{count},", span.as_secs());
        write_track(&mut text, track, since);
        text.push('}');
    }
    text + "}"
}

fn state(shown: &DocumentParts<'_>, curves: Curves) -> Value {
    let Some(report) = shown.report else { return Value::Null };
    let caches = report.caches.iter();
    let happening =
        |LiveEvent { at, severity, what }: &LiveEvent| json!({"at": at, "severity": severity, "what": what});
    let caches = caches.map(|cache| cache_state(report, cache, curves));
    let mut object = json!({
        "health": report.health,
        "conditions": report.conditions.iter().map(condition).collect::<Vec<Value>>(),
        "version": report.version,
        "uptime_seconds": report.uptime_seconds,
        "caches": caches.collect::<Vec<Value>>(),
        "events": shown.happenings.kept.iter().map(happening).collect::<Vec<Value>>(),
        "volume_columns": VOLUME_COLUMNS,
        "cache_columns": CACHE_COLUMNS,
    });
    if curves == Curves::Sent {
        object["host"] = json!(report.host);
    }
    object
}

fn condition(condition: &Condition) -> Value {
    let fails_in = condition.figures.iter().find(|figure| figure.name == "fails_in" && figure.value > 0.0);
    json!({
        "severity": condition.severity, "word": condition.kind.entry().word, "volume": condition.volume,
        "device": condition.device, "subject": condition.subject(), "what": condition.what(), "since": condition.since,
        "effect": condition.effect, "steps": condition.steps, "otherwise": condition.otherwise,
        "remedy": condition.remedy_sentence(), "fails_in": fails_in.map(|figure| figure.value),
    })
}

fn cache_state(report: &Report, cache: &CacheReport, curves: Curves) -> Value {
    let volume = |volume: &VolumeReport| {
        let health = report.condition_of(&volume.name, &cache.device);
        let health = health.map(|it| json!({"severity": it.severity, "word": it.kind.entry().word}));
        let mut object = json!({
            "name": volume.name, "origin": volume.origin, "mode": volume.mode, "size_bytes": volume.size_bytes,
            "cached_bytes": volume.cached_bytes, "dirty_bytes": volume.dirty_bytes, "health": health,
            "limits": show_limits(&volume.limits),
        });
        if let (Curves::Sent, Some(curve)) = (curves, &volume.lru_curve) {
            let points =
                curve.points.iter().map(|point| json!([point.cache_bytes, point.hit_ratio, point.error]));
            object["curve"] = points.collect();
        }
        object
    };
    let used = if cache.is_in_use() { cache.used_bytes() } else { 0 };
    json!({
        "device": cache.device, "in_service": cache.health == HealthWord::Good, "capacity_bytes": cache.capacity_bytes,
        "used_bytes": used, "dirty_bytes": cache.dirty_bytes(),
        "wear": cache.wear,
        "volumes": cache.volumes.iter().map(volume).collect::<Vec<Value>>(),
    })
}

fn show_limits(limits: &LimitsReport) -> String {
    let all = [
        limits.client_bytes_per_second.map(|bytes| format!("{}/s", show_bytes(bytes))),
        limits.client_requests_per_second.map(|requests| format!("{} requests/s", show_count(requests))),
        limits.room_min_bytes.map(|bytes| format!("at least {}", show_bytes(bytes))),
        limits.room_max_bytes.map(|bytes| format!("at most {}", show_bytes(bytes))),
    ];
    all.into_iter().flatten().collect::<Vec<String>>().join(", ")
}

fn write_track(text: &mut String, track: &Track, since: u64) {
    let first = track.after(since);
    text.push_str("\"times\":[");
    write_list(text, track.times.iter().skip(first), |text, time| {
        let _ = write!(text, "{time}");
    });
    text.push(']');
    for (name, is_cache) in [("volumes", false), ("caches", true)] {
        let _ = write!(text, ",\"{name}\":{{");
        let subjects =
            track.rows.iter().filter(|(subject, _)| matches!(subject, Subject::Cache(_)) == is_cache);
        write_list(text, subjects, |text, (subject, rows)| {
            let (Subject::Volume(name) | Subject::Cache(name)) = subject;
            let _ = write!(text, "{}:[", Value::String(name.clone()));
            write_rows(text, rows, first);
            text.push(']');
        });
        text.push('}');
    }
}

fn write_rows(text: &mut String, rows: &VecDeque<Row>, first: usize) {
    write_list(text, rows.iter().skip(first), |text, row| {
        text.push('[');
        write_list(text, row.iter(), |text, number| write_number(text, *number));
        text.push(']');
    });
}

fn write_list<T>(text: &mut String, items: impl Iterator<Item = T>, mut write: impl FnMut(&mut String, T)) {
    for (index, item) in items.enumerate() {
        if index > 0 {
            text.push(',');
        }
        write(text, item);
    }
}

fn write_number(text: &mut String, number: f32) {
    let _ = match number.abs() {
        size if !size.is_finite() => write!(text, "null"),
        size if size >= 100.0 => write!(text, "{number:.0}"),
        0.0 => write!(text, "0"),
        _ => write!(text, "{number:.4}"),
    };
}
