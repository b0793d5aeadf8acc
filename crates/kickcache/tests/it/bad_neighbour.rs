//! A start with several volumes, one of them with a bad origin or a bad cache device.

use std::fs::{self, File};
use std::path::Path;

use crate::bad_input::refused;
use crate::daemon::KICKCACHE;
use crate::pair::{NAMES, Pair};
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, need_kickcache, tools};

fn served_before(scratch: &Scratch, mode: &'static str) -> Pair {
    let pair = Pair::new(scratch, mode);
    write_to_both(&pair);
    pair
}

fn write_to_both(pair: &Pair) {
    let daemon = pair.start(&[], &NAMES);
    pair.client("one").write(MIB, &[7; 65536]);
    pair.client("two").write(0, &[1; 4096]);
    daemon.stop();
}

/// `two` is served and `one` is not, with these words in the sentence.
fn one_is_left(pair: &Pair, words: &[&str]) {
    one_is_left_until(pair, words, || ());
}

/// The daemon stops after `mended`.
fn one_is_left_until(pair: &Pair, words: &[&str], mended: impl FnOnce()) {
    let daemon = pair.start(&[], &["two"]);
    let mut client = pair.client("two");
    client.write(0, &[2; 4096]);
    assert_eq!(client.read(0, 4096), [2; 4096]);
    drop(client);
    let status = daemon.status();
    let unserved = status["unserved"].as_array().unwrap();
    assert!(unserved.len() == 1 && unserved[0]["name"] == "one", "{status}");
    let (why, log) = (unserved[0]["why"].as_str().unwrap(), daemon.log());
    for word in words {
        assert!(why.contains(word), "no `{word}`: {why}");
    }
    assert!(log.contains(&format!("volume one is not served: {why}")), "{log}");
    assert!(daemon.control(&["status"]).contains("one: not served: "));
    mended();
    daemon.stop();
}

fn both_are_back(pair: &Pair, flags: &[&str]) {
    let daemon = pair.start(flags, &NAMES);
    assert_eq!(pair.client("one").read(MIB, 65536), [7; 65536]);
    assert_eq!(pair.client("two").read(0, 4096), [2; 4096]);
    daemon.stop();
}

fn set_size(path: &Path, size: u64) {
    File::options().write(true).open(path).unwrap().set_len(size).unwrap();
}

#[test]
fn a_missing_or_resized_origin_does_not_stop_neighbours() {
    need_kickcache!();
    for mode in ["write-back", "write-through"] {
        let scratch = Scratch::new();
        let pair = served_before(&scratch, mode);
        let (origin, away) = (pair.origin("one"), scratch.path("away"));
        fs::rename(&origin, &away).unwrap();
        let held = match mode {
            "write-back" => ["--lose-dirty", "loses 64 KiB that"],
            _ => ["kickcache detach", "none of its blocks"],
        };
        let path = origin.to_str().unwrap();
        one_is_left(&pair, &["cannot open", path, "put it back", "kickcache detach", held[0], held[1]]);
        fs::rename(&away, &origin).unwrap();
        for (size, word) in [(4 * MIB, "last served"), (12 * MIB, "--origin-grown"), (8 * MIB + 512, "4096")]
        {
            set_size(&origin, size);
            one_is_left(&pair, &[&size.to_string(), word]);
        }
        set_size(&origin, 8 * MIB);
        // A rename and another size have changed its times.
        both_are_back(&pair, &["--origin-moved=one"]);
    }
}

#[test]
fn a_locked_origin_does_not_stop_neighbours() {
    need_kickcache!();
    let scratch = Scratch::new();
    let pair = served_before(&scratch, "write-back");
    let held = File::open(pair.origin("one")).unwrap();
    held.lock().unwrap();
    one_is_left(&pair, &["in use by another process", pair.origin("one").to_str().unwrap()]);
    drop(held);
    both_are_back(&pair, &[]);
}

#[test]
fn an_unreadable_or_silent_origin_does_not_stop_neighbours() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 8 * MIB);
    let pair = Pair::new(&scratch, "write-back");
    let faulty = disks.spec(&scratch, "write-back").origin;
    fs::remove_file(pair.origin("one")).unwrap();
    std::os::unix::fs::symlink(&faulty, pair.origin("one")).unwrap();
    write_to_both(&pair);
    for (fault, words) in
        [("any eio", ["cannot be read", "origin"]), ("any hang", ["does not answer", "30 s"])]
    {
        disks.tell(&format!("fault origin {fault}"));
        // A process cannot end while a FUSE request of its own is not answered.
        one_is_left_until(&pair, &words, || _ = disks.tell("clear"));
    }
    both_are_back(&pair, &[]);
}

#[test]
fn a_read_only_volume_with_dirty_blocks_is_skipped() {
    need_kickcache!();
    let scratch = Scratch::new();
    let pair = served_before(&scratch, "write-back");
    let cache = format!("[[cache]]\ndevice = \"{}\"\nsize = \"8M\"\n", pair.spec.cache.display());
    let volumes = |one: &str| cache.clone() + &pair.volume("one") + one + &pair.volume("two");
    pair.configure(&volumes("read-only = true\n"));
    one_is_left(&pair, &["dirty blocks", "read-only"]);
    pair.configure(&volumes(""));
    both_are_back(&pair, &[]);
}

fn separate_caches(scratch: &Scratch, pair: &Pair) -> [String; 2] {
    NAMES.map(|name| {
        let device = scratch.path(&format!("cache of {name}"));
        format!("[[cache]]\ndevice = \"{}\"\nsize = \"8M\"\n{}", device.display(), pair.volume(name))
    })
}

#[test]
fn a_missing_or_wrong_cache_device_does_not_stop_others() {
    need_kickcache!();
    for order in [[0, 1], [1, 0]] {
        let scratch = Scratch::new();
        let pair = Pair::new(&scratch, "write-back");
        let caches = separate_caches(&scratch, &pair);
        pair.configure(&order.map(|at| caches[at].clone()).concat());
        write_to_both(&pair);
        let (device, away) = (scratch.path("cache of one"), scratch.path("away"));
        fs::rename(&device, &away).unwrap();
        one_is_left(&pair, &[device.to_str().unwrap()]);
        assert!(!device.exists(), "a cache device was made in place of a dirty one");
        let garbage = b"to do: buy a disk\n".repeat(600_000);
        fs::write(&device, &garbage).unwrap();
        one_is_left(&pair, &["cache device", "holds text", device.to_str().unwrap()]);
        assert!(fs::read(&device).unwrap() == garbage, "it was written to");
        fs::rename(&away, &device).unwrap();
        both_are_back(&pair, &[]);
    }
}

#[test]
fn a_mistyped_volume_ends_the_start_before_any_change() {
    need_kickcache!();
    let scratch = Scratch::new();
    let pair = Pair::new(&scratch, "write-back");
    fs::remove_file(pair.origin("two")).unwrap();
    let said = refused("a mistyped origin", &pair.arguments(&[]));
    assert!(said.contains("volume two: cannot open"), "{said}");
    assert!(!pair.spec.cache.exists(), "a cache device was made for a start that failed");
    scratch.sparse("two", 8 * MIB);
    write_to_both(&pair);
    // A third volume on the same cache device is new there.
    let cache = format!("[[cache]]\ndevice = \"{}\"\n", pair.spec.cache.display());
    let third = pair.volume("three");
    pair.configure(&(cache + &pair.volume("one") + &pair.volume("two") + &third));
    fs::rename(pair.origin("one"), scratch.path("away")).unwrap();
    let before = fs::read(&pair.spec.cache).unwrap();
    let said = refused("a mistyped origin of a new volume", &pair.arguments(&[]));
    assert!(said.contains("volume three: cannot open"), "{said}");
    assert!(fs::read(&pair.spec.cache).unwrap() == before);
    fs::rename(scratch.path("away"), pair.origin("one")).unwrap();
    scratch.sparse("three", 8 * MIB);
    let pair_of = format!("[[cache]]\ndevice = \"{}\"\n", pair.spec.cache.display());
    let typo = format!("[[cache]]\ndevice = \"{}\"\n{third}", scratch.path("typo").display());
    pair.configure(&(pair_of + &pair.volume("one") + &pair.volume("two") + &typo));
    let said = refused("a mistyped cache device", &pair.arguments(&[]));
    assert!(said.contains("typo") && said.contains("does not exist"), "{said}");
    assert!(fs::read(&pair.spec.cache).unwrap() == before);
}

#[test]
fn without_any_volume_the_start_ends_with_the_reason() {
    need_kickcache!();
    let scratch = Scratch::new();
    let pair = served_before(&scratch, "write-back");
    for name in NAMES {
        fs::rename(pair.origin(name), scratch.path(&format!("{name} away"))).unwrap();
    }
    let said = refused("no origin at all", &pair.arguments(&[]));
    assert!(said.contains("volume one is not served: cannot open"), "{said}");
    assert!(said.contains("volume two is not served: cannot open"), "{said}");
}

#[test]
fn dirty_blocks_of_a_skipped_volume_survive_a_full_cache() {
    need_kickcache!();
    let scratch = Scratch::new();
    let pair = Pair::new(&scratch, "write-back");
    let daemon = pair.start(&[], &NAMES);
    pair.client("one").write(MIB, &[7; 65536]);
    daemon.kill();
    fs::remove_file(pair.socket("one")).unwrap();
    let (origin, away) = (pair.origin("one"), scratch.path("away"));
    fs::rename(&origin, &away).unwrap();
    let daemon = pair.start(&[], &["two"]);
    let mut client = pair.client("two");
    for round in 0..4 {
        for at in 0..128_u64 {
            client.write(at * 65536, &vec![round; 65536]);
        }
    }
    client.write(0, &[2; 4096]);
    daemon.kill();
    fs::rename(&away, &origin).unwrap();
    both_are_back(&pair, &[]);
    tools::run(KICKCACHE, ["drain", "one", "--cache", pair.spec.cache.to_str().unwrap()]);
    assert_eq!(fs::read(&origin).unwrap()[1 << 20..(1 << 20) + 65536], [7; 65536]);
}

/// Each origin is opened more than once.
#[test]
fn an_origin_is_warned_about_once_with_several_caches() {
    need_kickcache!();
    for order in [[0, 1], [1, 0]] {
        let scratch = Scratch::new();
        let disks = faulty_disks!(&scratch, 8 * MIB, 8 * MIB);
        let pair = Pair::new(&scratch, "write-through");
        let (origin, faulty) = (pair.origin("one"), disks.spec(&scratch, "write-through").origin);
        fs::remove_file(&origin).unwrap();
        std::os::unix::fs::symlink(&faulty, &origin).unwrap();
        let caches = separate_caches(&scratch, &pair);
        pair.configure(&order.map(|at| caches[at].clone()).concat());
        disks.tell("fault origin flush eio");
        let daemon = pair.start(&["--origin-no-flush=one"], &NAMES);
        let log = daemon.log();
        disks.tell("clear");
        daemon.stop();
        assert_eq!(log.matches("cannot be flushed").count(), 1, "{log}");
        assert!(log.contains(&format!("the origin of one, {}", faulty.display())), "{log}");
    }
}
