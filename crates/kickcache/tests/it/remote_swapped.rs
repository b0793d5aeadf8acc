//! Remote origins that return with other content.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Output;
use std::thread;

use crate::daemon::{Daemon, KICKCACHE, Spec, VOLUME, guarded};
use crate::nbd_server::Server;
use crate::scratch::{MIB, Scratch, difference};
use crate::{need_kickcache, need_tools};

const SIZE: u64 = 64 * MIB;
const BLOCK: u32 = 4_096;
const TOLD: &str = "compared blocks are not the contents recorded at the last flush";

fn spec(scratch: &Scratch, server: &Server, extra: &[&str]) -> Spec {
    let mut spec = Spec::new(scratch, &server.uri(), "write-back", "16M");
    spec.extra = extra.iter().map(Into::into).collect();
    spec
}

fn bytes_at(disk: &Path, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    File::open(disk).unwrap().read_exact_at(&mut bytes, offset).unwrap();
    bytes
}

fn refused(spec: &Spec) -> String {
    let daemon = spec.try_start();
    assert!(daemon.is_none(), "it should be refused: {}", daemon.unwrap().log());
    fs::read_to_string(spec.dir.join("daemon.log")).unwrap()
}

fn drain_offline(spec: &Spec, flags: &[&str]) -> Output {
    let mut arguments = vec!["drain".into(), VOLUME.into(), "--cache".into(), spec.cache.clone().into()];
    arguments.extend(flags.iter().map(Into::into));
    guarded(KICKCACHE, arguments).output().unwrap()
}

#[test]
fn another_disk_of_equal_size_is_not_used() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let (disk, other) = (scratch.random("disk", SIZE, 1), scratch.random("other", SIZE, 2));
    let untouched = scratch.random("untouched", SIZE, 2);
    let server = Server::start(&scratch, &disk, &[], &[]);
    let daemon = spec(&scratch, &server, &[]).start();
    let (mut client, mut beside) = (daemon.connect(), daemon.connect());
    let cached = [3; 64 << 10];
    client.write(0, &cached);
    daemon.drain();
    client.write(32 * MIB, &[7; 4_096]);
    drop(server);
    let server = Server::start(&scratch, &other, &[], &[]);
    let waiting = thread::spawn(move || client.read(20 * MIB, BLOCK));
    daemon.wait_for_log(&[TOLD]);
    assert!(!waiting.is_finished());
    assert!(beside.read(0, 64 << 10) == cached && beside.read(32 * MIB, BLOCK) == [7; 4_096], "hits go on");
    beside.write(33 * MIB, &[8; 4_096]);
    drop(server);
    let _server = Server::start(&scratch, &disk, &[], &[]);
    assert!(waiting.join().unwrap() == bytes_at(&disk, 20 * MIB, 4_096));
    daemon.drain();
    assert_eq!(difference(&other, &untouched), None, "the other disk was written to");
    assert!(bytes_at(&disk, 33 * MIB, 4_096) == [8; 4_096]);
    daemon.stop();
}

/// A server with an older state of the disk, and after its refusal, a server with the disk.
fn older_is_refused(scratch: &Scratch, daemon: &Daemon, server: Server, older: &Path, disk: &Path) -> Server {
    drop(server);
    let server = Server::start(scratch, older, &[], &[]);
    daemon.wait_for_log(&[TOLD]);
    drop(server);
    Server::start(scratch, disk, &[], &[])
}

#[test]
fn a_server_that_lost_flushed_writes_is_not_used() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let disk = scratch.random("disk", SIZE, 1);
    let older = scratch.path("older");
    fs::copy(&disk, &older).unwrap();
    let server = Server::start(&scratch, &disk, &[], &[]);
    let daemon = spec(&scratch, &server, &[]).start();
    let mut client = daemon.connect();
    (0..64).for_each(|block| client.write(block * MIB / 4, &[9; 4_096]));
    daemon.drain();
    let _server = older_is_refused(&scratch, &daemon, server, &older, &disk);
    assert!(client.read(50 * MIB, BLOCK) == bytes_at(&disk, 50 * MIB, 4_096));
    daemon.stop();
}

/// In write-around, only blocks that are read again after a write distinguish an older state from a newer
/// one.
#[test]
fn a_server_that_lost_recent_writes_is_not_used() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let disk = scratch.random("disk", SIZE, 1);
    let server = Server::start(&scratch, &disk, &[], &[]);
    let daemon = Spec::new(&scratch, &server.uri(), "write-around", "64M").start();
    let mut client = daemon.connect();
    (0..256).for_each(|part| drop(client.read((part * 128) << 10, 64 << 10)));
    let older = scratch.path("older");
    fs::copy(&disk, &older).unwrap();
    for block in 0..8 {
        client.write(block * MIB, &[9; 4_096]);
        assert!(client.read(block * MIB, BLOCK) == [9; 4_096]);
    }
    client.flush();
    let _server = older_is_refused(&scratch, &daemon, server, &older, &disk);
    assert!(client.read(3 * MIB, BLOCK) == [9; 4_096]);
    daemon.stop();
}

/// The next server has another disk.
fn exchanged(scratch: &Scratch, work: impl FnOnce(&Daemon)) -> (Spec, Server) {
    let (disk, other) = (scratch.random("disk", SIZE, 1), scratch.random("other", SIZE, 2));
    let server = Server::start(scratch, &disk, &[], &[]);
    let daemon = spec(scratch, &server, &[]).start();
    daemon.connect().write(0, &[3; 64 << 10]);
    daemon.drain();
    work(&daemon);
    let spec = daemon.stop();
    drop(server);
    (spec, Server::start(scratch, &other, &[], &[]))
}

#[test]
fn an_export_exchanged_between_runs_is_refused() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let (spec, server) = exchanged(&scratch, |_| {});
    let told = refused(&spec);
    assert!(told.contains(TOLD) && told.contains("--origin-changed"), "{told}");
    assert!(told.contains(server.uri().to_str().unwrap()), "{told}");
    let changed = Spec { extra: vec!["--origin-changed".into()], ..spec.clone() };
    changed.start().stop();
    let daemon = spec.start();
    assert!(daemon.connect().read(0, 64 << 10) == bytes_at(&scratch.path("other"), 0, 64 << 10));
    daemon.stop();
}

#[test]
fn dirty_blocks_of_an_exchanged_export_are_kept() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let write = |daemon: &Daemon| {
        let mut client = daemon.connect();
        client.read(8 * MIB, BLOCK);
        client.write(40 * MIB, &[7; 4_096]);
        client.flush();
    };
    let (spec, _server) = exchanged(&scratch, write);
    let other = scratch.path("other");
    let before = bytes_at(&other, 40 * MIB, 4_096);
    assert!(refused(&spec).contains(TOLD));
    let told = String::from_utf8(drain_offline(&spec, &[]).stderr).unwrap();
    assert!(told.contains(TOLD), "{told}");
    let changed = Spec { extra: vec!["--origin-changed".into()], ..spec.clone() };
    let told = refused(&changed);
    assert!(told.contains("1 dirty block for it") && told.contains("--accept-older"), "{told}");
    assert!(bytes_at(&other, 40 * MIB, 4_096) == before, "nobody decided");
    let output = drain_offline(&spec, &["--accept-older"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(bytes_at(&other, 40 * MIB, 4_096) == [7; 4_096]);
    let daemon = spec.start();
    assert!(daemon.connect().read(0, BLOCK) == bytes_at(&other, 0, 4_096), "what was clean is gone");
    daemon.stop();
}

#[test]
fn an_extended_export_is_served_after_an_explicit_start() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let disk = scratch.random("disk", SIZE, 1);
    let server = Server::start(&scratch, &disk, &[], &[]);
    let daemon = spec(&scratch, &server, &[]).start();
    let mut arguments: Vec<std::ffi::OsString> = vec!["resize".into(), VOLUME.into(), "--control".into()];
    arguments.push(daemon.spec.control().into());
    let output = guarded(KICKCACHE, arguments).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && told.contains("--origin-grown"), "{told}");
    drop(server);
    File::options().write(true).open(&disk).unwrap().set_len(2 * SIZE).unwrap();
    let _server = Server::start(&scratch, &disk, &[], &[]);
    daemon.wait_for_log(&["it has 134217728 bytes now, and had 67108864"]);
    assert!(daemon.log().contains("--origin-grown"), "{}", daemon.log());
    let stopped = daemon.stop();
    let daemon = Spec { extra: vec!["--origin-grown".into()], ..stopped }.start();
    assert_eq!(daemon.connect().size, 2 * SIZE);
    daemon.stop();
}
