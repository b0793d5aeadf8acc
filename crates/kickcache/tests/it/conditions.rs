//! Conditions that a command can end.

use std::fs;
use std::time::{Duration, Instant};

use kickcache_daemon::conditions::Surroundings;
use kickcache_daemon::conditions::watch::ConditionWatch;
use kickcache_daemon::control::condition::{Condition, ConditionKind};
use kickcache_daemon::control::report::Report;
use kickcache_daemon::serve::config::StatePlace;
use kickcache_daemon::shell_command::DaemonCommands;
use serde_json::Value;

use crate::client::{Request, WRITE};
use crate::daemon::{Daemon, Spec, VOLUME};
use crate::reload::Reloadable;
use crate::remedies::follow;
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, need_kickcache};

fn condition(daemon: &Daemon, kind: &str) -> Option<Value> {
    let status = daemon.status();
    let found = status["conditions"].as_array().unwrap().iter().find(|it| it["kind"] == kind);
    found.cloned()
}

/// The commands of the condition of a kind.
fn commands(daemon: &Daemon, kind: &str) -> Vec<String> {
    let found = condition(daemon, kind).unwrap_or_else(|| panic!("no {kind}: {}", daemon.status()));
    let remedy = found["remedy"].as_str().unwrap();
    let steps = found["steps"].as_array().unwrap().iter();
    let commands: Vec<String> =
        steps.filter_map(|step| step["command"].as_str()).map(str::to_owned).collect();
    assert!(!commands.is_empty() && commands.iter().all(|it| remedy.contains(&format!("`{it}`"))), "{found}");
    commands
}

fn run(command: &str) {
    let output = follow(command);
    assert!(output.status.success(), "{command}: {output:?}");
}

fn end(daemon: &Daemon, kind: &str) {
    commands(daemon, kind).iter().for_each(|command| run(command));
    assert_eq!(condition(daemon, kind), None);
}

/// Dirty blocks stay on the cache device until a drain.
fn lazy(scratch: &Scratch) -> Spec {
    let marks = ["--dirty-low", "85%", "--dirty-high", "88%", "--dirty-limit", "90%", "--idle-after", "1h"];
    let spec = Spec::new(scratch, &scratch.sparse("origin", 64 * MIB), "write-back", "16M");
    Spec { extra: marks.iter().map(Into::into).collect(), ..spec }
}

#[test]
fn the_commands_of_conditions_end_them() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = lazy(&scratch).start();
    assert!(daemon.control(&["status"]).starts_with("The volume v is healthy.\n\n"));
    daemon.control(&["pause-caching", VOLUME, "--for", "1h"]);
    end(&daemon, "caching-paused");
    let mut client = daemon.connect();
    client.write(0, &[1; 4096]);
    drop(client);
    let daemon = daemon.kill().start();
    end(&daemon, "recovered");
    let mut client = daemon.connect();
    let mut at = 0;
    while condition(&daemon, "log-nearly-full").is_none() {
        (at..at + 8).for_each(|unit| client.write(unit * 65_536, &[2; 65_536]));
        at += 8;
        assert!(at < 256, "{}", daemon.status());
    }
    daemon.spec.refusal(&["status", "--check"], 9);
    end(&daemon, "log-nearly-full");
    assert!(daemon.control(&["status", "--check"]).starts_with("good: "));
    drop(client);
    daemon.stop();
}

#[test]
fn the_commands_for_a_failed_cache_device_end_the_condition() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 16 * MIB);
    let daemon = disks.spec(&scratch, "write-back").start();
    disks.tell("fault origin write eio");
    let mut client = daemon.connect();
    client.write(0, &[1; 4096]);
    disks.tell("fault cache write eio");
    let write = Request { command: WRITE, flags: 0, offset: MIB, length: 4096 };
    (0..40).for_each(|_| _ = client.call(write, &[2; 4096]).unwrap().errno);
    drop(client);
    disks.tell("clear");
    let health = daemon.status()["health"].clone();
    assert_eq!(health["colour"], "red", "{health}");
    end(&daemon, "dirty-out-of-service");
    let another = scratch.sparse("another", 16 * MIB);
    for command in commands(&daemon, "cache-out-of-service") {
        run(&command.replace("DEVICE", another.to_str().unwrap()));
    }
    for kind in ["cache-out-of-service", "cache-left-out"] {
        assert_eq!(condition(&daemon, kind), None);
    }
    assert_eq!(daemon.connect().read(0, 4096), [1; 4096]);
    daemon.stop();
}

#[test]
fn the_command_after_a_failed_replacement_ends_the_condition() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, &[("next", 16 * MIB)]);
    let origin = scratch.sparse("origin", 16 * MIB);
    let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    let next = scratch.path("link");
    std::os::unix::fs::symlink(disks.file("next"), &next).unwrap();
    // The copy fails, after the new device was prepared.
    disks.tell("fault next write eio 8388608+8388608");
    daemon.spec.refusal(&["replace", "--with", next.to_str().unwrap()], 1);
    disks.tell("clear");
    let another = scratch.path("another");
    for command in commands(&daemon, "replacement-failed") {
        run(&command.replace("DEVICE", another.to_str().unwrap()));
    }
    assert_eq!(condition(&daemon, "replacement-failed"), None);
    daemon.stop();
}

#[test]
fn commands_for_an_unconfigured_volume_end_the_condition() {
    need_kickcache!();
    let limits = "mode = \"write-back\"\nidle-after = \"1h\"\n";
    let reloadable = Reloadable::new(&[("one", ""), ("four", limits)]);
    let daemon = reloadable.start(&["one", "four"]);
    reloadable.connect("four").write(0, &[7; 4096]);
    daemon.kill();
    reloadable.write(&[("one", "")]);
    let daemon = reloadable.start(&["one"]);
    end(&daemon, "volume-not-served");
    daemon.stop();
}

/// The conditions of a daemon, from its reports as a later time would give them.
struct LaterReports<'a> {
    daemon: &'a Daemon,
    watch: ConditionWatch,
    commands: DaemonCommands,
    began: Instant,
}

impl LaterReports<'_> {
    fn new(daemon: &Daemon) -> LaterReports<'_> {
        let control = Some(daemon.spec.control());
        let commands = DaemonCommands { state: StatePlace::Directory("/".into()), control, service: None };
        LaterReports { daemon, watch: ConditionWatch::default(), commands, began: Instant::now() }
    }

    fn condition(&mut self, seconds: u64, kind: ConditionKind) -> Option<Condition> {
        let mut report: Report = serde_json::from_value(self.daemon.status()).unwrap();
        let dirty_seconds = &mut report.caches[0].volumes[0].dirty_seconds;
        *dirty_seconds = dirty_seconds.map(|since| since + seconds as f64);
        let around = Surroundings { silent: &[], state_failure: None, commands: &self.commands };
        self.watch.complete_at(self.began + Duration::from_secs(seconds), seconds, &mut report, &around);
        report.conditions.into_iter().find(|it| it.kind == kind)
    }
}

fn run_commands_of(condition: &Condition) {
    let commands = condition.steps.iter().filter_map(|step| step.command.as_deref());
    assert_eq!(commands.inspect(|command| run(command)).count(), 1);
}

#[test]
fn the_command_for_old_dirty_blocks_ends_the_condition() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = lazy(&scratch).start();
    daemon.connect().write(0, &[1; 4096]);
    let mut reports = LaterReports::new(&daemon);
    let kind = ConditionKind::DirtyTooOld;
    let mut quarters = (0..).map(|quarter| quarter * 900);
    let condition = quarters.by_ref().take(26).find_map(|seconds| reports.condition(seconds, kind));
    run_commands_of(&condition.unwrap());
    assert_eq!(reports.condition(quarters.next().unwrap(), kind), None);
    daemon.stop();
}

#[test]
fn a_higher_limit_of_clients_ends_the_condition() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", "client-iops = 20")]);
    let daemon = reloadable.start(&["one"]);
    let (mut reports, kind) = (LaterReports::new(&daemon), ConditionKind::ClientsLimited);
    assert_eq!(reports.condition(0, kind), None);
    let mut client = reloadable.connect("one");
    while daemon.volume_count("held_requests") == 0 {
        drop(client.read(0, 4096));
    }
    let condition = reports.condition(1, kind).unwrap();
    reloadable.write(&[("one", "client-iops = 1000000")]);
    run_commands_of(&condition);
    (0..100).for_each(|_| drop(client.read(0, 4096)));
    assert_eq!(reports.condition(2, kind).map(|it| it.kind), Some(kind), "it was limited a minute ago");
    assert_eq!(reports.condition(63, kind), None);
    drop(client);
    daemon.stop();
}

#[test]
fn a_reload_serves_a_volume_with_an_origin_that_returned() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", ""), ("two", "")]);
    // The folder is renamed: the times of the origin stay.
    let [folder, away, file] = ["folder", "away", "config.toml"].map(|name| reloadable.scratch.path(name));
    fs::create_dir(&folder).unwrap();
    let origin = reloadable.scratch.path("two");
    let moved = folder.join("two");
    fs::rename(&origin, &moved).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    reloadable
        .write_text(&text.replace(&format!("\"{}\"", origin.display()), &format!("\"{}\"", moved.display())));
    reloadable.start(&["one", "two"]).stop();
    fs::rename(&folder, &away).unwrap();
    let daemon = reloadable.start(&["one"]);
    fs::rename(&away, &folder).unwrap();
    end(&daemon, "volume-not-served");
    drop(reloadable.connect("two"));
    daemon.stop();
}

#[test]
fn the_command_for_a_cache_without_gain_ends_the_condition() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 16 * MIB, 64 * MIB);
    let daemon = disks.spec(&scratch, "write-through").start();
    let mut client = daemon.connect();
    (0..32).for_each(|block| client.write(block * 4096, &[1; 4096]));
    disks.tell("fault cache read delay=20");
    let mut missed = (8 * MIB..64 * MIB).step_by(128 << 10);
    while condition(&daemon, "cache-does-not-pay").is_none() {
        for hit in 0..32 {
            drop(client.read(hit * 4096, 4096));
            drop(client.read(missed.next().expect("no condition after 448 misses"), 4096));
        }
    }
    end(&daemon, "cache-does-not-pay");
    drop(client);
    daemon.stop();
}

#[test]
fn a_condition_has_the_reason_of_the_last_attempt() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", ""), ("two", "")]);
    reloadable.start(&["one", "two"]).stop();
    let [origin, away] = ["two", "away"].map(|name| reloadable.scratch.path(name));
    fs::rename(&origin, &away).unwrap();
    let daemon = reloadable.start(&["one"]);
    let cause = || condition(&daemon, "volume-not-served").unwrap()["cause"].as_str().unwrap().to_owned();
    assert!(cause().starts_with("cannot open "), "{}", cause());
    // This changes a time of the file.
    fs::rename(&away, &origin).unwrap();
    commands(&daemon, "volume-not-served").iter().for_each(|command| run(command));
    assert!(cause().starts_with("its origin was changed while it was not served "), "{}", cause());
    daemon.stop();
}
