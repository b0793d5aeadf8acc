//! A cache device that is missing when its volume is served again.

use std::fs::{self, File};
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value;

use crate::bad_input::{refused, unchanged};
use crate::daemon::{KICKCACHE, Spec, VOLUME};
use crate::need_kickcache;
use crate::pair::{NAMES, Pair};
use crate::scratch::{MIB, Scratch, state_dir};
use crate::tools;

const SIZE: u64 = 16 * MIB;

fn spec(scratch: &Scratch, mode: &'static str) -> Spec {
    Spec::new(scratch, &scratch.sparse("origin", SIZE), mode, "16M")
}

fn records(kind: &str) -> Vec<(PathBuf, Value)> {
    let mut found: Vec<_> = fs::read_dir(state_dir())
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(kind))
        .map(|path| (path.clone(), serde_json::from_slice(&fs::read(path).unwrap()).unwrap()))
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

fn may_be_dirty() -> bool {
    let found = records("origin-");
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].1["may_be_dirty"].as_bool().unwrap()
}

fn write(spec: &Spec) -> crate::daemon::Daemon {
    let daemon = spec.start();
    daemon.connect().write(MIB, &[7; 65536]);
    daemon
}

#[test]
fn a_missing_dirty_cache_is_not_created_again() {
    need_kickcache!();
    for ends_in_order in [true, false] {
        let scratch = Scratch::new();
        let spec = spec(&scratch, "write-back");
        let daemon = write(&spec);
        assert!(may_be_dirty(), "it must be noted before a write is acknowledged");
        if ends_in_order {
            daemon.stop()
        } else {
            daemon.kill()
        };
        let kept = scratch.path("kept");
        fs::rename(&spec.cache, &kept).unwrap();
        let said = unchanged("the origin", &[&spec.origin], || refused("a new cache", &spec.arguments()));
        assert!(said.contains("--new-cache") && said.contains("may hold blocks"), "{said}");
        assert!(said.contains("--without-cache with --lose-dirty=v serves the origin alone"), "{said}");
        assert!(!spec.cache.exists(), "a cache was made");
        let other = Spec { cache: scratch.path("other"), ..spec.clone() };
        assert!(refused("another cache", &other.arguments()).contains("--new-cache"));
        assert!(!other.cache.exists(), "a cache was made");
        let moved = Spec { cache: kept, ..spec.clone() };
        let daemon = moved.start();
        assert_eq!(daemon.connect().read(MIB, 4096), [7; 4096]);
        daemon.stop();
        let mut meant = spec;
        meant.extra.push("--new-cache".into());
        let daemon = meant.start();
        assert_eq!(daemon.connect().read(MIB, 4096), [0; 4096]);
        daemon.stop();
    }
}

#[test]
fn neighbours_miss_a_cache_in_an_unmounted_folder_too() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = spec(&scratch, "write-back");
    write(&spec).stop();
    fs::remove_file(&spec.cache).unwrap();
    let neighbour = Spec { origin: scratch.sparse("neighbour", SIZE), ..spec };
    let said = refused("a new cache in the old one's place", &neighbour.arguments());
    assert!(said.contains("--new-cache"), "{said}");
}

#[test]
fn a_clean_cache_is_not_missed() {
    need_kickcache!();
    let scratch = Scratch::new();
    let drained = spec(&scratch, "write-back");
    let daemon = write(&drained);
    daemon.drain();
    daemon.stop();
    assert!(!may_be_dirty());
    let through = Spec { mode: "write-through", ..drained };
    fs::remove_file(&through.cache).unwrap();
    let daemon = write(&through);
    assert!(!may_be_dirty());
    daemon.kill();
    tools::run("flock", ["-w", "20", through.cache.to_str().unwrap(), "true"]);
    fs::remove_file(&through.cache).unwrap();
    through.start().stop();
}

#[test]
fn a_switch_to_write_back_is_noted_first() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = spec(&scratch, "write-through");
    let daemon = spec.start();
    assert!(!may_be_dirty());
    daemon.control(&["mode", VOLUME, "write-back"]);
    assert!(may_be_dirty());
    daemon.kill();
    fs::remove_file(&spec.cache).unwrap();
    assert!(refused("a new cache", &spec.arguments()).contains("--new-cache"));
}

#[test]
fn commands_that_lose_or_write_back_dirty_blocks_come_last() {
    need_kickcache!();
    for what in ["drain", "detach", "format"] {
        let scratch = Scratch::new();
        let spec = spec(&scratch, "write-back");
        write(&spec).stop();
        assert!(may_be_dirty());
        let cache = spec.cache.to_str().unwrap();
        match what {
            "drain" => tools::run(KICKCACHE, ["drain", "--cache", cache]),
            "detach" => tools::run(KICKCACHE, ["detach", cache, VOLUME, "--lose-dirty"]),
            _ => tools::run(KICKCACHE, ["format", cache, "--force"]),
        };
        fs::remove_file(&spec.cache).unwrap();
        spec.start().stop();
    }
}

#[test]
fn no_mode_is_served_without_a_place_for_notes() {
    need_kickcache!();
    let scratch = Scratch::new();
    let file = scratch.random("file", 10, 1);
    for mode in ["write-back", "write-through", "bypass"] {
        for place in [file.join("x"), PathBuf::from("/proc/kickcache"), PathBuf::from("/dev/kickcache")] {
            let mut spec = spec(&scratch, mode);
            spec.extra = vec!["--state".into(), place.clone().into()];
            let said = refused("a start without notes", &spec.arguments());
            assert!(said.contains("--state") && said.contains(place.to_str().unwrap()), "{said}");
            assert!(!spec.cache.exists(), "a cache was made for nothing");
        }
    }
}

#[test]
fn write_back_does_not_begin_without_its_record() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = spec(&scratch, "write-through").start();
    let kept = scratch.path("kept");
    fs::rename(state_dir(), &kept).unwrap();
    fs::write(state_dir(), "no directory").unwrap();
    let control = daemon.spec.control();
    let arguments = ["mode", VOLUME, "write-back", "--control", control.to_str().unwrap()];
    for _ in 0..2 {
        let output = tools::output(KICKCACHE, arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("--state"), "{said}");
    }
    fs::remove_file(state_dir()).unwrap();
    fs::rename(&kept, state_dir()).unwrap();
    tools::run(KICKCACHE, arguments);
    assert!(may_be_dirty());
    daemon.stop();
}

#[test]
fn a_start_that_fails_leaves_the_notes_as_they_were() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = spec(&scratch, "write-back");
    let live = std::os::unix::net::UnixListener::bind(spec.socket()).unwrap();
    refused("a live socket", &spec.arguments());
    assert_eq!((records("origin-"), records("cache-")), (Vec::new(), Vec::new()));
    assert!(!spec.cache.exists(), "a cache was left behind");
    drop(live);
    spec.start().stop();
}

#[test]
fn a_note_that_cannot_be_understood_is_not_ignored() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = spec(&scratch, "write-back");
    write(&spec).stop();
    fs::write(&records("origin-")[0].0, "{").unwrap();
    let said = refused("a damaged note", &spec.arguments());
    assert!(said.contains("damaged"), "{said}");
}

#[test]
fn a_missing_cache_device_is_reported_with_all_its_volumes() {
    need_kickcache!();
    let scratch = Scratch::new();
    let pair = Pair::new(&scratch, "write-back");
    let daemon = pair.start(&[], &NAMES);
    NAMES.iter().for_each(|name| pair.client(name).write(MIB, &[7; 4096]));
    daemon.kill();
    fs::remove_file(&pair.spec.cache).unwrap();
    let said = refused("a missing cache device", &pair.arguments(&[]));
    for name in NAMES {
        assert!(said.contains(&format!("volume {name} is not served: its cache device")), "{said}");
    }
    assert!(!pair.spec.cache.exists(), "a cache was made");
}

#[test]
fn a_stop_with_a_truncated_dirty_cache_file_fails() {
    need_kickcache!();
    for (mode, expected) in [("write-back", 8), ("write-through", 0)] {
        let scratch = Scratch::new();
        let spec = Spec::new(&scratch, &scratch.sparse("origin", 16 * MIB), mode, "16M");
        let mut daemon = spec.start();
        let mut client = daemon.connect();
        client.write(0, &[7; 1 << 20]);
        client.flush();
        drop(client);
        File::options().write(true).open(&spec.cache).unwrap().set_len(MIB).unwrap();
        daemon.signal(Signal::TERM);
        assert_eq!(daemon.wait().code(), Some(expected), "{mode}: {}", daemon.log());
        let is_told =
            daemon.log().contains("bytes of the 16777216 that it had: of 256 dirty blocks of v, those");
        assert_eq!(is_told, expected == 8, "{}", daemon.log());
    }
}
