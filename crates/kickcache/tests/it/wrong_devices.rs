//! Devices that are wrong, changed or unusable.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::bad_input::{Loop, refused, unchanged};
use crate::daemon::{Daemon, KICKCACHE, Spec};
use crate::scratch::{MIB, Scratch};
use crate::tmpfs::Tmpfs;
use crate::{need_kickcache, skip, tools};

const SIZE: u64 = 16 * MIB;

fn spec(scratch: &Scratch) -> Spec {
    Spec::new(scratch, &scratch.random("origin", SIZE, 1), "write-back", "16M")
}

/// A cache device with dirty blocks, and a new origin.
fn old_cache(scratch: &Scratch) -> Spec {
    let used = spec(scratch);
    let daemon = used.start();
    daemon.connect().write(0, &[7; 65536]);
    daemon.stop()
}

#[test]
fn a_cache_device_is_no_origin() {
    need_kickcache!();
    let scratch = Scratch::new();
    let used = old_cache(&scratch);
    swapped(&used);
    let image = fs::read(&used.cache).unwrap();
    // A single superblock copy is enough to identify a cache device.
    for damaged in [None, Some(0), Some(512 << 10)] {
        let mut bytes = image.clone();
        if let Some(at) = damaged {
            bytes[at..at + 4096].fill(0);
        }
        fs::write(&used.cache, bytes).unwrap();
        let wrong = Spec { origin: used.cache.clone(), cache: scratch.path("new"), ..used.clone() };
        let said =
            unchanged("an old cache", &[&used.cache], || refused("a cache as origin", &wrong.arguments()));
        assert!(said.contains("is a kickcache cache device") && said.contains("--force-origin"), "{said}");
        assert!(!wrong.cache.exists(), "a cache was made for nothing");
    }
    let mut forced = Spec { origin: used.cache.clone(), cache: scratch.path("new"), ..used };
    forced.extra.push("--force-origin".into());
    forced.start().stop();
}

/// A thin disk with only unwritten blocks reads as zeroes.
#[test]
fn a_blank_origin_that_is_known_becomes_no_cache_device() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("thin", SIZE);
    let used = Spec::new(&scratch, &origin, "write-back", "16M");
    let daemon = used.start();
    daemon.connect().write(0, &[7; 4096]);
    let used = daemon.stop();
    assert!(fs::read(&origin).unwrap().iter().all(|byte| *byte == 0), "it was written back");
    let format = |more: &[&str]| {
        let mut arguments: Vec<OsString> = vec!["format".into(), origin.clone().into()];
        arguments.extend(more.iter().map(Into::into));
        arguments
    };
    let other = Spec { cache: origin.clone(), origin: scratch.random("other", SIZE, 2), ..used };
    for arguments in [format(&[]), other.arguments()] {
        let said = unchanged("a known origin", &[&origin], || refused("a known origin", &arguments));
        assert!(said.contains("recorded as the origin of") && said.contains("format --force"), "{said}");
    }
    assert!(tools::run(KICKCACHE, format(&["--force"])).contains("a cache of"));
}

/// Two names that differ in a byte of Latin-1 would be one identity.
#[test]
fn paths_that_are_not_utf8_are_refused_by_every_command() {
    need_kickcache!();
    let scratch = Scratch::new();
    let used = old_cache(&scratch);
    let odd = |name: &str| {
        scratch.path("x").with_file_name(OsString::from_vec([&b"m\xfc"[..], name.as_bytes()].concat()))
    };
    let (folder, link) = (odd("folder"), scratch.path("link"));
    fs::create_dir(&folder).unwrap();
    symlink(&folder, &link).unwrap();
    let (cache, origin) = (odd("cache"), odd("origin"));
    fs::copy(&used.origin, &origin).unwrap();
    fs::copy(&used.origin, folder.join("origin")).unwrap();
    let words = |words: &[&str]| words.iter().map(Into::into).collect::<Vec<OsString>>();
    let with = |first: &[&str], path: PathBuf| [words(first), vec![path.into()]].concat();
    let of_cache = ["--cache", used.cache.to_str().unwrap()];
    let remote = format!("nbd+unix:///v?socket={}/nbd.sock", link.display());
    let mut odd_remote = OsString::from("nbd+unix:///v?socket=");
    odd_remote.push(odd("sock"));
    let serve = |cache: &Path, origin: &Path| {
        Spec { cache: cache.into(), origin: origin.into(), ..used.clone() }.arguments()
    };
    let new = scratch.path("new");
    let cases = [
        serve(&cache, &used.origin),
        serve(&link.join("cache"), &used.origin),
        serve(&new, &origin),
        serve(&new, &link.join("origin")),
        serve(&new, Path::new(&remote)),
        serve(&new, Path::new(&odd_remote)),
        with(&["format", "--size", "16M"], cache.clone()),
        with(&["format", "--size", "16M"], link.join("cache")),
        with(&["inspect"], cache.clone()),
        with(&[&["drain"][..], &of_cache, &["--origin-moved", "--origin"]].concat(), origin.clone()),
        with(&[&["drain"][..], &of_cache, &["--origin-moved", "--origin"]].concat(), link.join("origin")),
        with(&[&["add"][..], &of_cache, &["--origin"]].concat(), origin.clone()),
        with(&["trace", "info"], odd("trace")),
    ];
    for arguments in cases {
        let said = unchanged("a path in Latin-1", &[&used.cache, &origin, &folder.join("origin")], || {
            refused("a path in Latin-1", &arguments)
        });
        assert!(said.contains("m\\xFC") && said.contains("is not UTF-8"), "{arguments:?}: {said}");
    }
    assert!([&cache, &new, &folder.join("cache")].iter().all(|path| !path.exists()), "a cache was made");
}

/// Puts another file in the place of an origin, as a restore with `mv`; returns the new path of the first
/// one.
fn replace(scratch: &Scratch, spec: &Spec) -> PathBuf {
    let (was, restored) = (scratch.path("was"), scratch.random("restored", SIZE, 9));
    fs::rename(&spec.origin, &was).unwrap();
    fs::rename(restored, &spec.origin).unwrap();
    was
}

#[test]
fn a_replaced_origin_is_not_written_over() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = old_cache(&scratch);
    let was = replace(&scratch, &spec);
    let drain = ["drain", "--cache", spec.cache.to_str().unwrap()];
    let drain: Vec<OsString> = drain.map(Into::into).to_vec();
    for arguments in [spec.arguments(), drain.clone()] {
        let said = unchanged("a replaced origin", &[&spec.origin, &spec.cache], || {
            refused("a replaced origin", &arguments)
        });
        assert!(said.contains("was replaced") && said.contains("16 dirty blocks"), "{said}");
        assert!(said.contains("--origin-moved=v") && said.contains("--lose-dirty=v"), "{said}");
    }
    // A rename changes the ctime of a file.
    fs::rename(&was, &spec.origin).unwrap();
    let said = refused("an origin with another ctime", &spec.arguments());
    assert!(said.contains("changed while it was not served") && said.contains("--origin-moved=v"), "{said}");
    confirmed(&spec).start().stop();
    spec.start().stop();
    fs::copy(&spec.origin, scratch.path("copy")).unwrap();
    fs::rename(scratch.path("copy"), &spec.origin).unwrap();
    refused("a copy", &spec.arguments());
    let moved = Spec { extra: vec!["--origin-moved".into()], ..spec.clone() };
    let daemon = moved.start();
    assert_eq!(daemon.connect().read(0, 65536), [7; 65536]);
    daemon.stop();
    spec.start().stop();
    replace(&scratch, &spec);
    refused("a replaced origin", &drain);
    tools::run(KICKCACHE, [drain, vec!["--origin-moved".into()]].concat());
    assert!(fs::read(&spec.origin).unwrap().starts_with(&[7; 65536]));
}

fn confirmed(spec: &Spec) -> Spec {
    Spec { extra: vec!["--origin-is".into(), spec.origin.clone().into()], ..spec.clone() }
}

#[test]
fn loop_devices_that_exchange_names_are_refused() {
    need_kickcache!();
    let scratch = Scratch::new();
    let files = [scratch.random("a", SIZE, 1), scratch.random("b", SIZE, 2)];
    // Numbers that `losetup -f` does not give to other tests.
    let first = 250 + 2 * (std::process::id() % 64);
    let paths = [first, first + 1].map(|number| PathBuf::from(format!("/dev/loop{number}")));
    let attach = |order: [usize; 2]| -> Result<Vec<Loop>, String> {
        order.iter().zip(&paths).map(|(file, device)| Loop::at(device, &files[*file])).collect()
    };
    let devices = match attach([0, 1]) {
        Ok(devices) => devices,
        Err(why) => skip!("{why}"),
    };
    let origin = paths[0].clone();
    let spec = Spec::new(&scratch, &origin, "write-back", "16M");
    let daemon = spec.start();
    daemon.connect().write(0, &[7; 65536]);
    let spec = daemon.stop();
    drop(devices);
    let _devices = attach([1, 0]).unwrap();
    let drain = ["drain", "--cache", spec.cache.to_str().unwrap(), "--origin", origin.to_str().unwrap()];
    for arguments in [spec.arguments(), drain.map(Into::into).to_vec()] {
        let said = unchanged("another disk", &[&files[0], &files[1]], || refused("another disk", &arguments));
        let identity = format!("loop:0:{}", files[1].display());
        assert!(said.contains(&identity) && said.contains("--origin-moved"), "{said}");
    }
    // The disk is found by its identity under its new name.
    tools::run(KICKCACHE, ["drain", "--cache", spec.cache.to_str().unwrap()]);
    assert!(fs::read(&files[0]).unwrap().starts_with(&[7; 65536]));
    let spec = Spec { origin: paths[1].clone(), ..spec };
    let daemon = spec.start();
    assert_eq!(daemon.connect().read(0, 65536), [7; 65536]);
    daemon.stop();
}

/// A cache device with clean blocks of its origin.
fn clean_cache(scratch: &Scratch) -> Daemon {
    let daemon = Spec { mode: "write-through", ..spec(scratch) }.start();
    read_in(&daemon);
    daemon
}

fn change(spec: &Spec) -> Vec<u8> {
    let bytes = vec![9; usize::try_from(SIZE).unwrap()];
    fs::write(&spec.origin, &bytes).unwrap();
    bytes
}

#[test]
fn clean_blocks_of_an_origin_that_was_changed_are_dropped() {
    need_kickcache!();
    for end in ["a stop", "a kill"] {
        let scratch = Scratch::new();
        let daemon = clean_cache(&scratch);
        let spec = if end == "a kill" { daemon.kill() } else { daemon.stop() };
        let bytes = change(&spec);
        let daemon = spec.start();
        assert!(daemon.log().contains("changed while it was not served"), "{end}: {}", daemon.log());
        assert_eq!(daemon.connect().read(0, 65536), bytes[..65536], "{end}");
        let daemon = daemon.kill().start();
        assert_eq!(daemon.connect().read(0, 65536), bytes[..65536], "{end}");
        daemon.stop();
    }
}

#[test]
fn an_origin_that_was_not_changed_keeps_its_cached_blocks() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = clean_cache(&scratch).stop().start();
    assert!(daemon.volume_count("cached_bytes") >= 65536, "{}", daemon.log());
    assert!(!daemon.log().contains("was changed"), "{}", daemon.log());
    let daemon = daemon.kill().start();
    assert!(daemon.volume_count("cached_bytes") >= 65536, "{}", daemon.log());
    assert!(daemon.log().contains("it is unknown whether the origin of v was changed"), "{}", daemon.log());
    daemon.stop();
}

#[test]
fn dirty_blocks_are_not_written_over_a_changed_origin() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = old_cache(&scratch);
    let origin = spec.origin.to_str().unwrap();
    let times = tools::run("stat", ["-c", "%y", origin]);
    change(&spec);
    // A program that restores the time of a file cannot restore its ctime.
    tools::run("touch", ["-d", times.trim(), origin]);
    let drain = ["drain", "--cache", spec.cache.to_str().unwrap()].map(Into::into).to_vec();
    for arguments in [spec.arguments(), drain] {
        let said = unchanged("a changed origin", &[&spec.origin], || refused("a changed origin", &arguments));
        assert!(
            said.contains("changed while it was not served") && said.contains("16 dirty blocks"),
            "{said}"
        );
        assert!(said.contains("--origin-moved=v") && said.contains("--lose-dirty=v"), "{said}");
    }
    let daemon = confirmed(&spec).start();
    assert_eq!(daemon.connect().read(0, 65536), [7; 65536]);
    daemon.stop();
}

#[test]
fn dirty_blocks_reach_a_changed_origin_only_by_order() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = spec(&scratch).start();
    read_in(&daemon);
    daemon.connect().write(MIB, &[7; 65536]);
    let spec = daemon.kill();
    let mut bytes = change(&spec);
    let drain = ["drain", "--cache", spec.cache.to_str().unwrap()].map(Into::into).to_vec();
    for arguments in [spec.arguments(), spec.arguments(), drain.clone()] {
        let said = unchanged("a changed origin", &[&spec.origin], || refused("a changed origin", &arguments));
        assert!(
            said.contains("changed while it was not served") && said.contains("16 dirty blocks"),
            "{said}"
        );
        assert!(said.contains("--accept-older"), "{said}");
    }
    tools::run(KICKCACHE, [drain, vec!["--accept-older".into()]].concat());
    let at = usize::try_from(MIB).unwrap();
    bytes[at..at + 65536].fill(7);
    assert!(fs::read(&spec.origin).unwrap() == bytes);
    let daemon = spec.start();
    assert_eq!(daemon.connect().read(0, 65536), bytes[..65536], "the clean blocks are stale");
    daemon.stop();
}

/// A client is answered before the blocks are written to the cache, and a busy cache device may leave some
/// out.
fn read_in(daemon: &Daemon) {
    let start = Instant::now();
    while daemon.volume_count("cached_bytes") < 65536 {
        daemon.connect().read(0, 65536);
        assert!(start.elapsed() < Duration::from_secs(60), "{}", daemon.status());
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_clean_blocks_of_a_replaced_origin_are_not_served() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = spec(&scratch);
    let daemon = spec.start();
    read_in(&daemon);
    daemon.stop();
    replace(&scratch, &spec);
    let moved = Spec { extra: vec!["--origin-moved".into()], ..spec.clone() };
    let daemon = spec.start();
    assert!(daemon.log().contains("was replaced"), "{}", daemon.log());
    let restored = fs::read(&spec.origin).unwrap();
    assert!(daemon.connect().read(0, 65536) == restored[..65536], "the cache has the old one");
    read_in(&daemon);
    daemon.stop();
    replace(&scratch, &spec);
    let daemon = moved.start();
    assert!(daemon.volume_count("cached_bytes") >= 65536, "the user said that it is the same");
    daemon.stop();
}

#[test]
fn a_cache_device_without_superblocks_is_kept_if_maybe_dirty() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = old_cache(&scratch);
    let cache = spec.cache.to_str().unwrap();
    let format: Vec<OsString> = ["format", cache].map(Into::into).to_vec();
    let said = unchanged("a dirty cache device", &[&spec.cache], || refused("dirty", &format));
    assert!(said.contains("64 KiB of v") && said.contains("kickcache drain v --cache"), "{said}");
    let mut bytes = fs::read(&spec.cache).unwrap();
    for at in [0, 512 << 10] {
        bytes[at..at + 4096].fill(0x5a);
    }
    fs::write(&spec.cache, bytes).unwrap();
    let tool = |words: &[&str]| words.iter().map(Into::into).collect::<Vec<OsString>>();
    let (check, inspect) = (tool(&["check", cache]), tool(&["inspect", cache]));
    for arguments in [spec.arguments(), format, check, inspect, tool(&["drain", "--cache", cache])] {
        let said = unchanged("torn superblocks", &[&spec.cache], || refused("torn superblocks", &arguments));
        let at = |words: &str| said.find(words).unwrap_or_else(|| panic!("no `{words}`: {said}"));
        assert!(at("the origins of v lack") < at("keep it"), "{said}");
        assert!(at("keep it") < at("format --force") && said.contains("destroys them"), "{said}");
    }
}

#[test]
fn a_damaged_superblock_copy_is_rewritten_and_reported_once() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = old_cache(&scratch);
    for (at, copy) in [(0, "first"), (512 << 10, "second")] {
        let mut bytes = fs::read(&spec.cache).unwrap();
        bytes[at + 200] ^= 1;
        fs::write(&spec.cache, bytes).unwrap();
        fs::remove_file(spec.dir.join("daemon.log")).unwrap();
        let told = format!("the {copy} copy of the superblock of");
        for count in [1, 1] {
            let daemon = spec.start();
            let log = daemon.log();
            assert_eq!(log.matches(&told).count(), count, "{log}");
            assert_eq!(log.matches("was restored from the other copy").count(), count, "{log}");
            daemon.stop();
        }
    }
}

fn swapped(used: &Spec) {
    let swapped = Spec { origin: used.cache.clone(), cache: used.origin.clone(), ..used.clone() };
    let said = unchanged("a swapped pair", &[&used.cache, &used.origin], || {
        refused("a swapped pair", &swapped.arguments())
    });
    assert!(said.contains("swapped"), "{said}");
}

#[test]
fn a_guest_may_write_a_superblock_into_its_own_disk() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = spec(&scratch);
    let other = Scratch::new();
    let bytes = fs::read(&old_cache(&other).cache).unwrap();
    let daemon = spec.start();
    daemon.connect().write(0, &bytes[..16384]);
    daemon.drain();
    let daemon = daemon.stop().start();
    assert!(daemon.log().contains("looks like a kickcache cache device"), "{}", daemon.log());
    daemon.stop();
}

#[test]
fn an_offline_drain_takes_no_cache_device_for_the_origin() {
    need_kickcache!();
    let scratch = Scratch::new();
    let used = old_cache(&scratch);
    let other = Scratch::new();
    let wrong = old_cache(&other).cache;
    let arguments: Vec<OsString> = ["drain", "v", "--cache"]
        .map(OsString::from)
        .into_iter()
        .chain([used.cache.clone().into(), "--origin".into(), wrong.clone().into(), "--origin-moved".into()])
        .collect();
    let said = unchanged("another cache", &[&wrong], || refused("a drain into a cache", &arguments));
    assert!(said.contains("is a kickcache cache device"), "{said}");
}

#[test]
fn a_mistyped_device_makes_no_file() {
    need_kickcache!();
    let scratch = Scratch::new();
    let missing = "/dev/loop987";
    let spec = Spec { cache: missing.into(), ..spec(&scratch) };
    let said = refused("a mistyped device", &spec.arguments());
    assert!(said.contains("no file can be created below /dev"), "{said}");
    if Path::new("/dev/loop0").exists() {
        assert!(said.contains("did you mean /dev/loop"), "{said}");
    }
    for path in [missing, "/proc/x", "/sys/x"] {
        let format = ["format", path, "--size", "16M"].map(OsString::from);
        let said = refused("formatting a mistyped device", &format);
        assert!(said.contains("no file can be created below"), "{said}");
        assert!(!Path::new(path).exists(), "{path} was made");
    }
}

#[test]
fn shared_memory_is_a_place_for_a_cache() {
    need_kickcache!();
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { skip!("no /dev/shm") };
    let cache = folder.path().join("cache");
    tools::run(KICKCACHE, ["format".as_ref(), cache.as_os_str(), "--size".as_ref(), "16M".as_ref()]);
}

#[test]
fn a_read_only_block_device_is_refused() {
    need_kickcache!();
    let scratch = Scratch::new();
    let device = match Loop::with(&scratch.sparse("file", SIZE), &["-r"]) {
        Ok(device) => device,
        Err(why) => skip!("{why}"),
    };
    let origin = Spec { origin: device.path(), ..spec(&scratch) };
    let said = refused("a read-only origin", &origin.arguments());
    assert!(said.contains("read-only"), "{said}");
    assert!(!origin.cache.exists(), "a cache was made for nothing");
    let cache = Spec { cache: device.path(), ..spec(&scratch) };
    let said = refused("a read-only cache", &cache.arguments());
    assert!(said.contains("read-only"), "{said}");
    let mut readable = origin;
    readable.extra.push("--read-only".into());
    readable.start().stop();
}

#[test]
fn a_blank_sparse_cache_file_gets_all_of_its_blocks() {
    need_kickcache!();
    let scratch = Scratch::new();
    let allocated = |path: &Path| fs::metadata(path).unwrap().blocks() * 512;
    let mut served = spec(&scratch);
    served.cache = scratch.sparse("served", SIZE);
    served.start().stop();
    assert!(allocated(&served.cache) >= SIZE, "{} bytes", allocated(&served.cache));
    let formatted = scratch.sparse("formatted", SIZE);
    tools::run(KICKCACHE, ["format".as_ref(), formatted.as_os_str()]);
    assert!(allocated(&formatted) >= SIZE, "{} bytes", allocated(&formatted));
}

#[test]
fn a_cache_file_that_does_not_fit_is_refused() {
    need_kickcache!();
    let scratch = Scratch::new();
    let mount = match Tmpfs::new(&scratch, "24M") {
        Ok(mount) => mount,
        Err(why) => skip!("{why}"),
    };
    let spec = Spec { cache: mount.place.join("cache"), cache_size: "32M", ..spec(&scratch) };
    let said = refused("a cache file that is too large", &spec.arguments());
    assert!(said.contains("room for"), "{said}");
    assert!(!spec.cache.exists(), "it was left behind");
    let sparse = File::create(&spec.cache).unwrap();
    sparse.set_len(32 * MIB).unwrap();
    for arguments in [spec.arguments(), vec!["format".into(), spec.cache.clone().into()]] {
        let said = refused("a sparse cache file that is too large", &arguments);
        assert!(said.contains("room for"), "{said}");
        let found = fs::metadata(&spec.cache).unwrap();
        assert_eq!((found.len(), found.blocks()), (32 * MIB, 0), "it is not as it was");
    }
}

#[test]
fn a_failed_command_leaves_no_files() {
    need_kickcache!();
    let scratch = Scratch::new();
    let good = spec(&scratch);
    let folder = scratch.path("new folder");
    let control = ["--control".into(), folder.join("control.sock").into_os_string()];
    let missing = Spec { origin: scratch.path("missing"), ..good.clone() };
    let no_folder = Spec { dir: scratch.path("no folder"), ..good.clone() };
    let odd = Spec { origin: scratch.sparse("odd", 1000), ..good.clone() };
    let wanted = ["No such file", "there is no folder", "has 1000 bytes"];
    for (wrong, wanted) in [missing, no_folder, odd].iter().zip(wanted) {
        let mut arguments = wrong.arguments();
        let place = arguments.iter().position(|argument| argument == "--control").unwrap();
        arguments.splice(place..place + 2, control.clone());
        for blank in [None, Some(0), Some(SIZE)] {
            if let Some(size) = blank {
                scratch.sparse("cache", size);
            }
            let said = refused(wanted, &arguments);
            assert!(said.contains(wanted), "{said}");
            let found = fs::read(&good.cache).ok();
            let expected = blank.map(|size| vec![0; usize::try_from(size).unwrap()]);
            assert!(found == expected, "the cache file is not as it was: {wanted}");
            assert!(!folder.exists(), "the folder of the control socket stayed");
            let _ = fs::remove_file(&good.cache);
        }
    }
}

#[test]
fn a_device_that_is_no_cache_is_described_in_words() {
    need_kickcache!();
    let scratch = Scratch::new();
    let place = |name: &str, content: &[u8], size: u64| {
        let path = scratch.sparse(name, size);
        std::os::unix::fs::FileExt::write_all_at(
            &File::options().write(true).open(&path).unwrap(),
            content,
            0,
        )
        .unwrap();
        path
    };
    let six = place("six", b"123456", 6);
    let text = place("text", &b"to do: buy a disk\n".repeat(1000), SIZE);
    let mut ext4 = vec![0; 4096];
    ext4[1080..1082].copy_from_slice(b"\x53\xef");
    let ext4 = place("ext4", &ext4, SIZE);
    for (path, wanted) in [(&six, "has 6 bytes"), (&text, "holds text"), (&ext4, "ext4 file system")] {
        let serve = Spec { cache: path.clone(), ..spec(&scratch) }.arguments();
        let format = vec!["format".into(), path.clone().into()];
        let check = vec!["check".into(), path.clone().into()];
        for arguments in [serve, format, check] {
            let said = unchanged(wanted, &[path], || refused(wanted, &arguments));
            assert!(said.contains(wanted), "{arguments:?}: {said}");
        }
    }
    let used = old_cache(&scratch);
    let said = refused("a cache twice", &["format".into(), used.cache.clone().into()]);
    assert!(said.contains("is a kickcache cache device") && said.contains("--force"), "{said}");
    let resized = Spec { cache_size: "32M", ..used.clone() };
    let daemon = resized.start();
    assert!(daemon.log().contains("keeps them: --size 33554432"), "{}", daemon.log());
    daemon.stop();
    let mut arguments = used.arguments();
    let at = arguments.iter().position(|argument| argument == "--control").unwrap();
    arguments[at + 1] = text.join("control.sock").into();
    let said = refused("a file as folder of the control socket", &arguments);
    assert!(said.contains("is no folder"), "{said}");
}

#[test]
fn modes_have_the_names_that_people_use() {
    need_kickcache!();
    let scratch = Scratch::new();
    for (name, mode) in [("wb", "write-back"), ("writethrough", "write-through"), ("wa", "write-around")] {
        let spec = Spec { mode: name, ..spec(&scratch) };
        let daemon = spec.start();
        assert_eq!(daemon.status()["caches"][0]["volumes"][0]["mode"], mode);
        daemon.stop();
        fs::remove_file(&spec.cache).unwrap();
    }
}
