//! The superblock of a served cache device.

use std::fs::File;
use std::path::Path;

use serde_json::Value;

use crate::daemon::KICKCACHE;
use crate::reload::Reloadable;
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, need_kickcache, tools};

fn inspect(cache: &Path) -> Value {
    let output = tools::output(KICKCACHE, ["inspect", "--json", cache.to_str().unwrap()]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn names(device: &Value) -> Vec<&str> {
    device["volumes"].as_array().unwrap().iter().map(|volume| volume["name"].as_str().unwrap()).collect()
}

/// As in a power cut, the second copy is not written.
#[test]
fn one_copy_is_durable_before_the_other_is_written() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 16 * MIB);
    let daemon = disks.spec(&scratch, "write-back").start();
    let origin = scratch.sparse("w", 8 * MIB);
    let nbd = format!("unix:{}", scratch.path("w.sock").display());
    let (cache, origin) = (daemon.spec.cache.to_str().unwrap(), origin.to_str().unwrap());
    disks.tell("fault cache write eio 524288+16384 times 1");
    let add = ["add", "--cache", cache, "--origin", origin, "--name", "w", "--nbd", &nbd];
    let said = daemon.spec.refusal(&add, 1);
    assert!(said.contains("cannot write the superblock"), "{said}");
    let [cut, _] = disks.cut_unflushed(&scratch, disks.position());
    assert_eq!(names(&inspect(&cut)), ["v", "w"]);
    daemon.stop();
}

#[test]
fn later_superblocks_have_all_earlier_changes() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", ""), ("two", "")]);
    let daemon = reloadable.start(&["one", "two"]);
    let origin = reloadable.scratch.sparse("three", 24 * MIB);
    let nbd = format!("unix:{}", reloadable.socket("three").display());
    let (cache, origin) = (reloadable.spec.cache.to_str().unwrap(), origin.to_str().unwrap());
    daemon.control(&["add", "--cache", cache, "--origin", origin, "--nbd", &nbd]);
    daemon.control(&["remove", "two"]);
    daemon.control(&["grow", "--size", &(20 * MIB).to_string()]);
    let one = File::options().write(true).open(reloadable.scratch.path("one")).unwrap();
    one.set_len(32 * MIB).unwrap();
    daemon.control(&["resize", "one"]);
    // A stop writes the last superblock.
    daemon.stop();
    let found = inspect(&reloadable.spec.cache);
    assert_eq!(names(&found), ["one", "three"]);
    assert_eq!(found["used_bytes"], 20 * MIB);
    assert_eq!(found["volumes"][0]["origin_bytes"], 32 * MIB);
}

#[test]
fn a_stop_waits_for_its_last_superblock() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 16 * MIB);
    let daemon = disks.spec(&scratch, "write-back").start();
    daemon.connect().write(0, &[1; 4096]);
    let epoch = || {
        let [cut, _] = disks.cut_unflushed(&scratch, disks.position());
        inspect(&cut)["epoch"].as_u64().unwrap()
    };
    let before = epoch();
    disks.tell("fault cache write delay=300 0+4096");
    daemon.stop();
    assert_eq!(epoch(), before + 1);
}
