//! A cache device that is replaced while it is served.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bad_input::refused;
use crate::daemon::{Daemon, KICKCACHE, Spec};
use crate::faulty::Release;
use crate::fio_verify::{check_fio, fio};
use crate::killed::{check, kill_under_writes, ledgers, rounds, wait_for_writes};
use crate::ledger::Ledger;
use crate::reload::Reloadable;
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, need_kickcache, need_tools, tools};

const VOLUME_BYTES: u64 = 48 * MIB;
const WRITERS: u64 = 4;

fn device(daemon: &Daemon) -> PathBuf {
    daemon.status()["caches"][0]["device"].as_str().unwrap().into()
}

fn replace(daemon: &Daemon, with: &Path) -> String {
    daemon.control(&["replace", "--with", with.to_str().unwrap()])
}

/// Returns the standard error.
fn refusal(daemon: &Daemon, words: &[&str]) -> String {
    daemon.spec.refusal(&[&["replace"], words].concat(), 1)
}

fn replace_and_kill(daemon: Daemon, ledgers: &mut [Ledger], with: &Path, rng: &mut Rng) -> Spec {
    let before = Duration::from_millis(rng.between(0, 400));
    let longest = [100_000, 400_000, 1_000_000][usize::try_from(rng.below(3)).unwrap()];
    let after = Duration::from_micros(rng.below(longest));
    let begin_soon = |daemon: &Daemon, done: &AtomicU64| {
        wait_for_writes(done, 100);
        thread::sleep(before);
        let replace = begin(daemon, with);
        thread::sleep(after);
        replace
    };
    kill_under_writes(daemon, ledgers, begin_soon, |mut replace| _ = replace.wait())
}

/// The configuration names the first device.
#[test]
fn acknowledged_writes_survive_kills_during_replace() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", VOLUME_BYTES);
    let mut ledgers = ledgers(WRITERS, VOLUME_BYTES, 4096);
    let mut spec = Spec::new(&scratch, &origin, "write-back", "16M");
    let mut rng = Rng::new(11);
    let (mut last, mut replaced) = (spec.cache.clone(), 0);
    for round in 0..rounds() {
        let daemon = spec.start();
        let found = device(&daemon);
        replaced += u64::from(found != last);
        last = found;
        check(&daemon, &mut ledgers, round);
        spec = replace_and_kill(daemon, &mut ledgers, &scratch.dir().join(format!("cache{round}")), &mut rng);
    }
    let daemon = spec.start();
    check(&daemon, &mut ledgers, rounds());
    eprintln!("{replaced} of {} devices had taken over before the kill", rounds());
    // An interrupted replacement continues by itself.
    let start = Instant::now();
    while !daemon.status()["caches"][0]["replacing"].is_null() {
        assert!(start.elapsed() < Duration::from_secs(60), "the replacement never ends");
        thread::sleep(Duration::from_millis(20));
    }
    let last = scratch.dir().join("last");
    replace(&daemon, &last);
    assert_eq!(device(&daemon), last);
    let daemon = daemon.kill().start();
    assert_eq!(device(&daemon), last);
    check(&daemon, &mut ledgers, rounds());
    daemon.drain();
    daemon.stop();
}

#[test]
fn fio_verifies_write_back_while_the_cache_device_is_replaced() {
    need_tools!("fio");
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 4 * 24 * MIB);
    let daemon = Spec::new(&scratch, &origin, "write-back", "32M").start();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let replacing = scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::Relaxed) && count < 20 {
                replace(&daemon, &scratch.dir().join(format!("cache{count}")));
                count += 1;
            }
            count
        });
        check_fio(&fio(&daemon, 24, &[]));
        done.store(true, Ordering::Relaxed);
        let count = replacing.join().unwrap();
        eprintln!("{count} devices took over");
        assert!(count > 0);
    });
    let daemon = daemon.kill().start();
    check_fio(&fio(&daemon, 24, &["--verify_only"]));
    daemon.stop();
}

#[test]
fn a_replaced_device_leads_to_its_successor_or_is_refused() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", VOLUME_BYTES);
    let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    let small = scratch.sparse("small", 8 * MIB);
    let said = refusal(&daemon, &["--with", small.to_str().unwrap()]);
    assert!(said.contains("8388608 bytes") && said.contains("uses 16777216"), "{said}");
    assert!(said.contains("`kickcache leave-out` and then `kickcache replace`"), "{said}");
    let full = scratch.dir().join("full");
    std::fs::write(&full, vec![1; 17 << 20]).unwrap();
    let said = refusal(&daemon, &["--with", full.to_str().unwrap()]);
    assert!(said.contains("--force"), "{said}");
    let said = refusal(&daemon, &["--with", daemon.spec.cache.to_str().unwrap()]);
    assert!(said.contains("this daemon serves it, as a cache device"), "{said}");
    let missing = scratch.dir().join("missing");
    for (path, words) in [(&small, "uses 16777216"), (&full, "--force"), (&daemon.spec.cache, "this daemon")]
    {
        let said = refusal(&daemon, &["--with", path.to_str().unwrap(), "--dry-run"]);
        assert!(said.contains(words), "{said}");
    }
    let said = daemon.control(&["replace", "--with", missing.to_str().unwrap(), "--dry-run"]);
    assert!(said.contains("would take over") && !missing.exists(), "{said}");
    let before = std::fs::read(&full).unwrap();
    let words = ["replace", "--with", full.to_str().unwrap(), "--force", "--json", "--dry-run"];
    let mut dry: Value = serde_json::from_str(&daemon.control(&words)).unwrap();
    assert!(std::fs::read(&full).unwrap() == before, "nothing was changed");
    let lost = dry.as_object_mut().unwrap().remove("destroyed").unwrap();
    assert!(lost.as_str().unwrap().contains("it holds data"), "{lost}");
    let stage = std::mem::replace(&mut dry["stage"], "begun".into());
    assert_eq!(stage, "planned");
    let done: Value = serde_json::from_str(&daemon.control(&words[..5])).unwrap();
    assert_eq!((&dry, done["with"].as_str()), (&done, full.to_str()));
    daemon.control(&["grow", daemon.spec.cache.to_str().unwrap()]);
    assert_eq!(daemon.status()["caches"][0]["device_bytes"].as_u64().unwrap(), 17 * MIB);
    let mut spec = daemon.kill();
    let old = tools::output(KICKCACHE, ["inspect", spec.cache.to_str().unwrap()]);
    let said = String::from_utf8(old.stderr).unwrap();
    assert!(said.contains("was replaced by") && said.contains("full"), "{said}");
    let daemon = spec.start();
    assert_eq!(device(&daemon), full);
    spec = daemon.kill();
    let away = scratch.dir().join("away");
    std::fs::rename(&full, &away).unwrap();
    assert!(spec.try_start().is_none());
    std::fs::rename(&away, &full).unwrap();
    spec.cache = full;
    spec.start().stop();
}

#[test]
fn a_replacement_that_is_ordered_again_is_waited_for() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", VOLUME_BYTES);
    let daemon = Spec::new(&scratch, &origin, "write-back", "512M").start();
    let new = scratch.dir().join("new");
    let order = ["replace", "--with", new.to_str().unwrap()];
    let first = begin(&daemon, &new);
    while daemon.status()["caches"][0]["replacing"].is_null() && !daemon.log().contains("has taken over") {
        thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&first), Signal::INT).unwrap();
    // The replacement may have ended before.
    let code = end(first).0;
    assert!([Some(0), Some(130)].contains(&code), "{code:?}");
    let said = daemon.control(&order);
    assert!(said.contains("has taken over") || said.contains("already"), "{said}");
    assert_eq!(device(&daemon), new);
    let said = daemon.control(&order);
    assert!(said.contains("is the cache device already, since an earlier `replace`"), "{said}");
    daemon.stop();
}

/// The copy claims to be the cache, with the same uuid; the number of the new device shows that it is not.
#[test]
fn an_early_copy_of_the_replaced_device_is_refused() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", VOLUME_BYTES);
    let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    let (copy, new) = (scratch.path("copy"), scratch.dir().join("new"));
    std::fs::copy(&daemon.spec.cache, &copy).unwrap();
    replace(&daemon, &new);
    daemon.connect().write(0, &[1; 65536]);
    let mut spec = daemon.kill();
    std::fs::rename(&copy, &spec.cache).unwrap();
    let said = refused("a copy of the old device", &spec.arguments());
    assert!(said.contains("older copy") && said.contains(new.to_str().unwrap()), "{said}");
    spec.cache = new;
    let daemon = spec.start();
    assert_eq!(daemon.connect().read(0, 65536), [1; 65536]);
    daemon.stop();
}

/// As below /dev/disk/by-id.
#[test]
fn a_device_goes_by_the_name_that_it_was_given() {
    need_kickcache!();
    let mut reloadable = Reloadable::new(&[("one", "")]);
    let daemon = reloadable.start(&["one"]);
    let (link, old) = (reloadable.scratch.path("link"), reloadable.spec.cache.clone());
    std::os::unix::fs::symlink(reloadable.scratch.sparse("new", 16 * MIB), &link).unwrap();
    assert_eq!(daemon.control(&["reload", "--dry-run"]), "no difference\n");
    replace(&daemon, &link);
    let said = daemon.control(&["reload", "--dry-run"]);
    let note = format!("it was replaced, and {} is the cache device", link.display());
    assert!(said.starts_with(old.to_str().unwrap()) && said.contains(&note), "{said}");
    reloadable.spec.cache.clone_from(&link);
    reloadable.write(&[("one", "")]);
    assert_eq!(daemon.control(&["reload"]), "no difference\n");
    daemon.stop();
    let said = tools::output(KICKCACHE, ["inspect", old.to_str().unwrap()]).stderr;
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains(link.to_str().unwrap()), "{said}");
}

fn begin(daemon: &Daemon, with: &Path) -> Child {
    let mut replace = Command::new(KICKCACHE);
    replace.args(["replace", "--with"]).arg(with).arg("--control").arg(daemon.spec.control());
    replace.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The exit code and the standard error of a command.
fn end(replace: Child) -> (Option<i32>, String) {
    let output = replace.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Waits until a part has been copied.
fn begin_copy(daemon: &Daemon, with: &Path) -> Child {
    let replace = begin(daemon, with);
    let start = Instant::now();
    while daemon.status()["caches"][0]["replacing"]["copied_bytes"].as_u64().is_none_or(|bytes| bytes == 0) {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing is copied: {}", daemon.log());
    }
    replace
}

#[test]
fn a_stop_ends_while_the_old_superblock_is_unwritable() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 8 * MIB);
    let mut daemon = disks.spec(&scratch, "write-back").start();
    let mut client = daemon.connect();
    client.write(0, &[3; 4096]);
    // The first write records that a replacement is in progress.
    disks.tell("fault cache write eio 0+8192 after 1");
    let replacing = begin(&daemon, &scratch.dir().join("new"));
    daemon.wait_for_log(&["cannot be noted that one has taken over"]);
    daemon.spec.refusal(&["status", "--check"], 9);
    client.write(4096, &[4; 4096]);
    drop(client);
    daemon.control(&["stop"]);
    let status = daemon.wait();
    daemon.check_end(status);
    assert!(daemon.log().contains("the next start decides by their superblocks"), "{}", daemon.log());
    let (code, said) = end(replacing);
    assert!(
        code == Some(1) && said.contains("before this was done: its next start may continue"),
        "{code:?}: {said}"
    );
    disks.tell("clear");
    let old = daemon.spec.cache.clone();
    let daemon = daemon.kill().start();
    assert_eq!(device(&daemon), old);
    let mut client = daemon.connect();
    assert_eq!((client.read(0, 4096), client.read(4096, 4096)), (vec![3; 4096], vec![4; 4096]));
    drop(client);
    daemon.stop();
}

#[test]
fn clients_do_not_wait_for_a_silent_new_device() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, &[("next", 16 * MIB)]);
    let origin = scratch.sparse("own origin", VOLUME_BYTES);
    let mut daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    let mut client = daemon.connect();
    let _release = Release(&disks);
    // The copy does not end before the other writes hang as well.
    disks.tell("fault next write hang 8388608+8388608");
    let replacing = begin_copy(&daemon, disks.file("next"));
    disks.tell("fault next write hang");
    client.write(0, &[5; 65536]);
    client.flush();
    let (code, said) = end(replacing);
    assert!(code == Some(1) && said.contains("has completed no operation for 9 s"), "{said}");
    let log = daemon.log();
    assert!(log.contains("has completed no operation for 9 s, and clients waited for it"), "{log}");
    assert!(!log.contains("device_silent"), "{log}");
    let said = refusal(&daemon, &["--with", scratch.dir().join("other").to_str().unwrap()]);
    assert!(said.contains("was cancelled, and the device has not responded yet"), "{said}");
    drop(client);
    // The process cannot end while operations on the device are in flight.
    daemon.signal(Signal::TERM);
    daemon.wait_for_log(&["the server has stopped"]);
    disks.tell("clear");
    let status = daemon.wait();
    daemon.check_end(status);
    let daemon = daemon.kill().start();
    assert_eq!(daemon.connect().read(0, 65536), [5; 65536]);
    daemon.stop();
}

#[test]
fn the_preparation_of_a_new_device_is_shown_without_waiting() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 16 * MIB);
    let with = disks.spec(&scratch, "write-back").origin;
    let origin = scratch.sparse("own origin", VOLUME_BYTES);
    let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    let _release = Release(&disks);
    disks.tell("fault origin flush hang");
    let replacing = begin(&daemon, &with);
    let start = Instant::now();
    let step = |daemon: &Daemon| daemon.status()["caches"][0]["replacing"]["step"].clone();
    while step(&daemon) != "preparing" {
        assert!(start.elapsed() < Duration::from_secs(60), "{}", daemon.log());
    }
    let process = Pid::from_child(&replacing);
    kill_process(process, Signal::INT).unwrap();
    let (code, said) = end(replacing);
    assert!(code == Some(130) && said.contains("the daemon continues the operation"), "{said}");
    assert_eq!(step(&daemon), "preparing");
    disks.tell("clear");
    while device(&daemon) != with {
        assert!(start.elapsed() < Duration::from_secs(60), "{}", daemon.log());
    }
    daemon.stop();
}

#[test]
fn dirty_devices_need_force_and_unfinished_ones_are_missed() {
    need_kickcache!();
    let (scratch, others) = (Scratch::new(), Scratch::new());
    let disks = faulty_disks!(&scratch, &[("next", 16 * MIB)]);
    let origin = scratch.sparse("origin", VOLUME_BYTES);
    let spec = Spec::new(&others, &others.sparse("origin", VOLUME_BYTES), "write-back", "16M");
    let other = spec.start();
    other.connect().write(0, &[7; 65536]);
    other.stop();
    let with = spec.cache;
    let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    let said = refusal(&daemon, &["--with", with.to_str().unwrap()]);
    assert!(said.contains("64 KiB of v ") && said.contains("kickcache drain"), "{said}");
    let words = ["replace", "--with", with.to_str().unwrap(), "--force", "--dry-run"];
    let said = daemon.control(&words);
    assert!(said.contains("64 KiB of v ") && said.contains("would take over"), "{said}");
    let new = scratch.dir().join("new");
    std::os::unix::fs::symlink(disks.file("next"), &new).unwrap();
    disks.tell("fault next write hang 8388608+8388608");
    let replacing = begin_copy(&daemon, &new);
    daemon.signal(Signal::KILL);
    // The process ends once its device answers.
    disks.tell("clear");
    let spec = daemon.kill();
    end(replacing);
    std::fs::remove_file(&new).unwrap();
    let daemon = spec.start();
    daemon.wait_for_log(&["is not there any more"]);
    let why = daemon.status()["caches"][0]["replacement_failure"].clone();
    assert!(why.as_str().unwrap().contains("it was to take over from"), "{why}");
    daemon.stop();
}
