//! A cache device that is left out while it is served, and the use of another one.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bad_input::refused;
use crate::client::{READ, Request};
use crate::daemon::{Daemon, KICKCACHE, Spec, VOLUME};
use crate::faulty::Release;
use crate::fio_verify::{check_fio, fio};
use crate::killed::{check, kill_under_writes, ledgers, rounds, wait_for_writes};
use crate::ledger::Ledger;
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, need_kickcache, need_tools};

const VOLUME_BYTES: u64 = 48 * MIB;
const WRITERS: u64 = 4;
const BLOCK: usize = 4096;

fn take_in(daemon: &Daemon, with: &Path, size: &str) -> String {
    daemon.control(&["replace", "--with", with.to_str().unwrap(), "--size", size])
}

fn cache(daemon: &Daemon) -> (PathBuf, String) {
    let status = daemon.status();
    let cache = &status["caches"][0];
    (cache["device"].as_str().unwrap().into(), cache["health"].as_str().unwrap().into())
}

fn change_and_kill(daemon: Daemon, ledgers: &mut [Ledger], with: &Path, rng: &mut Rng) -> Spec {
    let before = Duration::from_millis(rng.between(0, 300));
    let longest = [30_000, 300_000, 1_500_000][usize::try_from(rng.below(3)).unwrap()];
    let after = Duration::from_micros(rng.below(longest));
    let begin = |daemon: &Daemon, done: &AtomicU64| {
        wait_for_writes(done, 100);
        thread::sleep(before);
        let control = daemon.spec.control();
        let (control, with) = (control.to_str().unwrap(), with.to_str().unwrap());
        // The first command is refused if no cache device is in use.
        let both = format!(
            "'{KICKCACHE}' leave-out --control '{control}'; '{KICKCACHE}' replace --with '{with}' --size 16M --control '{control}'"
        );
        let changes =
            Command::new("sh").args(["-c", &both]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        thread::sleep(after);
        changes.unwrap()
    };
    kill_under_writes(daemon, ledgers, begin, |mut changes| _ = changes.wait())
}

/// The configuration names the first device.
#[test]
fn acknowledged_writes_survive_kills_during_leave_out() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", VOLUME_BYTES);
    let mut ledgers = ledgers(WRITERS, VOLUME_BYTES, 4096);
    let mut spec = Spec::new(&scratch, &origin, "write-back", "16M");
    let mut rng = Rng::new(17);
    let (mut left_out, mut taken_in) = (0, 0);
    let mut last = spec.cache.clone();
    for round in 0..rounds() {
        let daemon = spec.start();
        let found = cache(&daemon).0;
        taken_in += u64::from(found != last);
        last = found;
        left_out += u64::from(cache(&daemon).1 == "out-of-service");
        check(&daemon, &mut ledgers, round);
        let other = scratch.path(&format!("cache{round}"));
        spec = change_and_kill(daemon, &mut ledgers, &other, &mut rng);
    }
    let daemon = spec.start();
    check(&daemon, &mut ledgers, rounds());
    eprintln!(
        "of {} kills, {left_out} came after a device was left out, {taken_in} after one was taken in",
        rounds()
    );
    daemon.drain();
    daemon.stop();
}

#[test]
fn fio_verifies_write_back_while_cache_devices_come_and_go() {
    need_tools!("fio");
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 4 * 24 * MIB);
    let mut spec = Spec::new(&scratch, &origin, "write-back", "32M");
    let daemon = spec.start();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let changing = scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::Relaxed) && count < 12 {
                daemon.control(&["leave-out"]);
                let with = scratch.path(&format!("cache{count}"));
                take_in(&daemon, &with, "24M");
                count += 1;
            }
            count
        });
        check_fio(&fio(&daemon, 24, &[]));
        done.store(true, Ordering::Relaxed);
        let count = changing.join().unwrap();
        eprintln!("{count} devices were left out, and as many taken in");
        assert!(count > 0);
    });
    spec.cache = cache(&daemon).0;
    daemon.kill();
    let daemon = spec.start();
    assert_eq!(cache(&daemon).1, "good");
    check_fio(&fio(&daemon, 24, &["--verify_only"]));
    daemon.stop();
}

#[test]
fn an_unused_device_is_released_and_never_trusted_again() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", VOLUME_BYTES);
    let spec = Spec::new(&scratch, &origin, "write-back", "16M");
    let old = spec.cache.clone();
    let daemon = spec.start();
    let mut client = daemon.connect();
    client.write(0, &[1; 16 * BLOCK]);
    client.flush();
    let dry: Value = serde_json::from_str(&daemon.control(&["leave-out", "--dry-run", "--json"])).unwrap();
    assert_eq!(dry["dirty"][0]["bytes"].as_u64(), Some(16 * BLOCK as u64));
    assert_eq!(cache(&daemon).1, "good");
    let done: Value = serde_json::from_str(&daemon.control(&["leave-out", "--json"])).unwrap();
    assert_eq!((done["device"].as_str(), done["lost"].as_array().unwrap().len()), (old.to_str(), 0));
    assert_eq!(cache(&daemon).1, "out-of-service");
    assert_eq!(client.read(0, 4096), [1; BLOCK]);
    client.write(0, &[2; BLOCK]);
    client.flush();
    let said = daemon.spec.refusal(&["leave-out"], 1);
    assert!(said.contains("without a cache already"), "{said}");
    // The mode is unchanged, and the device is not recorded as dirty again.
    assert_eq!(daemon.status()["caches"][0]["volumes"][0]["mode"], "write-back");
    daemon.control(&["mode", VOLUME, "write-through"]);
    daemon.control(&["mode", VOLUME, "write-back"]);
    drop(client);
    daemon.kill();
    let daemon = spec.start();
    assert!(daemon.log().contains("is out of service: volumes are served from their origins alone"));
    assert_eq!(daemon.connect().read(0, 4096), [2; BLOCK]);
    daemon.stop();
}

/// A cache device is left out, and no other is put into use.
fn left_out(scratch: &Scratch) -> Daemon {
    let origin = scratch.sparse("origin", VOLUME_BYTES);
    let daemon = Spec::new(scratch, &origin, "write-back", "16M").start();
    let mut client = daemon.connect();
    client.write(0, &[2; BLOCK]);
    client.flush();
    daemon.control(&["leave-out"]);
    daemon
}

#[test]
fn a_device_used_after_leave_out_is_recorded_as_dirty() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = left_out(&scratch);
    let last = scratch.path("last");
    take_in(&daemon, &last, "8M");
    daemon.connect().write(0, &[4; BLOCK]);
    let mut spec = daemon.kill();
    std::fs::remove_file(last).unwrap();
    spec.cache = scratch.path("another");
    let said = refused("a new cache device", &spec.arguments());
    assert!(said.contains("may hold blocks"), "{said}");
}

#[test]
fn another_device_is_put_into_use_despite_the_old_record() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = left_out(&scratch);
    let (old, origin) = (daemon.spec.cache.clone(), daemon.spec.origin.clone());
    let full = scratch.path("full");
    std::fs::write(&full, vec![1; 16 << 20]).unwrap();
    let taken = |daemon: &Daemon, path: &Path, more: &[&str]| {
        daemon.spec.refusal(&[&["replace", "--with", path.to_str().unwrap()], more].concat(), 1)
    };
    for more in [&[][..], &["--dry-run"]] {
        assert!(taken(&daemon, &full, more).contains("--force"));
        assert!(taken(&daemon, &scratch.path("none"), more).contains("--size"));
        let said = taken(&daemon, &origin, &[&["--force"], more].concat());
        assert!(said.contains("it is the origin of volume"), "{said}");
    }
    let said = daemon.control(&["replace", "--with", old.to_str().unwrap(), "--dry-run"]);
    assert!(said.contains("would be taken in, empty"), "{said}");
    let said = daemon.control(&["replace", "--with", old.to_str().unwrap()]);
    assert!(said.contains("is the cache device again, and empty"), "{said}");
    assert_eq!(cache(&daemon), (old.clone(), "good".into()));
    let mut client = daemon.connect();
    assert_eq!(client.read(0, 4096), [2; BLOCK]);
    client.write(BLOCK as u64, &[3; BLOCK]);
    client.flush();
    assert!(daemon.volume_count("dirty_bytes") > 0);
    drop(client);
    let new = scratch.path("new");
    daemon.control(&["replace", "--with", new.to_str().unwrap()]);
    let daemon = daemon.kill().start();
    assert_eq!(cache(&daemon).0, new);
    assert_eq!(daemon.connect().read(0, 8192), [[2; BLOCK], [3; BLOCK]].concat());
    daemon.control(&["leave-out"]);
    let last = scratch.path("last");
    take_in(&daemon, &last, "8M");
    let mut client = daemon.connect();
    client.write(0, &[4; BLOCK]);
    client.flush();
    drop(client);
    // The superblock of a device that was left out leads to the device in use.
    let mut spec = daemon.kill();
    for named in [&old, &new, &last] {
        spec.cache.clone_from(named);
        let daemon = spec.start();
        assert_eq!(cache(&daemon), (last.clone(), "good".into()));
        assert_eq!(daemon.connect().read(0, 4096), [4; BLOCK]);
        let words = ["replace", "--cache", named.to_str().unwrap(), "--with", "/nowhere/x", "--dry-run"];
        assert!(daemon.spec.refusal(&words, 1).contains("no folder /nowhere"));
        spec = daemon.kill();
    }
}

/// A device was replaced, and its successor was left out.
#[test]
fn the_device_in_use_is_found_from_a_replaced_one() {
    need_kickcache!();
    for (name, without) in [("second", "was replaced by"), ("third", "may hold blocks")] {
        let scratch = Scratch::new();
        let origin = scratch.sparse("origin", VOLUME_BYTES);
        let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
        daemon.connect().write(0, &[1; BLOCK]);
        daemon.control(&["replace", "--with", scratch.path("second").to_str().unwrap()]);
        daemon.control(&["leave-out"]);
        let with = scratch.path(name);
        let said = take_in(&daemon, &with, "16M");
        assert!(said.contains(&format!("name {} ", with.display())), "{said}");
        daemon.connect().write(0, &[2; BLOCK]);
        let daemon = daemon.kill().start();
        assert_eq!(cache(&daemon), (with.clone(), "good".into()), "{}", daemon.log());
        daemon.wait_for_log(&[&format!("name {} in the configuration", with.display())]);
        assert_eq!(daemon.connect().read(0, 4096), [2; BLOCK]);
        let spec = daemon.kill();
        // The device in use is missing.
        std::fs::rename(&with, scratch.path("away")).unwrap();
        let said = refused("a replaced device", &spec.arguments());
        assert!(said.contains(without) && !said.contains("--new-cache"), "{said}");
    }
}

#[test]
fn a_device_taken_in_counts_its_first_start() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = left_out(&scratch);
    let last = scratch.path("last");
    take_in(&daemon, &last, "8M");
    let mut spec = daemon.stop();
    spec.cache = last;
    spec.extra = vec!["--state".into(), scratch.path("another state directory").into()];
    let daemon = spec.start();
    daemon.wait_for_log(&["was served before, and the state directory has no record for it"]);
    daemon.stop();
}

#[test]
fn unreadable_blocks_are_lost_by_order_only() {
    need_kickcache!();
    for fault in ["fault cache read eio", "fault cache any gone"] {
        let scratch = Scratch::new();
        let disks = faulty_disks!(&scratch, 8 * MIB, 8 * MIB);
        let daemon = disks.spec(&scratch, "write-back").start();
        let mut client = daemon.connect();
        client.write(0, &[1; 4 * BLOCK]);
        client.flush();
        daemon.drain();
        disks.tell("fault origin write eio");
        client.write(0, &[2; 2 * BLOCK]);
        client.flush();
        disks.tell("clear");
        disks.tell(fault);
        if fault.ends_with("eio") {
            let said = daemon.spec.refusal(&["leave-out"], 1);
            let is_told = said.contains("2 blocks of v cannot be written back");
            assert!(is_told && said.contains("--abandon-dirty"), "{said}");
        }
        let done = daemon.control(&["leave-out", "--abandon-dirty", "--json"]);
        let done: Value = serde_json::from_str(&done).unwrap();
        assert_eq!(done["lost"][0]["bytes"].as_u64(), Some(2 * BLOCK as u64), "{done}");
        let read = |client: &mut crate::client::Client| {
            let request = Request { command: READ, flags: 0, offset: 0, length: 4 * 4096 };
            client.call(request, &[]).unwrap()
        };
        let reply = read(&mut client);
        assert!(reply.errno == 0 && reply.data == [1; 4 * BLOCK], "what the origin has: {}", reply.errno);
        let with = scratch.path("with");
        take_in(&daemon, &with, "8M");
        client.write(0, &[3; BLOCK]);
        client.flush();
        disks.tell("clear");
        drop(client);
        let spec = Spec { cache: with, ..daemon.kill() };
        let daemon = spec.start();
        assert_eq!(daemon.connect().read(0, 4096), [3; BLOCK]);
        daemon.stop();
    }
}

#[test]
fn the_drain_progress_is_shown_without_waiting() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 8 * MIB);
    let daemon = disks.spec(&scratch, "write-back").start();
    let _release = Release(&disks);
    disks.tell("fault origin write hang");
    daemon.connect().write(0, &[1; 16 * BLOCK]);
    let mut leave_out = Command::new(KICKCACHE);
    leave_out.arg("leave-out").arg("--control").arg(daemon.spec.control());
    let leave_out = leave_out.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    let left = |daemon: &Daemon| daemon.status()["caches"][0]["leaving_out"]["left_bytes"].as_u64();
    while left(&daemon) != Some(16 * BLOCK as u64) {
        assert!(start.elapsed() < Duration::from_secs(60), "{}", daemon.log());
    }
    let (cache_path, other) = (daemon.spec.cache.to_str().unwrap().to_owned(), scratch.path("other"));
    File::create(&other).unwrap().set_len(4 * MIB).unwrap();
    let add = ["add", "--cache", &cache_path, "--origin", other.to_str().unwrap(), "--name", "w"];
    let said = daemon.spec.refusal(&add, 1);
    assert!(said.contains("is being taken out of use"), "the new engine would not know it: {said}");
    kill_process(Pid::from_child(&leave_out), Signal::INT).unwrap();
    let output = leave_out.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    disks.tell("clear");
    while cache(&daemon).1 != "out-of-service" || left(&daemon).is_some() {
        assert!(start.elapsed() < Duration::from_secs(60), "{}", daemon.log());
    }
    daemon.stop();
}

#[test]
fn counters_of_a_volume_go_on_with_another_cache_device() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = Spec::new(&scratch, &scratch.random("origin", 16 * MIB, 1), "write-back", "16M").start();
    let mut client = daemon.connect();
    (0..20).for_each(|block| drop(client.read(block * MIB / 4, 4096)));
    client.write(0, &[1; BLOCK]);
    let counts = || {
        let counters = &daemon.status()["caches"][0]["volumes"][0]["counters"];
        ["reads", "writes", "miss_blocks"].map(|name| counters[name].as_u64().unwrap())
    };
    let before = counts();
    assert!(before[0] >= 20 && before[1] == 1, "{before:?}");
    daemon.control(&["leave-out"]);
    assert_eq!(counts(), before);
    take_in(&daemon, &scratch.path("another"), "16M");
    assert_eq!(counts(), before);
    drop(client);
    daemon.stop();
}
