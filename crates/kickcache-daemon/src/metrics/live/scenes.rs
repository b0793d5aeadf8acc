//! The states that `scripts/live-states` opens in a browser, as the daemon reports them: `scenes.json`.

use expect_test::expect_file;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::document::{Curves, DocumentParts, document};
use super::events::LiveEvents;
use super::history::Tracks;
use crate::conditions::Surroundings;
use crate::conditions::watch::ConditionWatch;
use crate::control::host_report::HostReport;
use crate::control::report::{CacheReport, Report, VolumeReport};
use crate::plan::default_paths::default_control;
use crate::serve::config::StatePlace;
use crate::service_unit::ServiceUnit;
use crate::shell_command::DaemonCommands;

const DEVICE: &str = "/dev/disk/by-id/nvme-fast_1";
const MIB: u64 = 1 << 20;

/// Three volumes on one cache device, all healthy.
fn report() -> Report {
    let volume = |name: &str, origin: &str| {
        json!({
            "name": name, "origin": origin, "nbd": [], "mode": "write-back", "size_bytes": 1_u64 << 41, "cached_bytes": 0,
            "dirty_bytes": 412 * MIB, "unflushed_bytes": 0, "fill_window_bytes": 0, "requests_in_flight": 0,
            "limits": {"dirty_low": 0.3, "dirty_high": 0.5, "dirty_limit": 0.7, "idle_after_seconds": 0.5}, "counters": {},
        })
    };
    let volumes = [
        volume("database", "nbd://10.0.0.7/database"),
        volume("mail", "/dev/mail"),
        volume("backup", "/dev/backup"),
    ];
    let cache = json!({
        "device": DEVICE, "health": "good", "capacity_bytes": 200 * 1024 * MIB, "segments": 8, "free_segments": 2,
        "device_bytes": 200 * 1024 * MIB, "probation_bytes": 0, "probation_target_bytes": 0, "main_bytes": 0, "memory_bytes": 0,
        "counters": {}, "volumes": volumes,
    });
    of(
        json!({"version": "0.2.0", "pid": 1, "uptime_seconds": 86400.0, "io_engine": "auto", "caches": [cache]}),
    )
}

fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn away(database: &mut VolumeReport) {
    (database.origin_away_seconds, database.requests_in_flight) = (Some(40.0), 12);
    (database.origin_fails_in_seconds, database.origin_away_why) =
        (Some(80.0), Some("Connection refused (os error 111)".into()));
}

fn unserved(report: &mut Report) {
    report.caches[0].volumes.truncate(2);
    report.unserved = of(json!([{"name": "backup", "why": "its origin /srv/backup is missing"}]));
}

fn fail(cache: &mut CacheReport, record: &str) {
    (cache.health, cache.record) = (of(json!("out-of-service")), of(json!(record)));
    cache.volumes.iter_mut().for_each(|volume| volume.dirty_bytes = 0);
}

struct Scene {
    name: &'static str,
    report: Report,
}

fn all() -> [Scene; 8] {
    let scene = |name: &'static str, change: fn(&mut Report)| {
        let mut report = report();
        change(&mut report);
        Scene { name, report }
    };
    [
        scene("healthy", |_| {}),
        scene("away", |report| away(&mut report.caches[0].volumes[0])),
        scene("damaged", |report| {
            let mail = &mut report.caches[0].volumes[1];
            mail.damaged_bytes = 12_288;
            mail.damaged = of(json!([{"start": 8192, "length": 12_288}]));
        }),
        scene("out-of-service", |report| {
            let cache = &mut report.caches[0];
            fail(cache, "on-device");
            (cache.volumes[1].incomplete, cache.volumes[1].dirty_bytes) = (true, 412 * MIB);
            cache.last_error = of(json!({
                "count": 8, "errno": 5, "name": "EIO", "operation": "write", "offset": 0, "length": 0, "seconds_ago": 130.0
            }));
            cache.errors_by_kind = of(json!([{"operation": "write", "name": "EIO", "count": 8}]));
        }),
        scene("left-out", |report| fail(&mut report.caches[0], "by-order")),
        scene("unserved", unserved),
        scene("many-problems", |report| {
            unserved(report);
            report.tls_failure = Some("ca-cert.pem: there is no such file".into());
            let cache = &mut report.caches[0];
            cache.last_error = of(json!({
                "count": 3, "errno": 5, "name": "EIO", "operation": "write", "offset": 0, "length": 0, "seconds_ago": 3.0
            }));
            cache.volumes[1].draining = true;
            away(&mut cache.volumes[0]);
        }),
        scene("replacing", |report| {
            report.caches[0].replacing =
                of(json!({"with": "/dev/new", "step": "copying", "copied_bytes": 1, "bytes": 4}));
        }),
    ]
}

fn shown(report: &Report) -> Value {
    let (tracks, happenings) = (Tracks::default(), LiveEvents::default());
    let parts = DocumentParts { report: Some(report), tracks: &tracks, happenings: &happenings };
    let all: Value = serde_json::from_str(&document(&parts, 0, Curves::Sent)).unwrap();
    let state = &all["state"];
    let volumes = state["caches"][0]["volumes"].as_array().unwrap();
    let words: Map<String, Value> = volumes
        .iter()
        .map(|volume| (volume["name"].as_str().unwrap().to_owned(), volume["health"].clone()))
        .collect();
    let is_in_service = &state["caches"][0]["in_service"];
    json!({
        "health": state["health"], "conditions": state["conditions"], "host": state["host"], "words": words,
        "in_service": is_in_service,
    })
}

#[test]
fn the_browser_test_shows_the_conditions_of_the_daemon() {
    let commands = DaemonCommands {
        state: StatePlace::NotKept,
        control: Some(default_control()),
        service: ServiceUnit::of_groups("0::/system.slice/kickcache.service"),
    };
    let around = Surroundings { silent: &[], state_failure: None, commands: &commands };
    let scenes: Map<String, Value> = all()
        .into_iter()
        .map(|Scene { name, mut report }| {
            ConditionWatch::default().complete(&mut report, &around);
            report.host = HostReport { name: "storage1".into(), ..HostReport::own(&commands) };
            // The script has times of its own.
            report.conditions.iter_mut().for_each(|condition| condition.since = 0);
            (name.to_owned(), shown(&report))
        })
        .collect();
    let text = serde_json::to_string_pretty(&scenes).unwrap() + "\n";
    expect_file!["./scenes.json"].assert_eq(&text);
}
