//! The conditions that reports have, from report to report.

use std::time::{Duration, Instant};

use expect_test::expect;
use serde_json::{Value, json};

use super::Surroundings;
use super::watch::ConditionWatch;
use crate::control::condition::{Condition, ConditionKind, HealthColour};
use crate::control::report::Report;
use crate::serve::config::StatePlace;
use crate::shell_command::DaemonCommands;

/// A daemon with the volumes `a` and `b` on one cache device, without any condition.
fn report() -> Report {
    let volume = |name: &str| {
        json!({
            "name": name, "origin": format!("/dev/{name}"), "nbd": [], "mode": "write-back", "size_bytes": 1_u64 << 40,
            "cached_bytes": 0, "dirty_bytes": 0, "unflushed_bytes": 0, "fill_window_bytes": 0, "requests_in_flight": 0,
            "limits": {"dirty_low": 0.3, "dirty_high": 0.5, "dirty_limit": 0.7, "idle_after_seconds": 0.5}, "counters": {},
        })
    };
    let cache = json!({
        "device": "/dev/fast", "health": "good", "capacity_bytes": 1 << 30, "segments": 8, "free_segments": 2,
        "device_bytes": 1 << 30, "probation_bytes": 0, "probation_target_bytes": 0, "main_bytes": 0, "memory_bytes": 0,
        "counters": {}, "volumes": [volume("a"), volume("b")],
    });
    let report = json!({
        "version": "1", "pid": 1, "uptime_seconds": 60.0, "io_engine": "auto", "caches": [cache],
        "state_directory": "/var/lib/kickcache",
    });
    serde_json::from_value(report).unwrap()
}

fn of<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn commands() -> DaemonCommands {
    let state = StatePlace::Directory("/srv/my notes".into());
    DaemonCommands { state, control: Some("/srv/it's/control".into()), service: None }
}

struct Scene {
    watch: ConditionWatch,
    began: Instant,
    state_failure: Option<&'static str>,
    silent: Vec<String>,
}

impl Scene {
    fn new() -> Scene {
        Scene {
            watch: ConditionWatch::default(),
            began: Instant::now(),
            state_failure: None,
            silent: Vec::new(),
        }
    }

    fn see(&mut self, second: u64, report: &Report) -> Report {
        let (mut report, commands) = (report.clone(), commands());
        let around =
            Surroundings { silent: &self.silent, state_failure: self.state_failure, commands: &commands };
        let now = self.began + Duration::from_secs(second);
        self.watch.complete_at(now, 1_000_000 + second, &mut report, &around);
        report
    }

    fn conditions(&mut self, second: u64, report: &Report) -> Vec<Condition> {
        self.see(second, report).conditions
    }
}

fn found(change: impl Fn(&mut Report)) -> Vec<Condition> {
    let mut report = report();
    change(&mut report);
    Scene::new().conditions(0, &report)
}

fn one(change: impl Fn(&mut Report)) -> Condition {
    let found = found(change);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.into_iter().next().unwrap()
}

fn commands_of(condition: &Condition) -> Vec<&str> {
    condition.steps.iter().filter_map(|step| step.command.as_deref()).collect()
}

fn error(seconds_ago: f64) -> Value {
    json!({"count": 3, "errno": 5, "name": "EIO", "operation": "read", "offset": 0, "length": 0, "seconds_ago": seconds_ago})
}

#[test]
fn a_healthy_daemon_has_no_condition() {
    let seen = Scene::new().see(0, &report());
    assert_eq!(seen.conditions, []);
    assert_eq!(
        (seen.health.colour, seen.health.sentence.as_str()),
        (HealthColour::Green, "Both volumes are healthy.")
    );
}

#[test]
fn conditions_of_one_report_have_cause_and_remedy() {
    let away = one(|report| {
        let volume = &mut report.caches[0].volumes[0];
        (volume.origin_away_seconds, volume.origin_silent_seconds) = (Some(40.2), Some(39.0));
        (volume.requests_in_flight, volume.origin_fails_in_seconds) = (12, Some(79.8));
        volume.origin_away_why = Some("Connection refused (os error 111)".into());
    });
    let damaged = one(|report| {
        report.caches[0].volumes[1].damaged_bytes = 8192;
        report.caches[0].volumes[1].damaged = of(json!([{"start": 4096, "length": 8192}]));
    });
    let all = [
        away,
        damaged,
        one(|report| report.caches[0].volumes[0].origin_silent_seconds = Some(12.0)),
        one(|report| report.caches[0].volumes[0].origin_last_error = of(error(3.0))),
        one(|report| report.caches[0].volumes[0].served_at.ublk_removed = Some("/dev/ublkb0".into())),
        one(|report| report.caches[0].volumes[0].origin_unlinked_at = Some("/proc/7/fd/9".into())),
        one(|report| report.caches[0].unlinked_at = Some("/proc/7/fd/8".into())),
        one(|report| report.caches[0].silent_seconds = Some(200.0)),
        one(|report| report.caches[0].last_error = of(error(3.0))),
        one(|report| report.caches[0].replacement_failure = Some("the new device failed".into())),
        one(|report| {
            report.caches[0].wear =
                of(json!({"day_bytes": 2_u64 << 30, "day_seconds": 1, "budget_bytes_per_day": 1_u64 << 30}));
        }),
        one(|report| report.caches[0].volumes[1].dirty_bytes = 700 << 20),
        one(|report| report.unserved = of(json!([{"name": "c", "why": "its origin is missing"}]))),
        one(|report| report.monitor_ended = true),
        one(|report| report.tls_failure = Some("ca-cert.pem: there is no such file".into())),
    ];
    let away = all[0].sentence();
    assert_eq!(
        away,
        "a, for 40 s: origin away, 12 requests waiting: Connection refused (os error 111). Requests of a that need the origin \
         wait. If the server is not back in 80 s, all of these get errors (EIO), and new ones at once, until it is back. Reads \
         of cached blocks and writes of whole blocks succeed as before. Writes stay dirty on the cache device until at most 70 % of it \
         is dirty (0.0 % now), and from then on need the origin. No acknowledged write is lost. Volumes with other origins are \
         not affected. On the machine of the server /dev/a: start the server, or mend the network to it, then see whether the \
         server can be reached (`nbdinfo /dev/a`), then keep the daemon running: it connects again by itself (it tries every \
         5 s or more often), and requests continue."
    );
    assert!(
        all[1].sentence().contains("; on the volume, as byte offset + length: 4096 + 8192."),
        "{}",
        all[1].sentence()
    );
    for condition in &all {
        assert!(condition.severity.is_problem() && !condition.remedy.is_empty(), "{condition:?}");
    }
}

#[test]
fn operations_and_planned_states_are_notices() {
    let all = [
        one(|report| report.caches[0].volumes[0].caching_paused_seconds = Some(60.0)),
        one(|report| report.caches[0].volumes[0].draining = true),
        one(|report| report.caches[0].growing_to_bytes = Some(2 << 30)),
        one(|report| report.caches[0].leaving_out = of(json!({"left_bytes": 4096, "bytes": 8192}))),
        one(|report| {
            report.caches[0].replacing =
                of(json!({"with": "/dev/new", "step": "copying", "copied_bytes": 1, "bytes": 4}));
        }),
        one(|report| report.caches[0].stop_waits_for = Some("the origin of a".into())),
        one(|report| {
            (report.caches[0].volumes[0].recovered_bytes, report.caches[0].volumes[0].dirty_bytes) =
                (8192, 4096);
        }),
        one(|report| {
            (report.caches[0].health, report.caches[0].record) =
                (of(json!("out-of-service")), of(json!("by-order")));
        }),
    ];
    assert!(all.iter().all(|condition| !condition.severity.is_problem()), "{all:#?}");
    let text: String = all
        .iter()
        .map(|condition| format!("{}: {}\n", condition.kind.as_str(), condition.sentence()))
        .collect();
    expect![[r#"
        caching-paused: a: reads are not cached for 60 s more. Wait for its end, or end it now (`kickcache pause-caching a --end --control '/srv/it'\''s/control'`).
        operation-running: a: is being drained: 0 B are left. Wait for its end.
        operation-running: /dev/fast: grows from 1 GiB to 2 GiB. Wait for its end.
        operation-running: /dev/fast: is being left out: 4 KiB are to be written back before. Wait for its end.
        operation-running: /dev/fast: is being replaced: 25.0 % are copied to /dev/new. Wait for its end.
        operation-running: /dev/fast: its server stops, and waits for the origin of a. Wait for its end.
        recovered: a: 2 dirty blocks were recovered at the start; 4 KiB are dirty. Wait for writeback, or drain the volume now (`kickcache drain a --wait --control '/srv/it'\''s/control'`).
        cache-left-out: /dev/fast: left out. Take another device in, if that is wanted (`kickcache replace --cache /dev/fast --control '/srv/it'\''s/control' --with DEVICE`).
    "#]].assert_eq(&text);
}

#[test]
fn a_failed_device_names_the_commands_in_order() {
    let failed = |record: &str, is_incomplete: bool| {
        found(|report| {
            let cache = &mut report.caches[0];
            (cache.health, cache.record) = (of(json!("out-of-service")), of(json!(record)));
            (cache.volumes[0].incomplete, cache.volumes[0].dirty_bytes) = (is_incomplete, 8192);
        })
    };
    let [dirty, failed_device] = failed("on-device", true).try_into().unwrap();
    assert!(
        failed_device.what().ends_with("; dirty and only on it: 8 KiB of a."),
        "{}",
        failed_device.what()
    );
    let drain = "kickcache drain a --wait --control '/srv/it'\\''s/control'";
    assert_eq!(
        (dirty.kind, commands_of(&dirty).as_slice()),
        (ConditionKind::DirtyOutOfService, [drain].as_slice())
    );
    let format = "kickcache format /dev/fast --state '/srv/my notes'";
    let stop = "kickcache stop --control '/srv/it'\\''s/control'";
    let leave_out = "kickcache leave-out --cache /dev/fast --control '/srv/it'\\''s/control'";
    let replace = "kickcache replace --cache /dev/fast --control '/srv/it'\\''s/control' --with DEVICE";
    assert_eq!(commands_of(&failed_device), [drain, leave_out, replace]);
    for command in commands_of(&failed_device).into_iter().chain([stop, format]) {
        assert!(failed_device.remedy.contains(&format!("`{command}`")), "{}", failed_device.remedy);
    }
    let hangs = "only if the drain reports no progress, and with the daemon running: `kickcache leave-out --cache /dev/fast --abandon-dirty ";
    assert!(failed_device.remedy.contains(hangs), "{}", failed_device.remedy);
    let lost = "loses the others, which then read as the origin has them, older data: 8 KiB at most; ";
    assert!(failed_device.remedy.contains(lost), "{}", failed_device.remedy);
    let kinds = |record| failed(record, false).iter().map(|it| it.kind).collect::<Vec<_>>();
    for record in ["on-device", "in-state-directory", "pending", "earlier"] {
        assert_eq!(kinds(record), [ConditionKind::CacheOutOfService], "{record}");
    }
    assert_eq!(kinds("failed"), [ConditionKind::OutOfServiceUnrecorded]);
}

#[test]
fn dirty_blocks_out_of_service_have_the_result_of_reads() {
    let effect = |errors: Value| {
        let found = found(|report| {
            let cache = &mut report.caches[0];
            (cache.health, cache.record) = (of(json!("out-of-service")), of(json!("on-device")));
            cache.errors_by_kind = of(errors.clone());
            (cache.volumes[0].incomplete, cache.volumes[0].dirty_bytes) = (true, 8192);
        });
        assert!(found[1].effect.ends_with(&found[0].effect), "{found:#?}");
        found[0].effect.clone()
    };
    let of_kind = |operation: &str| json!([{"operation": operation, "name": "EIO", "count": 2}]);
    assert!(effect(of_kind("write")).contains("and none has failed so far. "));
    assert!(effect(of_kind("read")).contains(". 2 reads of it failed so far: "));
}

#[test]
fn after_the_time_limit_requests_fail_at_once() {
    let away = |mode: &str| {
        one(|report| {
            let volume = &mut report.caches[0].volumes[0];
            (volume.origin_away_seconds, volume.origin_fails_in_seconds) = (Some(130.0), Some(0.0));
            volume.mode = of(json!(mode));
        })
    };
    assert_eq!(
        away("write-through").effect,
        "requests of a that need the origin get errors (EIO) at once until the server is back. Reads of cached blocks succeed as \
         before. Volumes with other origins are not affected"
    );
    assert!(away("write-back").effect.contains(" until at most 70 % of it is dirty (0.0 % now), "));
}

#[test]
fn remedies_with_a_replacement_name_the_daemon() {
    let replace = "`kickcache replace --cache /dev/fast --control '/srv/it'\\''s/control' --with DEVICE`";
    let failed = one(|report| report.caches[0].replacement_failure = Some("the new device failed".into()));
    let failing = one(|report| report.caches[0].last_error = of(error(3.0)));
    for condition in [failed, failing] {
        assert!(condition.remedy.contains(replace), "{}", condition.remedy);
    }
    let dirty = found(|report| {
        let cache = &mut report.caches[0];
        (cache.health, cache.record) = (of(json!("out-of-service")), of(json!("on-device")));
        (cache.volumes[0].incomplete, cache.volumes[0].dirty_bytes) = (true, 8192);
    });
    assert!(dirty[1].remedy.contains(replace), "{}", dirty[1].remedy);
}

#[test]
fn an_old_error_is_no_condition() {
    assert_eq!(found(|report| report.caches[0].volumes[0].origin_last_error = of(error(601.0))), []);
    assert_eq!(found(|report| report.caches[0].last_error = of(error(601.0))), []);
    assert_eq!(found(|report| report.caches[0].volumes[0].counters.healed_blocks = 1), []);
}

#[test]
fn surroundings_that_fail_are_conditions() {
    let mut scene = Scene::new();
    (scene.state_failure, scene.silent) = (Some("read-only file system"), vec!["/dev/other".into()]);
    let found = scene.conditions(0, &report());
    let kinds: Vec<_> = found.iter().map(|it| (it.kind, it.device.as_deref().unwrap())).collect();
    assert_eq!(
        kinds,
        [(ConditionKind::LoopSilent, "/dev/other"), (ConditionKind::StateUnwritable, "/var/lib/kickcache")]
    );
}

#[test]
fn a_condition_keeps_its_begin_until_it_ends() {
    let (mut scene, mut away) = (Scene::new(), report());
    away.caches[0].volumes[0].caching_paused_seconds = Some(60.0);
    let of = |found: Vec<Condition>| found.iter().map(|it| (it.since, it.lasted_seconds)).collect::<Vec<_>>();
    assert_eq!(of(scene.conditions(3, &away)), [(1_000_003, 0.0)]);
    assert_eq!(of(scene.conditions(10, &away)), [(1_000_003, 7.0)]);
    assert_eq!(of(scene.conditions(11, &report())), []);
    assert_eq!(of(scene.conditions(12, &away)), [(1_000_012, 0.0)]);
    away.caches[0].volumes[0].caching_paused_seconds = None;
    away.caches[0].volumes[0].origin_away_seconds = Some(40.0);
    assert_eq!(of(scene.conditions(50, &away)), [(1_000_010, 40.0)]);
}

#[test]
fn writeback_without_progress_is_stuck_when_it_is_due() {
    let mut dirty = report();
    dirty.caches[0].volumes[0].dirty_bytes = 4096;
    let stuck = |scene: &mut Scene, second, report: &Report| {
        scene.conditions(second, report).iter().any(|it| it.kind == ConditionKind::WritebackStuck)
    };
    let mut scene = Scene::new();
    assert!(!stuck(&mut scene, 0, &dirty) && !stuck(&mut scene, 59, &dirty) && stuck(&mut scene, 62, &dirty));
    dirty.caches[0].volumes[0].counters.writeback_blocks = 1;
    assert!(!stuck(&mut scene, 63, &dirty));
    let mut scene = Scene::new();
    for second in 0..200 {
        dirty.caches[0].volumes[0].counters.writes = second;
        assert!(!stuck(&mut scene, second, &dirty), "{second}");
    }
    dirty.caches[0].volumes[0].draining = true;
    assert!(stuck(&mut scene, 201, &dirty));
}

#[test]
fn dirty_blocks_are_too_old_if_less_is_written_back() {
    let old = |written_blocks_per_hour: u64| {
        let (mut scene, mut report) = (Scene::new(), report());
        report.caches[0].volumes[0].dirty_bytes = 600 * 4096;
        for quarter in 0..=28 {
            let volume = &mut report.caches[0].volumes[0];
            volume.dirty_seconds = Some(quarter as f64 * 900.0);
            volume.counters.writes = quarter;
            volume.counters.writeback_blocks = quarter * written_blocks_per_hour / 4;
            let found = scene.conditions(quarter * 900, &report);
            if found.iter().any(|it| it.kind == ConditionKind::DirtyTooOld) {
                return Some(quarter);
            }
        }
        None
    };
    assert_eq!(old(10), Some(24));
    assert_eq!(old(100), None, "a volume that is written to without a pause always has dirty blocks");
}

#[test]
fn requests_that_are_held_back_count_for_a_minute() {
    let (mut scene, mut report) = (Scene::new(), report());
    report.caches[0].volumes[0].limits.client_requests_per_second = Some(1000);
    report.caches[0].volumes[0].held_requests = 5;
    assert_eq!(scene.conditions(0, &report), [], "these were held back some time ago");
    report.caches[0].volumes[0].held_requests = 6;
    let found = scene.conditions(1, &report);
    assert_eq!((found.len(), found[0].kind), (1, ConditionKind::ClientsLimited));
    assert_eq!(found[0].summary, "the limit of its clients (1,000 requests/s) holds requests back");
    assert_eq!((scene.conditions(60, &report).len(), scene.conditions(62, &report).len()), (1, 0));
}

#[test]
fn healed_blocks_count_for_an_hour() {
    let (mut scene, mut report) = (Scene::new(), report());
    scene.conditions(0, &report);
    report.caches[0].volumes[0].counters.healed_blocks = 1;
    assert_eq!(scene.conditions(1, &report)[0].kind, ConditionKind::BlocksHealed);
    assert_eq!(scene.conditions(3_602, &report), []);
}

#[test]
fn long_waits_for_memory_are_a_condition() {
    let (mut scene, mut report) = (Scene::new(), report());
    report.memory.waiting_requests = 2;
    assert_eq!((scene.conditions(0, &report).len(), scene.conditions(9, &report).len()), (0, 0));
    assert_eq!(scene.conditions(10, &report)[0].kind, ConditionKind::MemoryShort);
}

#[test]
fn a_cache_as_slow_as_the_origin_does_not_pay() {
    let pays = |cache_ms: f64, count: u64, mode: &str| {
        found(|report| {
            let took = |mean_ms: f64| json!({"count": count, "mean_ms": mean_ms, "p99_ms": mean_ms});
            let volume = &mut report.caches[0].volumes[0];
            volume.recent = of(json!({"seconds": 50.0, "hits": took(cache_ms), "misses": took(2.0)}));
            volume.mode = of(json!(mode));
        })
    };
    assert_eq!(pays(0.1, 1000, "write-back"), []);
    assert_eq!(pays(2.5, 100, "write-back"), [], "too few to tell");
    assert_eq!(pays(2.5, 1000, "bypass"), []);
    let condition = &pays(2.5, 1000, "write-back")[0];
    assert_eq!(condition.kind, ConditionKind::CacheDoesNotPay);
    assert_eq!(commands_of(condition), ["kickcache mode a bypass --control '/srv/it'\\''s/control'"]);
}

/// The rows of the table of conditions in docs/reference/status.md.
fn documented() -> Vec<[String; 3]> {
    let page = include_str!("../../../../docs/reference/status.md");
    let section = page.split("\n## Conditions\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(" | ").map(|cell| cell.trim_matches(['|', ' ', '`'])).collect();
        assert!(cells.len() == 5 && cells.iter().all(|cell| !cell.is_empty()), "{line}");
        [cells[0], cells[1], cells[2]].map(str::to_owned)
    };
    rows.map(row).collect()
}

#[test]
fn the_documentation_lists_all_conditions() {
    let expected: Vec<[String; 3]> = ConditionKind::ALL
        .iter()
        .map(|kind| [kind.as_str(), kind.entry().severity.as_str(), kind.entry().word].map(str::to_owned))
        .collect();
    assert_eq!(documented(), expected);
}
