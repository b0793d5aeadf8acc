//! The bytes of the origin after a drain.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;

use rustix::process::Signal;

use crate::client::{Client, FUA, NO_HOLE, Request, WRITE};
use crate::daemon::{Daemon, KICKCACHE, Spec, VOLUME, is_stand_in};
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch, difference};
use crate::{faulty_disks, need_kickcache, tools};

const VOLUME_BYTES: u64 = 48 * MIB + 4096;
const CONNECTIONS: u64 = 3;
const OPERATIONS: usize = 700;

#[test]
fn the_origin_is_as_a_plain_disk_after_write_back() {
    mirror("write-back", "16M", 1);
}

#[test]
fn the_origin_matches_a_plain_disk_after_a_drain() {
    mirror("write-back", "8M", 2);
}

#[test]
fn the_origin_is_as_a_plain_disk_after_write_through() {
    mirror("write-through", "16M", 3);
}

#[test]
fn the_origin_is_as_a_plain_disk_after_write_around() {
    mirror("write-around", "16M", 4);
}

#[test]
fn the_origin_is_as_a_plain_disk_after_bypass() {
    mirror("bypass", "16M", 5);
}

fn mirror(mode: &'static str, cache_size: &'static str, seed: u64) {
    let scratch = Scratch::new();
    let origin = scratch.random("origin", VOLUME_BYTES, seed);
    let plain = scratch.path("plain");
    fs::copy(&origin, &plain).unwrap();
    let daemon = Spec::new(&scratch, &origin, mode, cache_size).start();
    work(&daemon, &plain, seed);
    drain(&daemon);
    assert_eq!(difference(&origin, &plain), None, "{mode}: after drain, while the daemon runs");
    work(&daemon, &plain, seed + 100);
    let daemon = daemon.stop().start();
    check_reads(&daemon, &plain);
    drain(&daemon);
    daemon.stop();
    assert_eq!(difference(&origin, &plain), None, "{mode}: after drain and stop");
}

fn drain(daemon: &Daemon) {
    if is_stand_in() {
        return daemon.connect().flush();
    }
    daemon.drain();
    assert_eq!(daemon.volume_count("dirty_bytes"), 0, "dirty bytes after drain");
}

fn work(daemon: &Daemon, plain: &Path, seed: u64) {
    thread::scope(|scope| {
        for number in 0..CONNECTIONS {
            let socket = daemon.spec.socket();
            scope.spawn(move || Mirror::new(&socket, plain, number, seed).run());
        }
    });
}

fn check_reads(daemon: &Daemon, plain: &Path) {
    let expected = fs::read(plain).unwrap();
    let mut client = daemon.connect();
    for (at, chunk) in expected.chunks(1 << 20).enumerate() {
        let data = client.read(at as u64 * MIB, u32::try_from(chunk.len()).unwrap());
        let wrong = (0..chunk.len()).find(|byte| data[*byte] != chunk[*byte]);
        assert_eq!(wrong, None, "first wrong byte of MiB {at}");
    }
}

/// Makes the same changes to its stripe of the volume and to a plain file.
struct Mirror {
    client: Client,
    plain: File,
    rng: Rng,
    start: u64,
    length: u64,
}

impl Mirror {
    fn new(socket: &Path, plain: &Path, number: u64, seed: u64) -> Mirror {
        let client = Client::connect(socket, VOLUME).unwrap();
        assert_eq!(client.size, VOLUME_BYTES);
        let plain = File::options().read(true).write(true).open(plain).unwrap();
        // The parts do not end on block boundaries.
        let length = VOLUME_BYTES / CONNECTIONS / 512 * 512;
        Mirror { client, plain, rng: Rng::new(seed * 10 + number), start: number * length, length }
    }

    fn run(mut self) {
        for _ in 0..OPERATIONS {
            self.step();
        }
    }

    fn step(&mut self) {
        let (offset, length) = self.choose();
        match self.rng.below(20) {
            0 => self.client.flush(),
            1 => self.trim(offset, length),
            2 => self.zero(offset, length, 0),
            3 => self.zero(offset, length, NO_HOLE),
            4 => self.zero(offset, length, FUA),
            5..=8 => self.read(offset, length),
            9 => self.client.promote(offset, length),
            _ => self.write(offset, length),
        }
    }

    /// Mostly small and in sectors; half of the requests are in a hot eighth.
    fn choose(&mut self) -> (u64, u32) {
        let unit = if self.rng.below(10) == 0 { 1 } else { 512 };
        let small = self.rng.below(8) != 0;
        let length = if small { self.rng.between(1, 32) * 512 } else { self.rng.between(1, 600) * 512 };
        let length = length + if unit == 1 { self.rng.below(512) } else { 0 };
        let bound = if self.rng.below(2) == 0 { self.length / 8 } else { self.length - length };
        (self.start + self.rng.below(bound) / unit * unit, u32::try_from(length).unwrap())
    }

    fn write(&mut self, offset: u64, length: u32) {
        let data = self.rng.bytes(usize::try_from(length).unwrap());
        let flags = if self.rng.below(16) == 0 { FUA } else { 0 };
        let reply = self.client.call(Request { command: WRITE, flags, offset, length }, &data).unwrap();
        assert_eq!(reply.errno, 0);
        self.plain.write_all_at(&data, offset).unwrap();
    }

    fn zero(&mut self, offset: u64, length: u32, flags: u16) {
        self.client.zero(offset, length, flags);
        self.plain.write_all_at(&vec![0; usize::try_from(length).unwrap()], offset).unwrap();
    }

    /// A trim may leave the old data or zeroes, and then it must stay so.
    fn trim(&mut self, offset: u64, length: u32) {
        self.client.trim(offset, length);
        let old = self.expected(offset, length);
        let new = self.client.read(offset, length);
        let wrong = (0..old.len()).find(|at| new[*at] != 0 && new[*at] != old[*at]);
        assert_eq!(wrong, None, "a trim of {length} bytes at {offset} brought other data");
        self.plain.write_all_at(&new, offset).unwrap();
    }

    fn read(&mut self, offset: u64, length: u32) {
        let data = self.client.read(offset, length);
        let expected = self.expected(offset, length);
        let wrong = (0..data.len()).find(|at| data[*at] != expected[*at]);
        assert_eq!(wrong, None, "wrong data in {length} bytes at {offset}");
    }

    fn expected(&self, offset: u64, length: u32) -> Vec<u8> {
        let mut expected = vec![0; usize::try_from(length).unwrap()];
        self.plain.read_exact_at(&mut expected, offset).unwrap();
        expected
    }
}

#[test]
fn the_mirror_notices_a_difference() {
    let scratch = Scratch::new();
    let (one, other) = (scratch.random("one", MIB, 1), scratch.random("other", MIB, 1));
    assert_eq!(difference(&one, &other), None);
    crate::scratch::flip_byte(&other, MIB - 1).unwrap();
    assert!(difference(&one, &other).unwrap().contains("byte 1048575"));
}

#[test]
fn a_stop_names_blocks_that_only_the_cache_device_has() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 16 * MIB);
    let spec = Spec::new(&scratch, &origin, "write-back", "16M");
    let mut daemon = spec.start();
    daemon.connect().write(65_536, &[7; 65_536]);
    let said = daemon.control(&["stop"]);
    let (first, rest) = said.split_once('\n').unwrap();
    let words =
        format!("64 KiB are only on the cache device {}; its origin is incomplete", spec.cache.display());
    assert!(first == "stopped" && rest.contains(&words), "{said}");
    let status = daemon.wait();
    daemon.check_end(status);
    assert!(daemon.log().contains("alone: 16 blocks of v\n"), "{}", daemon.log());
    let command = rest.split('`').nth(1).unwrap().replacen("kickcache", KICKCACHE, 1);
    tools::run("sh", ["-c", &command]);
    assert_eq!(fs::read(&origin).unwrap()[65_536..131_072], [7; 65_536]);
    let mut daemon = spec.start();
    assert_eq!(daemon.control(&["stop"]), "stopped\n");
    daemon.wait();
}

#[test]
fn a_stop_that_drains_leaves_complete_origins() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 16 * MIB);
    let spec = Spec::new(&scratch, &origin, "write-back", "16M");
    let mut daemon = spec.start();
    daemon.connect().write(65_536, &[7; 65_536]);
    assert_eq!(daemon.control(&["stop", "--drain"]), "stopped\n");
    let status = daemon.wait();
    daemon.check_end(status);
    assert_eq!(fs::read(&origin).unwrap()[65_536..131_072], [7; 65_536]);
}

/// In write-through, a write in flight counts as dirty.
#[test]
fn a_stop_that_drains_ends_while_clients_write() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 8 * MIB);
    let mut daemon = disks.spec(&scratch, "write-through").start();
    disks.tell("fault origin write delay=20");
    let stopped = thread::scope(|scope| {
        for number in 0..4 {
            let (mut client, request) =
                (daemon.connect(), Request { command: WRITE, flags: 0, offset: number * MIB, length: 4096 });
            client.write(number * MIB, &[7; 4096]);
            scope
                .spawn(move || while client.call(request, &[7; 4096]).is_ok_and(|reply| reply.errno == 0) {});
        }
        let control = daemon.spec.control();
        let stop = ["60", KICKCACHE, "stop", "--drain", "--control", control.to_str().unwrap()];
        let stopped = tools::output("timeout", stop);
        if !stopped.status.success() {
            daemon.signal(Signal::KILL);
        }
        stopped
    });
    assert!(stopped.status.success(), "{stopped:?}: {}", daemon.log());
    let status = daemon.wait();
    daemon.check_end(status);
    drop(daemon);
    let origin = fs::read(scratch.path("origin below")).unwrap();
    assert!((0..4).all(|number| origin[number << 20..][..4096] == [7; 4096]));
}
