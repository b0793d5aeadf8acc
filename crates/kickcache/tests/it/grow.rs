//! A cache device that grows while it is served.

use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::daemon::{Daemon, KICKCACHE, Spec};
use crate::fio_verify::{check_fio, fio};
use crate::killed::{check, kill_under_writes, ledgers, rounds, wait_for_writes};
use crate::ledger::Ledger;
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, need_tools, tools};

const VOLUME_BYTES: u64 = 48 * MIB;
const WRITERS: u64 = 4;

fn device_bytes(daemon: &Daemon) -> u64 {
    let status: Value = daemon.status();
    status["caches"][0]["device_bytes"].as_u64().unwrap()
}

/// Returns the standard error.
fn refusal(daemon: &Daemon, words: &[&str]) -> String {
    daemon.spec.refusal(&[&["grow"], words].concat(), 1)
}

fn grow_and_kill(daemon: Daemon, ledgers: &mut [Ledger], size: u64, rng: &mut Rng) -> Spec {
    let before = Duration::from_millis(rng.between(0, 400));
    let longest = [3_000, 60_000, 600_000][usize::try_from(rng.below(3)).unwrap()];
    let after = Duration::from_micros(rng.below(longest));
    let begin = |daemon: &Daemon, done: &AtomicU64| {
        wait_for_writes(done, 100);
        thread::sleep(before);
        let mut grow = Command::new(KICKCACHE);
        grow.args(["grow", "--size", &size.to_string(), "--control"]).arg(daemon.spec.control());
        let grow = grow.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(after);
        grow
    };
    kill_under_writes(daemon, ledgers, begin, |mut grow| _ = grow.wait())
}

#[test]
fn acknowledged_writes_survive_kills_while_the_cache_device_grows() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", VOLUME_BYTES);
    let mut ledgers = ledgers(WRITERS, VOLUME_BYTES, 4096);
    let mut spec = Spec::new(&scratch, &origin, "write-back", "16M");
    let mut rng = Rng::new(7);
    let (mut size, mut grown) = (16 * MIB, 0);
    for round in 0..rounds() {
        let daemon = spec.start();
        let used = device_bytes(&daemon);
        grown += u64::from(used == size && round > 0);
        check(&daemon, &mut ledgers, round);
        size = used + rng.between(1, 32) * 64 * 1024;
        spec = grow_and_kill(daemon, &mut ledgers, size, &mut rng);
    }
    let daemon = spec.start();
    check(&daemon, &mut ledgers, rounds());
    let size = device_bytes(&daemon) + 2 * MIB;
    daemon.control(&["grow", "--size", &size.to_string()]);
    eprintln!("{grown} of {} growths came before the kill", rounds());
    let daemon = daemon.stop().start();
    assert_eq!(device_bytes(&daemon), size);
    check(&daemon, &mut ledgers, rounds());
    daemon.drain();
    daemon.stop();
}

#[test]
fn fio_verifies_write_back_while_the_cache_device_grows() {
    need_tools!("fio");
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 4 * 24 * MIB);
    let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let growing = scope.spawn(|| {
            let mut size = 16 * MIB;
            while !done.load(Ordering::Relaxed) && size < 72 * MIB {
                size += 8 * MIB;
                daemon.control(&["grow", "--size", &size.to_string()]);
                thread::sleep(Duration::from_millis(200));
            }
            size
        });
        check_fio(&fio(&daemon, 24, &[]));
        done.store(true, Ordering::Relaxed);
        assert!(growing.join().unwrap() > 24 * MIB, "it has grown more than once");
    });
    let daemon = daemon.stop().start();
    check_fio(&fio(&daemon, 24, &["--verify_only"]));
    daemon.stop();
}

#[test]
fn a_cache_device_grows_up_to_its_reported_limit() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", VOLUME_BYTES);
    let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    let segments = daemon.status()["caches"][0]["segments"].as_u64().unwrap();
    let said = daemon.control(&["grow"]);
    assert!(said.contains("unchanged") && said.contains("--size"), "{said}");
    let said = refusal(&daemon, &["--size", "12M"]);
    assert!(said.contains("cannot shrink"), "{said}");
    let said = refusal(&daemon, &["--size", "1G"]);
    assert!(said.contains("lets it grow to"), "{said}");
    let said = refusal(&daemon, &["/nowhere/fast"]);
    assert!(said.contains("there is no cache device /nowhere/fast here"), "{said}");
    assert_eq!(std::fs::metadata(&daemon.spec.cache).unwrap().len(), 16 * MIB, "nothing was changed");
    let said = daemon.control(&["grow", "--size", "24M", "--dry-run"]);
    assert!(said.contains("would have 24 MiB (25165824 bytes), has 16 MiB"), "{said}");
    let json: Value =
        serde_json::from_str(&daemon.control(&["grow", "--size", "24M", "--dry-run", "--json"])).unwrap();
    let (before, size) = (&json["before_bytes"], &json["size_bytes"]);
    assert_eq!((before.as_u64(), size.as_u64()), (Some(16 * MIB), Some(24 * MIB)));
    let said = refusal(&daemon, &["--size", "1G", "--dry-run"]);
    assert!(said.contains("lets it grow to"), "{said}");
    assert_eq!(std::fs::metadata(&daemon.spec.cache).unwrap().len(), 16 * MIB, "nothing was changed");
    let said = daemon.control(&["grow", "--size", "24M"]);
    assert!(said.contains("24 MiB (25165824 bytes) now, 16 MiB before"), "{said}");
    assert!(daemon.status()["caches"][0]["segments"].as_u64().unwrap() > segments + 120);
    // A file that another program extended.
    File::options().write(true).open(&daemon.spec.cache).unwrap().set_len(32 * MIB).unwrap();
    daemon.control(&["grow"]);
    assert_eq!(device_bytes(&daemon), 32 * MIB);
    assert!(daemon.log().contains("now has 33554432 bytes"));
    let spec = daemon.kill();
    let shown = tools::output(KICKCACHE, ["inspect", spec.cache.to_str().unwrap()]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("32 MiB are used, and can grow to"), "{shown}");
    let daemon = spec.start();
    assert_eq!(device_bytes(&daemon), 32 * MIB);
    daemon.stop();
}
