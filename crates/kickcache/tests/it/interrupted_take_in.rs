//! Kills while a cache device is taken in.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::daemon::Daemon;
use crate::need_kickcache;
use crate::reload::Reloadable;
use crate::scratch::state_dir;

const NAMES: [&str; 3] = ["one", "two", "three"];
const VOLUMES: [(&str, &str); 3] = [
    ("one", "mode = \"write-back\"\nidle-after = \"1h\""),
    ("two", "mode = \"write-back\"\nidle-after = \"1h\""),
    ("three", "mode = \"write-through\""),
];
const BLOCK: usize = 4096;

fn record(name: &str) -> (PathBuf, Vec<u8>) {
    let named = format!("\"volume\": \"{name}\"");
    let files = fs::read_dir(state_dir()).unwrap().map(|file| file.unwrap().path());
    let records = files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("origin-"));
    let mut records = records.map(|path| (path.clone(), fs::read(path).unwrap()));
    records.find(|(_, bytes)| String::from_utf8_lossy(bytes).contains(&named)).unwrap()
}

fn write_all(reloadable: &Reloadable, byte: u8) {
    for name in NAMES {
        let mut client = reloadable.connect(name);
        client.write(0, &[byte; BLOCK]);
        client.flush();
    }
}

fn read_all(reloadable: &Reloadable, byte: u8) {
    for name in NAMES {
        assert_eq!(reloadable.connect(name).read(0, 4096), [byte; BLOCK], "{name}");
    }
}

fn take_in(daemon: &Daemon, with: &Path) {
    daemon.control(&["replace", "--with", with.to_str().unwrap(), "--size", "16M"]);
}

fn cache(daemon: &Daemon) -> PathBuf {
    daemon.status()["caches"][0]["device"].as_str().unwrap().into()
}

/// The records of the first `written` volumes have the device that is taken in.
fn interrupted(written: usize) -> (Reloadable, PathBuf) {
    let reloadable = Reloadable::new(&VOLUMES);
    let daemon = reloadable.start(&NAMES);
    write_all(&reloadable, 1);
    daemon.control(&["leave-out"]);
    write_all(&reloadable, 2);
    let before: Vec<_> = NAMES[written..].iter().map(|name| record(name)).collect();
    let with = reloadable.scratch.path("with");
    take_in(&daemon, &with);
    // Write-back may make blocks dirty from here on.
    let may_be_dirty = |name| String::from_utf8(record(name).1).unwrap().contains("\"may_be_dirty\": true");
    assert_eq!(NAMES.map(may_be_dirty), [true, true, false]);
    daemon.kill();
    before.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    (reloadable, with)
}

#[test]
fn a_kill_during_a_take_in_leaves_no_volume_unserved() {
    need_kickcache!();
    for written in 0..=NAMES.len() {
        let (reloadable, with) = interrupted(written);
        for byte in [3, 4] {
            let daemon = reloadable.start(&NAMES);
            assert_eq!(daemon.status()["unserved"].as_array().unwrap().len(), 0, "{}", daemon.log());
            read_all(&reloadable, byte - 1);
            write_all(&reloadable, byte);
            let in_use = if written == 0 { &reloadable.spec.cache } else { &with };
            assert_eq!(cache(&daemon), *in_use, "{written}");
            daemon.kill();
        }
    }
}

#[test]
fn a_half_recorded_device_is_served_by_its_own_name() {
    need_kickcache!();
    for written in 1..NAMES.len() {
        let (mut reloadable, with) = interrupted(written);
        reloadable.spec.cache.clone_from(&with);
        reloadable.write(&VOLUMES);
        let daemon = reloadable.start(&NAMES);
        read_all(&reloadable, 2);
        daemon.kill();
    }
}

#[test]
fn older_dirty_blocks_are_not_served_after_a_take_in() {
    need_kickcache!();
    let (reloadable, with) = interrupted(NAMES.len());
    let daemon = reloadable.start(&NAMES);
    write_all(&reloadable, 3);
    daemon.kill();
    let (path, bytes) = record("two");
    let text = String::from_utf8(bytes).unwrap();
    fs::write(path, text.replace("\"written_without\": false", "\"written_without\": true")).unwrap();
    let daemon = reloadable.start(&["one", "three"]);
    let unserved = daemon.status()["unserved"].clone();
    assert_eq!((unserved.as_array().unwrap().len(), &unserved[0]["name"]), (1, &Value::from("two")));
    assert!(unserved[0]["why"].as_str().unwrap().contains("1 dirty block"), "{unserved}");
    assert_eq!(cache(&daemon), with);
    assert_eq!(reloadable.connect("one").read(0, 4096), [3; BLOCK]);
    daemon.kill();
}
