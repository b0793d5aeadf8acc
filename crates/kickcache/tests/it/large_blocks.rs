//! Devices with blocks of 4096 bytes or more.

use std::fs;
use std::path::Path;
use std::thread;

use crate::bad_input::Loop;
use crate::client::Client;
use crate::daemon::{Daemon, KICKCACHE, Spec};
use crate::guests;
use crate::nbd_server::Server;
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, need_tools, skip, tools};

const MODES: [&str; 4] = ["write-back", "write-through", "write-around", "bypass"];
const SIZE: u64 = 8 * MIB;
const CLIENTS: u64 = 4;
const ROUNDS: u64 = 150;
/// Of one client; a block has stretches of several clients.
const STRETCH: u64 = 5 * 512;
/// Stretches are below, and areas of a client's own above.
const AREAS_START: u64 = 2 * MIB;
const AREA: u64 = MIB + 512;
/// The content of this part is not compared.
const DISCARDED_START: u64 = 7 * MIB;

fn extent(client: u64, rng: &mut Rng) -> (u64, u64) {
    if rng.below(3) == 0 {
        let start = rng.below(AREA / 512) * 512;
        let length = (rng.between(1, 256) * 512).min(AREA - start);
        return (AREAS_START + client * AREA + start, length);
    }
    // Few blocks, so that clients meet.
    let stretch = rng.below(16) * CLIENTS + client;
    (stretch * STRETCH, rng.between(1, 5) * 512)
}

/// Returns the client's view of the disk.
fn work(mut client: Client, number: u64, mut disk: Vec<u8>) -> Vec<u8> {
    let mut rng = Rng::new(number);
    for _ in 0..ROUNDS {
        let (start, length) = extent(number, &mut rng);
        let bytes = usize::try_from(start).unwrap()..usize::try_from(start + length).unwrap();
        let length = u32::try_from(length).unwrap();
        match rng.below(10) {
            0..5 => {
                disk[bytes.clone()].copy_from_slice(&rng.bytes(bytes.len()));
                client.write(start, &disk[bytes]);
            }
            5..7 => {
                client.zero(start, length, 0);
                disk[bytes].fill(0);
            }
            7 => {
                let start = DISCARDED_START + rng.below(1024) * 512;
                client.trim(start, u32::try_from(rng.between(1, 64) * 512).unwrap());
            }
            8 => client.flush(),
            _ => assert!(client.read(start, length) == disk[bytes], "{length} bytes at {start}"),
        }
    }
    disk
}

fn serve_neighbours(spec: &Spec, content: &Path) {
    let before = fs::read(content).unwrap();
    let daemon = spec.start();
    let views: Vec<Vec<u8>> = thread::scope(|scope| {
        let start = |number| {
            let (client, disk) = (daemon.connect(), before.clone());
            scope.spawn(move || work(client, number, disk))
        };
        let clients: Vec<_> = (0..CLIENTS).map(start).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let end = usize::try_from(DISCARDED_START).unwrap();
    let written = (0..end).map(|at| {
        let changed = views.iter().find(|view| view[at] != before[at]);
        changed.map_or(before[at], |view| view[at])
    });
    let expected: Vec<u8> = written.collect();
    let what = format!("{} on {}", spec.mode, spec.origin.display());
    assert!(daemon.connect().read(0, u32::try_from(end).unwrap()) == expected, "the volume: {what}");
    finish(daemon);
    assert!(fs::read(content).unwrap()[..end] == expected, "the origin: {what}");
}

/// The log must not contain a failed request.
fn finish(daemon: Daemon) {
    daemon.drain();
    let log = daemon.log();
    assert!(!log.contains("failed"), "{log}");
    daemon.stop();
}

fn loop_device(file: &Path, sector: &str) -> Result<Loop, String> {
    Loop::with(file, &["--sector-size", sector])
}

#[test]
fn neighbours_in_a_sector_of_the_origin_are_kept() {
    need_kickcache!();
    for (mode, sector) in MODES.map(|mode| (mode, "4096")).into_iter().chain([("write-around", "16384")]) {
        let scratch = Scratch::new();
        let content = scratch.random("content", SIZE, 1);
        let origin = match loop_device(&content, sector) {
            Ok(origin) => origin,
            Err(why) => skip!("{why}"),
        };
        serve_neighbours(&Spec::new(&scratch, &origin.path(), mode, "16M"), &content);
    }
}

#[test]
fn neighbours_in_a_block_of_an_export_are_kept() {
    need_kickcache!();
    need_tools!("nbdkit");
    for (mode, least) in MODES.map(|mode| (mode, "4096")).into_iter().chain([("write-around", "65536")]) {
        let scratch = Scratch::new();
        let content = scratch.random("content", SIZE, 2);
        let least = format!("blocksize-minimum={least}");
        let parameters = [&least, "blocksize-preferred=65536", "blocksize-error-policy=error"];
        let server = Server::start(&scratch, &content, &["--filter=blocksize-policy"], &parameters);
        serve_neighbours(&Spec::new(&scratch, &server.uri(), mode, "16M"), &content);
    }
}

#[test]
fn a_cache_device_has_sectors_of_4096_bytes() {
    need_kickcache!();
    for mode in ["write-back", "write-around"] {
        let scratch = Scratch::new();
        let content = scratch.random("content", SIZE, 3);
        let cache = match loop_device(&scratch.sparse("cache file", 32 * MIB), "4096") {
            Ok(cache) => cache,
            Err(why) => skip!("{why}"),
        };
        tools::run(KICKCACHE, ["format".as_ref(), cache.path().as_os_str()]);
        let mut spec = Spec::new(&scratch, &content, mode, "32M");
        spec.cache = cache.path();
        serve_neighbours(&spec, &content);
    }
}

#[test]
fn guests_use_disks_with_sectors_of_4096_bytes() {
    need_kickcache!();
    for mode in MODES {
        for (block, unit) in [("512", 1), ("4k", 8)] {
            let scratch = Scratch::new();
            let content = scratch.sparse("content", SIZE);
            let origin = match loop_device(&content, "4096") {
                Ok(origin) => origin,
                Err(why) => skip!("{why}"),
            };
            let mut spec = Spec::new(&scratch, &origin.path(), mode, "16M");
            let socket = guests::socket(&spec);
            spec.extra.extend(["--vhost-user".into(), socket.into(), "--guest-block".into(), block.into()]);
            let daemon = spec.start();
            let copy = guests::compare_with_a_copy(&daemon, 0, unit, unit);
            finish(daemon);
            assert!(fs::read(&content).unwrap() == copy, "the origin: {mode}, blocks of {block}");
        }
    }
}

#[test]
fn an_export_that_requires_larger_blocks_is_not_used() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let content = scratch.random("content", SIZE, 4);
    let start = |least: &str| {
        let least = format!("blocksize-minimum={least}");
        let parameters = [&least, "blocksize-preferred=65536", "blocksize-error-policy=error"];
        Server::start(&scratch, &content, &["--filter=blocksize-policy"], &parameters)
    };
    let mut server = start("4096");
    let mut spec = Spec::new(&scratch, &server.uri(), "write-around", "16M");
    spec.extra.extend(["--origin-timeout".into(), "60s".into()]);
    let daemon = spec.start();
    server.kill();
    let server = start("8192");
    daemon.wait_for_log(&["blocks of at least 8192 bytes now, and took 4096"]);
    drop(server);
    let _server = start("4096");
    let data = [7; 512];
    daemon.connect().write(512, &data);
    daemon.connect().trim(512, 512);
    assert_eq!(daemon.connect().read(512, 512), data);
    daemon.stop();
    assert_eq!(fs::read(&content).unwrap()[512..1024], data);
}
