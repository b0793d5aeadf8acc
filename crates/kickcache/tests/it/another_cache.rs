//! One origin served with several cache devices in turn, or without one in between.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use crate::bad_input::{refused, unchanged};
use crate::client::Client;
use crate::daemon::{Daemon, KICKCACHE, Spec, VOLUME, guarded};
use crate::damaged_notes::note;
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, tools};

const SIZE: u64 = 16 * MIB;
const BLOCK: usize = 4096;
const MODES: [&str; 3] = ["write-back", "write-through", "write-around"];

fn spec(scratch: &Scratch, mode: &'static str) -> Spec {
    // Dirty blocks stay dirty, however late a slow machine stops the daemon.
    let extra = ["--admission", "always", "--idle-after", "24h"].map(Into::into).to_vec();
    Spec { extra, ..Spec::new(scratch, &scratch.sparse("origin", SIZE), mode, "8M") }
}

fn with_cache(spec: &Spec, name: &str) -> Spec {
    Spec { cache: spec.dir.join(name), ..spec.clone() }
}

fn and(spec: &Spec, more: &[&str]) -> Spec {
    let mut spec = spec.clone();
    spec.extra.extend(more.iter().map(Into::into));
    spec
}

fn fill(daemon: Daemon, byte: u8) -> Spec {
    let mut client = daemon.connect();
    client.write(0, &[byte; 16 * BLOCK]);
    client.flush();
    (0..3).for_each(|_| assert_eq!(client.read(0, 65536), [byte; 65536]));
    drop(client);
    daemon.drain();
    daemon.stop()
}

/// A cache device with clean blocks of ones, and a later one with dirty blocks of twos.
fn one_clean_and_one_dirty(scratch: &Scratch) -> (Spec, Spec) {
    let one = spec(scratch, "write-back");
    let two = with_cache(&one, "two");
    fill(one.start(), 1);
    let daemon = two.start();
    daemon.connect().write(0, &[2; 65536]);
    daemon.stop();
    (one, two)
}

fn reads(spec: &Spec, byte: u8) -> String {
    let daemon = spec.start();
    assert_eq!(daemon.connect().read(0, 65536), [byte; 65536]);
    let said = daemon.log();
    daemon.stop();
    said
}

#[test]
fn clean_blocks_are_dropped_when_another_cache_device_was_there() {
    need_kickcache!();
    for mode in MODES {
        let scratch = Scratch::new();
        let one = spec(&scratch, mode);
        let two = with_cache(&one, "two");
        fill(one.start(), 1);
        fill(two.start(), 2);
        let said = reads(&one, 2);
        assert!(said.contains("was served with the cache device") && said.contains("dropped"), "{said}");
        fill(one.start(), 3);
        reads(&two, 3);
        let daemon = two.start();
        daemon.connect().write(0, &[4; 65536]);
        daemon.connect().flush();
        daemon.drain();
        daemon.kill();
        tools::run("flock", ["-w", "20", two.cache.to_str().unwrap(), "true"]);
        if mode != "write-back" {
            reads(&one, 4);
        } else {
            let said = refused("one that may be dirty elsewhere", &one.arguments());
            assert!(said.contains("--new-cache"), "{said}");
            tools::run(KICKCACHE, ["drain", "--cache", two.cache.to_str().unwrap()]);
            reads(&one, 4);
        }
    }
}

#[test]
fn clean_blocks_are_dropped_when_no_cache_device_was_there() {
    need_kickcache!();
    for mode in MODES {
        let scratch = Scratch::new();
        let one = spec(&scratch, mode);
        fill(one.start(), 1);
        // The device was drained and stopped cleanly: no data is lost without it.
        let kept = scratch.path("kept");
        fs::rename(&one.cache, &kept).unwrap();
        let without = and(&one, &["--without-cache"]);
        let daemon = without.start();
        assert!(daemon.log().contains("the state directory records it"), "{}", daemon.log());
        daemon.connect().write(0, &[2; 65536]);
        daemon.stop();
        assert!(!one.cache.exists(), "a cache was made");
        fs::rename(&kept, &one.cache).unwrap();
        let said = reads(&one, 2);
        assert!(said.contains("was served without"), "{said}");
        let two = with_cache(&one, "two");
        tools::run(KICKCACHE, ["format", two.cache.to_str().unwrap(), "--size", "8M"]);
        fill(one.start(), 3);
        let daemon = and(&two, &["--without-cache"]).start();
        daemon.connect().write(0, &[4; 65536]);
        daemon.stop();
        reads(&one, 4);
    }
}

#[test]
fn a_cache_device_that_is_gone_again_leaves_its_trace() {
    need_kickcache!();
    for what in ["detach", "format", "drain"] {
        let scratch = Scratch::new();
        let (one, two) = one_clean_and_one_dirty(&scratch);
        let cache = two.cache.to_str().unwrap();
        tools::run(KICKCACHE, ["drain", "--cache", cache]);
        match what {
            "detach" => tools::run(KICKCACHE, ["detach", cache, VOLUME]),
            "format" => tools::run(KICKCACHE, ["format", cache, "--force"]),
            _ => String::new(),
        };
        reads(&one, 2);
    }
}

/// 16 clean blocks of ones, and 4 dirty blocks of ones behind them; since then all blocks were written with
/// twos.
fn overtaken(scratch: &Scratch) -> (Spec, Spec) {
    let one = spec(scratch, "write-back");
    fill(one.start(), 1);
    let daemon = one.start();
    let mut client = daemon.connect();
    client.write(16 * 4096, &[1; 4 * BLOCK]);
    client.flush();
    drop(client);
    daemon.stop();
    let two = with_cache(&one, "two");
    let daemon = and(&two, &["--new-cache"]).start();
    let mut client = daemon.connect();
    client.write(0, &[2; 32 * BLOCK]);
    client.flush();
    drop(client);
    daemon.drain();
    daemon.stop();
    (one, two)
}

#[test]
fn dirty_blocks_that_are_older_than_the_origin_are_refused() {
    need_kickcache!();
    let scratch = Scratch::new();
    let (one, two) = overtaken(&scratch);
    let cache = one.cache.to_str().unwrap();
    let drain: Vec<OsString> = ["drain", VOLUME, "--cache", cache].map(Into::into).to_vec();
    for arguments in [one.arguments(), and(&one, &["--new-cache"]).arguments(), drain] {
        let said = unchanged("older blocks", &[&one.origin, &one.cache, &two.cache], || {
            refused("older blocks", &arguments)
        });
        for part in ["4 dirty blocks", "65536 + 16384", "--accept-older", "--lose-dirty", "two"] {
            assert!(said.contains(part), "{arguments:?}: no `{part}`: {said}");
        }
    }
    reads(&two, 2);
    let said = reads(&and(&one, &["--lose-dirty"]), 2);
    assert!(said.contains("4 dirty blocks (byte offset + length: 65536 + 16384) of v are LOST"), "{said}");
    assert_eq!(fs::read(&one.origin).unwrap()[..32 * BLOCK], [2; 32 * BLOCK]);
    reads(&one, 2);
    reads(&two, 2);
}

#[test]
fn only_older_blocks_are_written_back_by_order() {
    need_kickcache!();
    let scratch = Scratch::new();
    let (one, two) = overtaken(&scratch);
    let record = || fs::read_to_string(note("origin-")).unwrap();
    assert!(record().contains("\"written_without\": false"), "{}", record());
    tools::run(KICKCACHE, ["drain", "--cache", one.cache.to_str().unwrap(), "--accept-older"]);
    // The other device does not have these writes.
    assert!(record().contains("\"written_without\": true"), "{}", record());
    let mut expected = vec![2; 32 * BLOCK];
    expected[16 * BLOCK..20 * BLOCK].fill(1);
    assert!(fs::read(&one.origin).unwrap()[..32 * BLOCK] == expected);
    for spec in [&two, &one, &two] {
        let daemon = spec.start();
        assert!(daemon.connect().read(0, 32 * 4096) == expected, "old blocks are served");
        daemon.stop();
    }
}

#[test]
fn dirty_blocks_survive_the_use_of_another_cache_device() {
    need_kickcache!();
    let scratch = Scratch::new();
    let (one, two) = one_clean_and_one_dirty(&scratch);
    // The first device has no dirty blocks.
    let without = and(&one, &["--without-cache"]);
    let said = unchanged("leaving the wrong one", &[&one.origin, &one.cache], || {
        refused("leaving the wrong one", &without.arguments())
    });
    assert!(said.contains("two") && said.contains("--lose-dirty"), "{said}");
    reads(&two, 2);
}

/// Two volumes on one cache device, one of them with older dirty blocks.
#[test]
fn a_neighbour_of_older_blocks_is_served() {
    need_kickcache!();
    let scratch = Scratch::new();
    let one = Spec::new(&scratch, &scratch.sparse("one", 8 * MIB), "write-back", "8M");
    scratch.sparse("two", 8 * MIB);
    let socket = |name: &str| scratch.path(&format!("{name}.sock"));
    let mut config = format!(
        "control = \"{}\"\n[[cache]]\ndevice = \"{}\"\nsize = \"8M\"\n",
        one.control().display(),
        one.cache.display()
    );
    for name in ["one", "two"] {
        config +=
            &format!("[[cache.volume]]\nname = \"{name}\"\nmode = \"write-back\"\nidle-after = \"24h\"\n");
        config += &format!("origin = \"{}\"\n", scratch.path(name).display());
        config += &format!("nbd = [\"unix:{}\"]\n", socket(name).display());
    }
    fs::write(scratch.path("config.toml"), config).unwrap();
    let start = |sockets: &[PathBuf]| {
        let arguments = vec!["serve".into(), "--config".into(), scratch.path("config.toml").into()];
        Daemon::start(guarded(KICKCACHE, arguments), one.clone(), sockets)
    };
    let daemon = start(&[socket("one"), socket("two")]);
    for name in ["one", "two"] {
        Client::connect(&socket(name), name).unwrap().write(MIB, &[5; 65536]);
    }
    daemon.stop();
    let other = and(&with_cache(&one, "other"), &["--new-cache"]);
    let daemon = other.start();
    daemon.connect().write(MIB, &[6; 65536]);
    daemon.drain();
    daemon.stop();
    let daemon = start(&[socket("two")]);
    assert!(daemon.log().contains("volume one is not served"), "{}", daemon.log());
    assert!(!socket("one").exists());
    assert_eq!(Client::connect(&socket("two"), "two").unwrap().read(MIB, 65536), [5; 65536]);
    daemon.stop();
    fs::write(note("origin-one"), "").unwrap();
    let daemon = start(&[socket("two")]);
    assert!(daemon.log().contains("volume one is not served: it is unknown"), "{}", daemon.log());
    assert!(!socket("one").exists());
    daemon.stop();
}
