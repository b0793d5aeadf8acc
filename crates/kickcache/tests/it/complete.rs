//! Blocks marked dirty although their origin may have their data.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use serde_json::Value;

use crate::bad_input::{refused, unchanged};
use crate::client::{FLUSH, Request, WRITE};
use crate::daemon::{Daemon, KICKCACHE, Spec, VOLUME};
use crate::damaged_notes::note;
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, need_kickcache, tools};

fn spec(scratch: &Scratch, mode: &'static str) -> Spec {
    let extra = ["--admission", "always"].map(Into::into).to_vec();
    Spec { extra, ..Spec::new(scratch, &scratch.sparse("origin", 16 * MIB), mode, "8M") }
}

fn with_cache(spec: &Spec, name: &str) -> Spec {
    Spec { cache: spec.dir.join(name), ..spec.clone() }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn write(spec: &Spec, byte: u8) -> Daemon {
    let daemon = spec.start();
    daemon.connect().write(MIB, &[byte; 65536]);
    daemon
}

fn kill(daemon: Daemon) {
    let cache = daemon.kill().cache;
    tools::run("flock", ["-w", "20", text(&cache), "true"]);
}

/// A kill just after a write, so that the written blocks are marked dirty.
fn killed(spec: &Spec, byte: u8) {
    kill(write(spec, byte));
    let said = tools::run(KICKCACHE, ["inspect", text(&spec.cache)]);
    assert!(said.contains("64 KiB"), "{said}");
}

fn reads(spec: &Spec, byte: u8) -> String {
    let daemon = spec.start();
    assert_eq!(daemon.connect().read(MIB, 65536), [byte; 65536]);
    let said = daemon.log();
    daemon.stop();
    said
}

#[test]
fn dirty_marks_of_write_through_are_dropped_after_another_cache() {
    need_kickcache!();
    for since in ["with another", "without"] {
        let scratch = Scratch::new();
        let one = spec(&scratch, "write-through");
        killed(&one, 1);
        let other = match since {
            "without" => {
                let mut without = with_cache(&one, "none");
                without.extra.extend(["--without-cache".into(), "--lose-dirty".into()]);
                without
            }
            _ => with_cache(&one, "two"),
        };
        write(&other, 2).stop();
        let drain = ["drain", "--cache", text(&one.cache)];
        assert!(tools::run(KICKCACHE, drain).contains("no data was written"));
        let said = reads(&one, 2);
        assert!(
            said.contains("16 dirty blocks (byte offset + length: 1048576 + 65536) were dropped"),
            "{said}"
        );
        assert!(!said.contains("LOST"), "{said}");
        reads(&one, 2);
    }
}

#[test]
fn a_volume_that_was_in_write_back_may_be_needed() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 16 * MIB, 16 * MIB);
    let one = disks.spec(&scratch, "write-through");
    let daemon = one.start();
    daemon.control(&["mode", VOLUME, "write-back"]);
    daemon.connect().write(MIB, &[1; 65536]);
    // The mode change starts writeback, which the fault stops.
    disks.tell("fault origin write eio");
    daemon.control(&["mode", VOLUME, "write-through"]);
    kill(daemon);
    disks.tell("clear");
    let mut two = with_cache(&one, "two");
    two.extra.push("--new-cache".into());
    write(&two, 2).stop();
    let said = refused("a device that is needed", &one.arguments());
    assert!(said.contains("dirty blocks") && said.contains("--accept-older"), "{said}");
}

/// The device was served later with another state directory.
#[test]
fn blocks_written_elsewhere_may_be_needed() {
    need_kickcache!();
    let scratch = Scratch::new();
    let one = spec(&scratch, "write-through");
    killed(&one, 1);
    let mut elsewhere = Spec { mode: "write-back", ..one.clone() };
    elsewhere.extra.extend(["--state".into(), scratch.path("elsewhere").into()]);
    write(&elsewhere, 3).stop();
    write(&with_cache(&one, "two"), 2).stop();
    let said = refused("a device that is needed", &one.arguments());
    assert!(said.contains("16 dirty blocks") && said.contains("--accept-older"), "{said}");
}

fn origin_note() -> Value {
    serde_json::from_slice(&fs::read(note("origin-")).unwrap()).unwrap()
}

#[test]
fn an_origin_that_failed_may_lack_something() {
    need_kickcache!();
    for (fault, mode) in [("write", "write-through"), ("flush", "write-through"), ("flush", "write-around")] {
        let scratch = Scratch::new();
        let disks = faulty_disks!(&scratch, 8 * MIB, 16 * MIB);
        let daemon = write(&disks.spec(&scratch, mode), 1);
        let mut client = daemon.connect();
        client.flush();
        let record = origin_note();
        assert!(
            record["may_be_dirty"] == false && record["complete"].as_array().unwrap().len() == 1,
            "{record}"
        );
        disks.tell(&format!("fault origin {fault} eio"));
        let write = Request { command: WRITE, flags: 0, offset: 2 * MIB, length: 4096 };
        let flush = Request { command: FLUSH, flags: 0, offset: 0, length: 0 };
        let failed = client.call(write, &[2; 4096]).unwrap().errno + client.call(flush, &[]).unwrap().errno;
        assert_ne!(failed, 0, "{fault} in {mode}");
        let record = origin_note();
        assert!(record["may_be_dirty"] == true && record["complete"] == Value::Array(Vec::new()), "{record}");
        disks.tell("clear");
        client.write(2 * MIB, &[2; 4096]);
        client.flush();
        drop(client);
        daemon.drain();
        daemon.stop();
        assert_eq!(origin_note()["may_be_dirty"], false);
    }
}

#[test]
fn kills_in_write_through_leave_complete_origins() {
    need_kickcache!();
    let scratch = Scratch::new();
    let one = spec(&scratch, "write-through");
    for byte in 1..4 {
        killed(&one, byte);
        assert_eq!(origin_note()["may_be_dirty"], false, "kill number {byte}");
    }
    let mut without = one.clone();
    without.extra.push("--without-cache".into());
    let said = reads(&without, 3);
    assert!(said.contains("the origin has them") && !said.contains("LOST"), "{said}");
    reads(&one, 3);
}

#[test]
fn a_detach_after_a_kill_in_write_through_is_lossless() {
    need_kickcache!();
    let scratch = Scratch::new();
    let one = spec(&scratch, "write-through");
    killed(&one, 1);
    let said = tools::run(KICKCACHE, ["detach", text(&one.cache), VOLUME]);
    assert!(said.contains("the origin has them") && !said.contains("LOST"), "{said}");
    reads(&one, 1);
}

#[test]
fn a_detach_after_a_kill_in_write_back_is_refused() {
    need_kickcache!();
    let scratch = Scratch::new();
    let one = spec(&scratch, "write-back");
    killed(&one, 1);
    let detach = ["detach", text(&one.cache), VOLUME].map(Into::into);
    let said = unchanged("a detach", &[&one.cache], || refused("a detach", &detach));
    assert!(said.contains("16 blocks of v are dirty"), "{said}");
}

/// A start that fails late: the address of its NBD server is taken.
fn fails_to_start(spec: &Spec) {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut fails = spec.clone();
    fails.extra.extend(["--nbd".into(), format!("tcp:{}", taken.local_addr().unwrap()).into()]);
    let said = refused("an address that is taken", &fails.arguments());
    assert!(said.contains("cannot serve on"), "{said}");
}

#[test]
fn failed_starts_after_write_through_kills_keep_records() {
    need_kickcache!();
    let scratch = Scratch::new();
    let one = spec(&scratch, "write-through");
    killed(&one, 1);
    fails_to_start(&one);
    fails_to_start(&one);
    let mut without = one.clone();
    without.extra.push("--without-cache".into());
    let said = reads(&without, 1);
    assert!(said.contains("the origin has them") && !said.contains("LOST"), "{said}");
}

#[test]
fn failed_starts_after_write_back_kills_keep_records() {
    need_kickcache!();
    let scratch = Scratch::new();
    let one = spec(&scratch, "write-back");
    killed(&one, 1);
    let through = Spec { mode: "write-through", ..one.clone() };
    fails_to_start(&through);
    let mut without = one.clone();
    without.extra.push("--without-cache".into());
    let said = refused("dirty blocks", &without.arguments());
    assert!(said.contains("16 blocks of v are dirty"), "{said}");
    reads(&through, 1);
}
