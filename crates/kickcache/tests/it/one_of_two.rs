//! A volume that cannot be served, together with one that can.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::bad_input::refused;
use crate::daemon::{Daemon, KICKCACHE, Spec};
use crate::pair::{NAMES, Pair};
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, tools};

/// Dirty blocks of sevens for the origin of `one` on another cache device, which is recorded.
fn dirty_elsewhere(scratch: &Scratch, pair: &Pair) -> PathBuf {
    let other = scratch.path("other");
    let daemon = Spec { mode: "write-back", ..pair.one_with(&other) }.start();
    daemon.connect().write(MIB, &[7; 65536]);
    daemon.stop();
    other
}

/// The log must have the words `named`.
fn one_is_left(pair: &Pair, flags: &[&str], named: &[&str]) {
    let daemon = pair.start(flags, &["two"]);
    let mut client = pair.client("two");
    client.write(0, &[2; 4096]);
    assert_eq!(client.read(0, 4096), [2; 4096]);
    drop(client);
    let said = daemon.log();
    assert!(said.contains("volume one is not served: "), "{said}");
    let status = daemon.status();
    let unserved = status["unserved"].as_array().unwrap();
    assert!(unserved.len() == 1 && unserved[0]["name"] == "one", "{status}");
    let page = daemon.control(&["status"]).replace("\n    ", " ");
    for part in named {
        assert!(said.contains(part), "the log has no `{part}`: {said}");
        assert!(unserved[0]["why"].as_str().unwrap().contains(part), "no `{part}`: {status}");
        assert!(page.contains(part), "no `{part}`: {page}");
    }
    assert!(page.contains("one: not served: "), "{page}");
    let asked = ["drain", "one", "--control", pair.spec.control().to_str().unwrap()].map(str::to_owned);
    let output = tools::output(KICKCACHE, asked);
    let answer = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && answer.contains("not served: "), "{answer}");
    ends(daemon);
}

/// The daemon ends normally, and reports the reason again.
fn ends(daemon: Daemon) {
    let path = daemon.spec.dir.join("daemon.log");
    let before = fs::metadata(&path).unwrap().len();
    daemon.stop();
    let said = fs::read_to_string(&path).unwrap().split_off(usize::try_from(before).unwrap());
    assert!(said.contains("volume one was not served: "), "{said}");
}

/// The other cache device is drained as advised.
fn both_after_drain(pair: &Pair, other: &str, flags: &[&str]) {
    tools::run(KICKCACHE, ["drain", "v", "--cache", other]);
    let daemon = pair.start(flags, &NAMES);
    assert_eq!(pair.client("one").read(MIB, 65536), [7; 65536]);
    assert_eq!(pair.client("two").read(0, 4096), [2; 4096]);
    daemon.stop();
}

#[test]
fn a_volume_dirty_on_another_cache_device_is_skipped() {
    need_kickcache!();
    for (mode, was_served) in [("write-back", true), ("write-through", false)] {
        let scratch = Scratch::new();
        let pair = Pair::new(&scratch, mode);
        if was_served {
            pair.start(&[], &NAMES).stop();
        }
        let other = dirty_elsewhere(&scratch, &pair);
        let other = other.to_str().unwrap();
        one_is_left(&pair, &[], &[&format!("kickcache drain v --cache {other}"), "--new-cache"]);
        both_after_drain(&pair, other, &[]);
    }
}

#[test]
fn it_is_left_without_a_cache_device_too() {
    need_kickcache!();
    let scratch = Scratch::new();
    let pair = Pair::new(&scratch, "write-back");
    pair.start(&[], &NAMES).stop();
    let other = dirty_elsewhere(&scratch, &pair);
    let other = other.to_str().unwrap();
    let named = [&format!("kickcache drain v --cache {other}"), "--lose-dirty"];
    one_is_left(&pair, &["--without-cache"], &named);
    // The cache device is out of service.
    let file = File::options().write(true).open(&pair.spec.cache).unwrap();
    file.write_all_at(&[0x5a; 100], 16_384 + 20).unwrap();
    one_is_left(&pair, &[], &named);
    both_after_drain(&pair, other, &[]);
}

#[test]
fn only_the_volume_dirty_on_the_unused_device_is_skipped() {
    need_kickcache!();
    let scratch = Scratch::new();
    let pair = Pair::new(&scratch, "write-back");
    let daemon = pair.start(&[], &NAMES);
    pair.client("two").write(0, &[2; 4096]);
    daemon.control(&["drain", "two", "--wait"]);
    pair.client("one").write(MIB, &[7; 65536]);
    daemon.stop();
    let drain = format!("kickcache drain one --cache {}", pair.spec.cache.display());
    one_is_left(&pair, &["--without-cache"], &["16 blocks of one are dirty", &drain, "--lose-dirty"]);
    // The content of an unreadable device is unknown; the record of the other volume shows that its origin is
    // complete.
    let kept = scratch.path("kept");
    fs::rename(&pair.spec.cache, &kept).unwrap();
    one_is_left(&pair, &["--without-cache"], &["cannot be read", "--lose-dirty"]);
    fs::rename(&kept, &pair.spec.cache).unwrap();
    let daemon = pair.start(&[], &NAMES);
    assert_eq!(pair.client("one").read(MIB, 65536), [7; 65536]);
    assert_eq!(pair.client("two").read(0, 4096), [2; 4096]);
    daemon.stop();
}

#[test]
fn a_cache_device_without_volumes_ends_no_start() {
    need_kickcache!();
    let scratch = Scratch::new();
    let pair = Pair::new(&scratch, "write-back");
    let caches = ["one", "two"].map(|name| {
        let device = scratch.path(&format!("cache of {name}"));
        format!("[[cache]]\ndevice = \"{}\"\nsize = \"8M\"\n{}", device.display(), pair.volume(name))
    });
    pair.configure(&caches.concat());
    let other = dirty_elsewhere(&scratch, &pair);
    let drain = format!("kickcache drain v --cache {}", other.display());
    one_is_left(&pair, &[], &[&drain]);
    pair.configure(&caches[0]);
    let said = refused("nothing to serve", &pair.arguments(&[]));
    assert!(said.contains(&drain), "{said}");
}
