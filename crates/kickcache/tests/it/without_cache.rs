//! Volumes served without their cache device.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::daemon::{Daemon, KICKCACHE, Spec, VOLUME};
use crate::need_kickcache;
use crate::scratch::{MIB, Scratch};
use crate::tools;

const SIZE: u64 = 8 * MIB;
const BLOCK: usize = 4096;

/// Stopped in write-back with clean blocks of ones from 0 on and ten dirty blocks of twos, at 1 MiB and 2
/// MiB.
fn used(scratch: &Scratch) -> Spec {
    let spec = Spec::new(scratch, &scratch.sparse("origin", SIZE), "write-back", "8M");
    let daemon = spec.start();
    let mut client = daemon.connect();
    client.write(0, &[1; 16 * BLOCK]);
    client.flush();
    daemon.drain();
    client.write(MIB, &[2; 4 * BLOCK]);
    client.write(2 * MIB, &[2; 6 * BLOCK]);
    client.flush();
    drop(client);
    daemon.stop()
}

fn without_cache(spec: &Spec, more: &[&str]) -> Spec {
    let mut spec = spec.clone();
    spec.extra.push("--without-cache".into());
    spec.extra.extend(more.iter().map(Into::into));
    spec
}

/// The daemon must refuse to serve, and leave both devices unchanged; returns its log.
fn refusal(spec: &Spec) -> String {
    let read = || (fs::read(&spec.cache).ok(), fs::read(&spec.origin).unwrap());
    let before = read();
    assert!(spec.try_start().is_none(), "it serves");
    assert!(read() == before, "a device was changed");
    fs::read_to_string(spec.dir.join("daemon.log")).unwrap()
}

fn works_without_cache(daemon: Daemon) -> Spec {
    daemon.control(&["mode", VOLUME, "write-back"]);
    let mut client = daemon.connect();
    client.write(0, &[3; BLOCK]);
    client.write(MIB + 512, &[3; 512]);
    client.flush();
    assert_eq!(client.read(0, 4096), [3; BLOCK]);
    let status = daemon.status();
    assert_eq!(status["caches"][0]["health"], "out-of-service");
    assert_eq!(daemon.volume_count("cached_bytes"), 0);
    drop(client);
    let spec = daemon.kill();
    let origin = fs::read(&spec.origin).unwrap();
    let byte = usize::try_from(MIB).unwrap();
    assert_eq!(origin[..BLOCK], [3; BLOCK]);
    assert_eq!((origin[byte + 511], origin[byte + 512], origin[byte + 1024]), (0, 3, 0));
    spec
}

fn check_against_origin(daemon: &Daemon, origin: &Path) {
    let expected = fs::read(origin).unwrap();
    assert!(daemon.connect().read(0, u32::try_from(SIZE).unwrap()) == expected, "old data is served");
}

#[test]
fn dirty_blocks_are_lost_only_by_order_and_never_return() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = used(&scratch);
    let said = refusal(&without_cache(&spec, &[]));
    for part in ["10 blocks of v are dirty", "1048576 + 16384, 2097152 + 24576", "--lose-dirty"] {
        assert!(said.contains(part), "no `{part}`: {said}");
    }
    let daemon = without_cache(&spec, &["--lose-dirty"]).start();
    let said = daemon.log();
    assert!(said.contains("10 dirty blocks of v are LOST"), "{said}");
    assert!(said.contains("1048576 + 16384, 2097152 + 24576"), "{said}");
    assert_eq!(daemon.connect().read(2 * MIB, 4096), [0; BLOCK]);
    works_without_cache(daemon);
    // The cache device was updated: it has no outdated blocks.
    let daemon = spec.start();
    assert_eq!(daemon.volume_count("dirty_bytes"), 0);
    check_against_origin(&daemon, &spec.origin);
    daemon.stop();
}

#[test]
fn a_refused_start_loses_no_data() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = used(&scratch);
    let said = refusal(&without_cache(&spec, &["--lose-dirty", "--nbd", "unix:/nowhere/v.sock"]));
    assert!(said.contains("/nowhere") && !said.contains("LOST"), "{said}");
    // With another state directory the origin is unknown too.
    let cache = fs::read(&spec.cache).unwrap();
    let mut origin = fs::read(&spec.origin).unwrap();
    origin[..BLOCK].copy_from_slice(&cache[..BLOCK]);
    fs::write(&spec.origin, origin).unwrap();
    let state = scratch.path("no-state");
    let said = refusal(&without_cache(&spec, &["--lose-dirty", "--state", state.to_str().unwrap()]));
    assert!(said.contains("is a kickcache cache device") && !said.contains("LOST"), "{said}");
}

#[test]
fn a_drained_volume_needs_no_cache() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = used(&scratch);
    let daemon = spec.start();
    daemon.drain();
    let spec = daemon.stop();
    let daemon = without_cache(&spec, &[]).start();
    assert_eq!(daemon.connect().read(2 * MIB, 4096), [2; BLOCK]);
    daemon.connect().write(2 * MIB, &[4; BLOCK]);
    daemon.stop();
    let daemon = spec.start();
    check_against_origin(&daemon, &spec.origin);
    daemon.stop();
}

#[test]
fn an_unreadable_cache_device_is_bypassed_by_order_only() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = used(&scratch);
    fs::write(&spec.cache, vec![0x5a; usize::try_from(SIZE).unwrap()]).unwrap();
    let said = refusal(&without_cache(&spec, &[]));
    assert!(said.contains("cannot be read") && said.contains("--lose-dirty"), "{said}");
    fs::remove_file(&spec.cache).unwrap();
    let said = refusal(&without_cache(&spec, &[]));
    assert!(said.contains("cannot be read") && said.contains("--lose-dirty"), "{said}");
    let daemon = without_cache(&spec, &["--lose-dirty"]).start();
    assert!(daemon.log().contains("its blocks of these volumes are stale"), "{}", daemon.log());
    works_without_cache(daemon);
    assert!(!spec.cache.exists(), "a cache file was made");
}

#[test]
fn a_cache_device_in_use_is_not_left() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = Spec::new(&scratch, &scratch.sparse("origin", SIZE), "write-back", "8M");
    let daemon = spec.start();
    let mut second = without_cache(&spec, &["--lose-dirty"]);
    second.origin = scratch.sparse("other", SIZE);
    second.dir = scratch.path("second");
    fs::create_dir(&second.dir).unwrap();
    assert!(second.try_start().is_none(), "two daemons have one cache device");
    let said = fs::read_to_string(second.dir.join("daemon.log")).unwrap();
    assert!(said.contains("in use"), "{said}");
    daemon.stop();
}

#[test]
fn tools_and_scripts_detect_a_bypassed_device() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = used(&scratch);
    let look = |command: &str, cache: &Path| {
        let run = |more: &[&str]| {
            let output = tools::output(KICKCACHE, [&[command, cache.to_str().unwrap()], more].concat());
            (output.status.code(), String::from_utf8(output.stdout).unwrap())
        };
        let ((code, said), (again, json)) = (run(&[]), run(&["--json"]));
        assert_eq!(code, again, "{said}");
        (code, said, serde_json::from_str::<Value>(&json).unwrap()["bypassed"].clone())
    };
    for command in ["check", "inspect"] {
        let (code, said, bypassed) = look(command, &spec.cache);
        assert_eq!((code, bypassed), (Some(0), serde_json::json!([])), "{said}");
    }
    let kept = scratch.path("kept");
    fs::rename(&spec.cache, &kept).unwrap();
    without_cache(&spec, &["--lose-dirty"]).start().stop();
    for command in ["check", "inspect"] {
        let (code, said, bypassed) = look(command, &kept);
        assert!(
            said.contains("bypassed: v: its origin was served without a cache device since; 10 dirty blocks"),
            "{said}"
        );
        assert_eq!(
            (code, &bypassed[0]["name"], &bypassed[0]["needed"]),
            (Some(7), &"v".into(), &true.into()),
            "{said}"
        );
        assert_eq!(bypassed[0]["dirty"][0]["start"], MIB, "{said}");
    }
}
