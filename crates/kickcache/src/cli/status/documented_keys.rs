//! Whether docs/reference/status.md documents each key of `status --json`, and no other.

use std::collections::BTreeMap;

use kickcache_daemon::control::activity::Activity;
use kickcache_daemon::control::condition::{Condition, ConditionKind, Health};
use kickcache_daemon::control::error_count::ErrorCount;
use kickcache_daemon::control::host_report::HostReport;
use kickcache_daemon::control::last_error::LastError;
use kickcache_daemon::control::limits_report::LimitsReport;
use kickcache_daemon::control::lru_curve::{LruCurve, LruPoint};
use kickcache_daemon::control::memory_report::MemoryReport;
use kickcache_daemon::control::remedy::{Remedy, Step};
use kickcache_daemon::control::replacing_report::{LeavingOutReport, ReplacingReport, ReplacingStep};
use kickcache_daemon::control::report::{
    CacheCounters, CacheReport, HealthWord, RecordWord, Report, UnservedReport, VolumeCounters, VolumeReport,
};
use kickcache_daemon::control::wear_report::WearReport;
use kickcache_daemon::extents::Extent;
use kickcache_daemon::plan::frontends::{ServedAt, Sessions};
use kickcache_daemon::shell_command::DaemonCommands;
use kickcache_daemon::words::ModeWord;
use serde_json::Value;

#[derive(Debug)]
struct Explained {
    unit: String,
    meaning: String,
}

fn last_error() -> LastError {
    LastError {
        count: 2,
        errno: Some(5),
        name: "EIO".into(),
        operation: "read".into(),
        offset: 4096,
        length: 4096,
        seconds_ago: 1.5,
    }
}

fn error_count() -> ErrorCount {
    ErrorCount { operation: "read".into(), name: "EIO".into(), count: 2 }
}

fn report() -> Report {
    Report {
        version: "1".into(),
        pid: 1,
        uptime_seconds: 60.0,
        io_engine: "auto".into(),
        state_directory: Some("/var/lib/kickcache".into()),
        caches: vec![cache()],
        unserved: vec![UnservedReport {
            name: "a".into(),
            why: "it is away".into(),
            commands: vec!["x".into()],
        }],
        monitor_ended: true,
        memory: MemoryReport::default(),
        tls_failure: Some("ca-cert.pem: there is no such file".into()),
        health: Health::default(),
        conditions: vec![condition()],
        host: HostReport {
            steps_without_answer: vec![Step::run("stop it", DaemonCommands::default().stop())],
            ..HostReport::own(&DaemonCommands::default())
        },
    }
}

fn condition() -> Condition {
    let check = Remedy::from(Step::run("check it", "nbdinfo x")).or(Some("wait".into()));
    Condition::new(ConditionKind::OriginAway, "origin away", check)
        .of_volume("b")
        .of_device("/dev/b")
        .because("lost")
        .figure("waiting_requests", 1.0, "requests")
}

fn cache() -> CacheReport {
    CacheReport {
        device: "/dev/a".into(),
        health: HealthWord::OutOfService,
        io_engine: "io_uring".into(),
        record: Some(RecordWord::OnDevice),
        last_error: Some(last_error()),
        errors_by_kind: vec![error_count()],
        sample_seconds: None,
        silent_seconds: Some(11.0),
        unlinked_at: Some("/proc/7/fd/9".into()),
        stop_waits_for: Some("the origin of a".into()),
        device_bytes: 2,
        growing_to_bytes: Some(3),
        replacing: Some(ReplacingReport {
            with: String::new(),
            step: ReplacingStep::Copying,
            copied_bytes: 0,
            bytes: 0,
        }),
        replacement_failure: Some("it failed".into()),
        leaving_out: Some(LeavingOutReport { left_bytes: 1, bytes: 2 }),
        capacity_bytes: 1,
        segments: 1,
        free_segments: 1,
        retired_segments: 1,
        probation_bytes: 1,
        probation_target_bytes: 1,
        main_bytes: 1,
        memory_bytes: 1,
        wear: WearReport {
            budget_bytes_per_day: Some(1),
            endurance_bytes: Some(1),
            life_years: Some(1.0),
            ..WearReport::default()
        },
        counters: CacheCounters::default(),
        volumes: vec![volume()],
    }
}

fn volume() -> VolumeReport {
    VolumeReport {
        name: "b".into(),
        origin: "/dev/b".into(),
        origin_last_error: Some(last_error()),
        origin_errors_by_kind: vec![error_count()],
        origin_silent_seconds: Some(11.0),
        origin_away_seconds: Some(12.0),
        origin_away_why: Some("lost".into()),
        origin_fails_in_seconds: Some(1.0),
        origin_unlinked_at: Some("/proc/7/fd/8".into()),
        served_at: ServedAt {
            nbd: vec!["nbd://localhost/b".into()],
            vhost_user: Some("/run/b".into()),
            ublk: Some("/dev/ublkb0".into()),
            ublk_removed: Some("/dev/ublkb1".into()),
        },
        mode: ModeWord::WriteBack,
        limits: LimitsReport {
            writeback_bytes_per_second: Some(1),
            writeback_requests_per_second: Some(1),
            client_bytes_per_second: Some(1),
            client_requests_per_second: Some(1),
            client_burst_seconds: Some(1.0),
            room_min_bytes: Some(1),
            room_max_bytes: Some(1),
            ..LimitsReport::default()
        },
        held_requests: 1,
        recordings: 1,
        size_bytes: 1,
        cached_bytes: 1,
        dirty_bytes: 1,
        dirty_seconds: Some(3.0),
        recovered_bytes: 1,
        damaged_bytes: 1,
        damaged: vec![Extent { start: 0, length: 4096 }],
        unflushed_bytes: 1,
        draining: true,
        caching_paused_seconds: Some(60.0),
        fill_window_bytes: 1,
        requests_in_flight: 1,
        sessions: Sessions::default(),
        incomplete: true,
        hit_ratio: Some(0.5),
        read_ahead_hit_ratio: Some(0.5),
        origin_requests_per_1000: Some(1.0),
        bypass_bytes: 1,
        since_start: Activity::default(),
        recent: Activity::default(),
        lru_curve: Some(LruCurve { points: vec![LruPoint::default()], ..LruCurve::default() }),
        latencies: None,
        counters: VolumeCounters::default(),
    }
}

/// The keys of an object and of its members, with their places.
fn printed(place: &str, value: &Value, keys: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let own = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
                printed(&own, value, keys);
                keys.push(own);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| printed(&format!("{place}[]"), value, keys)),
        Value::Null => panic!("{place} must have a value to be looked at"),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Resolves alternatives in braces.
fn places(text: &str) -> Vec<String> {
    let Some((before, rest)) = text.split_once('{') else { return vec![text.to_owned()] };
    let (words, after) = rest.split_once('}').unwrap();
    words.split(',').flat_map(|word| places(&format!("{before}{word}{after}"))).collect()
}

/// The keys in the tables of a section.
fn explained(section: &str) -> BTreeMap<String, Explained> {
    let mut keys = BTreeMap::new();
    for part in section.split("\n### ").skip(1) {
        let heading = part.lines().next().unwrap();
        let places: Vec<String> = quoted(heading).flat_map(places).collect();
        for row in part.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 5, "{row}");
            for (place, key) in places.iter().flat_map(|place| quoted(cells[1]).map(move |key| (place, key)))
            {
                let own = if place == "." { key.to_owned() } else { format!("{place}.{key}") };
                let explained = Explained { unit: cells[2].into(), meaning: cells[3].into() };
                assert!(keys.insert(own.clone(), explained).is_none(), "{own} is explained twice");
            }
        }
    }
    keys
}

#[test]
fn every_json_key_is_documented_with_its_unit() {
    let mut keys = Vec::new();
    printed("", &serde_json::to_value(report()).unwrap(), &mut keys);
    keys.sort_unstable();
    keys.dedup();
    let page = include_str!("../../../../../docs/reference/status.md");
    let section = page.split("\n## JSON").nth(1).unwrap().split("\n## ").next().unwrap();
    let explained = explained(section);
    assert_eq!(explained.keys().cloned().collect::<Vec<String>>(), keys);
    for (key, Explained { unit, meaning }) in explained {
        assert!(!unit.is_empty() && !meaning.is_empty(), "{key}");
        let units = [("_bytes", "bytes"), ("_blocks", "blocks"), ("_seconds", "s"), ("_ms", "ms")];
        for (end, expected) in units.into_iter().filter(|(end, _)| key.ends_with(end)) {
            assert_eq!(unit, expected, "{key} ends with {end}");
        }
    }
}

/// The keys that the page on metrics names.
fn exported(page: &str) -> Vec<String> {
    let sections = [
        ("\n### The daemon\n", 5, ""),
        ("\n### Cache devices\n", 5, "caches[]."),
        ("\n### Volumes\n", 5, "caches[].volumes[]."),
        ("\n### Only in `status --json`\n", 1, ""),
    ];
    let mut keys = Vec::new();
    for (heading, column, place) in sections {
        let section = page.split(heading).nth(1).unwrap().split("\n##").next().unwrap();
        for row in section.lines().filter(|line| line.starts_with("| `")) {
            let cell = row.split(" | ").nth(column - 1).unwrap();
            let mut before = String::new();
            for key in quoted(cell) {
                // `.name` is relative to the previous key.
                let beside = || before.rsplit_once('.').map_or("", |(parent, _)| parent).to_owned() + key;
                before = if key.starts_with('.') { beside() } else { format!("{place}{key}") };
                keys.push(before.clone());
            }
        }
    }
    keys
}

#[test]
fn every_key_is_a_metric_or_a_documented_exception() {
    let mut keys = Vec::new();
    printed("", &serde_json::to_value(report()).unwrap(), &mut keys);
    let exported = exported(include_str!("../../../../../docs/reference/metrics.md"));
    for key in &exported {
        assert!(keys.contains(key), "the page on metrics names {key}, which no code prints");
    }
    let is_part =
        |key: &str, whole: &str| key.strip_prefix(whole).is_some_and(|rest| rest.starts_with(['.', '[']));
    for key in &keys {
        let is_exported = |other: &String| key == other || is_part(key, other) || is_part(other, key);
        assert!(exported.iter().any(is_exported), "{key} is no metric");
    }
}
