//! Volumes served to a guest over vhost-user, also across kills of the daemon.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use crate::bad_input::refused;
use crate::cells;
use crate::daemon::{Daemon, KICKCACHE, Spec, guarded};
use crate::guest::{self, Cut, DISCARD, EVENT_IDX, FLUSH, GET_ID, Guest, READ, WRITE, ZEROES};
use crate::need_kickcache;
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch};

const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);

pub(crate) fn socket(spec: &Spec) -> PathBuf {
    spec.dir.join("guest.sock")
}

fn spec(scratch: &Scratch, mode: &'static str, size: u64) -> Spec {
    let mut spec = Spec::new(scratch, &scratch.sparse("origin", size), mode, "32M");
    spec.extra.extend(["--vhost-user".into(), socket(&spec).into()]);
    spec
}

fn start(scratch: &Scratch, mode: &'static str, size: u64) -> Daemon {
    spec(scratch, mode, size).start()
}

/// Random requests on three queues, against a copy of the disk in memory; in multiples of `unit` sectors.
pub(crate) fn compare_with_a_copy(daemon: &Daemon, features: u64, seed: u64, unit: u64) -> Vec<u8> {
    let size = 8 * MIB;
    let mut guest = Guest::connect(&socket(&daemon.spec), 3, features);
    let mut rng = Rng::new(seed);
    let mut copy = vec![0; usize::try_from(size).unwrap()];
    for _ in 0..600 {
        let queue = u16::try_from(rng.below(3)).unwrap();
        let sectors = if rng.below(2) == 0 { 8 } else { rng.between(1, 128).next_multiple_of(unit) };
        let sector = rng.below(size / 512 - sectors + 1) / unit * unit;
        let sector = if rng.below(2) == 0 { sector & !7 } else { sector };
        let bytes =
            usize::try_from(sector * 512).unwrap()..usize::try_from((sector + sectors) * 512).unwrap();
        let range =
            [sector.to_le_bytes(), (sectors | u64::from(rng.below(2) == 0) << 32).to_le_bytes()].concat();
        match rng.below(12) {
            0..=4 => {
                let (status, found) = guest.run(queue, READ, sector, &vec![0; bytes.len()]);
                assert!(status == 0 && found == copy[bytes], "sectors {sector} + {sectors}, status {status}");
            }
            5..=9 => {
                let data = rng.bytes(bytes.len());
                assert_eq!(guest.run(queue, WRITE, sector, &data).0, 0);
                copy[bytes].copy_from_slice(&data);
            }
            10 => {
                assert_eq!(guest.run(queue, ZEROES, 0, &range).0, 0);
                copy[bytes].fill(0);
            }
            _ => assert_eq!(guest.run(queue, FLUSH, 0, &[]).0, 0),
        }
    }
    daemon.drain();
    copy
}

#[test]
fn a_guest_reads_back_its_writes() {
    need_kickcache!();
    for (mode, features, seed) in [("write-back", EVENT_IDX, 1), ("write-through", 0, 2)] {
        let scratch = Scratch::new();
        let daemon = start(&scratch, mode, 8 * MIB);
        let copy = compare_with_a_copy(&daemon, features, seed, 1);
        daemon.stop();
        assert!(fs::read(scratch.path("origin")).unwrap() == copy, "the origin differs");
    }
}

#[test]
fn discarded_data_stays_gone_or_as_it_was() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = start(&scratch, "write-back", 8 * MIB);
    let mut guest = Guest::connect(&socket(&daemon.spec), 1, EVENT_IDX);
    assert_eq!(guest.run(0, WRITE, 64, &[7; 8192]).0, 0);
    let range = [64_u64.to_le_bytes(), 16_u64.to_le_bytes()].concat();
    assert_eq!(guest.run(0, DISCARD, 0, &range).0, 0);
    let (status, first) = guest.run(0, READ, 64, &[1; 8192]);
    assert_eq!(status, 0);
    assert_eq!(guest.run(0, READ, 64, &[1; 8192]).1, first, "it changes by itself");
    let behind = [(8 * MIB / 512).to_le_bytes(), 1_u64.to_le_bytes()].concat();
    assert_eq!(guest.run(0, DISCARD, 0, &behind).0, 1);
    daemon.stop();
}

#[test]
fn a_guest_sees_its_disk() {
    need_kickcache!();
    let scratch = Scratch::new();
    let mut spec = spec(&scratch, "write-through", 8 * MIB);
    spec.extra.extend(["--guest-block".into(), "4k".into(), "--read-only".into()]);
    let daemon = spec.start();
    let mut guest = Guest::connect(&socket(&daemon.spec), 1, 0);
    let config = guest.config();
    assert_eq!(u64::from_le_bytes(config[..8].try_into().unwrap()), 8 * MIB / 512);
    assert_eq!(u32::from_le_bytes(config[20..24].try_into().unwrap()), 4096);
    assert_eq!(guest.run(0, GET_ID, 0, &[]).0, 1, "GET_ID has nothing that it may write to");
    assert_eq!(guest.run(0, WRITE, 0, &[0; 512]).0, 1, "it may only be read");
    assert_eq!(guest.run(0, 77, 0, &[]).0, 2);
    daemon.stop();
}

/// Without the zeroes behind it.
fn serial(guest: &mut Guest) -> String {
    let (status, serial) = guest.run(0, GET_ID, 0, &[1; 20]);
    assert_eq!(status, 0);
    String::from_utf8(serial).unwrap().trim_end_matches('\0').to_owned()
}

#[test]
fn disks_of_one_daemon_have_serial_numbers_of_their_own() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = Spec::new(&scratch, &scratch.path("none"), "write-back", "16M");
    let volumes = [
        ("customer-database-prod-1", ""),
        ("customer-database-prod-2", ""),
        ("short", ""),
        ("named", "serial = \"a-serial-of-20-bytes\"\n"),
    ];
    let at = |name: &str| scratch.path(&format!("{name}.vhost"));
    let mut config =
        format!("control = {:?}\n[[cache]]\ndevice = {:?}\nsize = \"16M\"\n", spec.control(), spec.cache);
    for (name, serial) in volumes {
        let origin = scratch.sparse(name, 8 * MIB);
        config += &format!("[[cache.volume]]\nname = {name:?}\norigin = {origin:?}\n{serial}");
        config += &format!("vhost-user = {:?}\nnbd = [\"unix:{}.sock\"]\n", at(name), origin.display());
    }
    let file = scratch.path("config.toml");
    fs::write(&file, &config).unwrap();
    let arguments = || vec!["serve".into(), "--config".into(), file.clone().into()];
    let sockets = [scratch.path("short.sock")];
    let daemon = Daemon::start(guarded(KICKCACHE, arguments()), spec.clone(), &sockets);
    let serials = volumes.map(|(name, _)| serial(&mut Guest::connect(&at(name), 1, 0)));
    assert!(serials[0] != serials[1] && serials[0].starts_with("customer-da-"), "{serials:?}");
    assert_eq!(serials[2..], ["short", "a-serial-of-20-bytes"]);
    daemon.stop();
    fs::write(&file, config.replace("a-serial-of-20-bytes", "short")).unwrap();
    let said = refused("one serial number twice", &arguments());
    assert!(said.contains("`short` and `named` have the serial number short"), "{said}");
}

/// Requests in flight on several queues; cells contain their version.
struct Writer {
    guest: Guest,
    rng: Rng,
    /// For each cell: the last version sent, and the last version acknowledged.
    cells: Vec<(u64, u64)>,
    /// For each slot of each queue: kind, cell and version.
    jobs: Vec<Option<(u32, usize, u64)>>,
    version: u64,
}

const QUEUES: u16 = 2;
const WINDOW: usize = 32;
const CELL: usize = 4096;

impl Writer {
    fn new(guest: Guest, cells: usize) -> Writer {
        let jobs = vec![None; usize::from(QUEUES * guest::SLOTS)];
        Writer { guest, rng: Rng::new(7), cells: vec![(0, 0); cells], jobs, version: 0 }
    }

    fn job(&mut self, queue: u16, slot: u16) -> &mut Option<(u32, usize, u64)> {
        &mut self.jobs[usize::from(queue * guest::SLOTS + slot)]
    }

    fn fill(&mut self, queue: u16) {
        while self.guest.free_slots(queue) > usize::from(guest::SLOTS) - WINDOW {
            let count = self.cells.len() as u64 / u64::from(QUEUES);
            let cell =
                usize::try_from(self.rng.below(count)).unwrap() * usize::from(QUEUES) + usize::from(queue);
            let (sent, acknowledged) = self.cells[cell];
            let kind = match self.rng.below(20) {
                0 => FLUSH,
                1..=9 => READ,
                _ if sent != acknowledged => READ,
                _ => WRITE,
            };
            let mut data = vec![0; if kind == FLUSH { 0 } else { CELL }];
            if kind == WRITE {
                self.version += 1;
                self.cells[cell].0 = self.version;
                cells::fill(&mut data, cell as u64, self.version);
            }
            let version = if kind == READ { acknowledged } else { self.version };
            let slot = self.guest.submit(queue, kind, (cell * CELL / 512) as u64, &data);
            *self.job(queue, slot) = Some((kind, cell, version));
        }
        self.guest.kick(queue);
    }

    fn take(&mut self, queue: u16, limit: Duration) -> usize {
        let Some(ended) = self.guest.wait(queue, limit) else { return 0 };
        for request in &ended {
            let (kind, cell, version) = self.job(queue, request.slot).take().expect("an answer to a request");
            assert_eq!(request.status, 0, "a guest saw an error");
            match kind {
                WRITE => self.cells[cell].1 = version,
                READ => self.check(queue, request.slot, cell, version),
                _ => {}
            }
        }
        ended.len()
    }

    /// A read returns the version that was acknowledged when it began, or any version that was sent since.
    fn check(&self, queue: u16, slot: u16, cell: usize, oldest: u64) {
        let found = cells::version(&self.guest.payload(queue, slot, CELL), cell as u64).unwrap();
        let newest = self.cells[cell].0;
        assert!(
            (oldest..=newest).contains(&found),
            "cell {cell} has version {found}, not {oldest} to {newest}"
        );
    }

    fn run(&mut self, requests: usize) {
        let mut done = 0;
        while done < requests {
            for queue in 0..QUEUES {
                self.fill(queue);
                done += self.take(queue, Duration::from_millis(20));
            }
        }
    }

    fn finish(&mut self) {
        for queue in 0..QUEUES {
            while self.guest.free_slots(queue) < usize::from(guest::SLOTS) {
                assert!(self.take(queue, ANSWER_TIME_MAX) > 0, "requests in flight hang");
            }
        }
    }

    fn read_all(&mut self) {
        for cell in 0..self.cells.len() {
            let (status, data) = self.guest.run(0, READ, (cell * CELL / 512) as u64, &[0; CELL]);
            assert_eq!(status, 0);
            let (sent, acknowledged) = self.cells[cell];
            let found = cells::version(&data, cell as u64).unwrap();
            assert!(
                (acknowledged..=sent).contains(&found),
                "cell {cell}: version {found}, {acknowledged} was acknowledged"
            );
        }
    }
}

/// `KICKCACHE_IT_KILLS` sets another number.
fn kills() -> u64 {
    std::env::var("KICKCACHE_IT_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(6)
}

#[test]
fn a_guest_goes_on_when_its_daemon_was_killed() {
    need_kickcache!();
    let scratch = Scratch::new();
    // More cells than the cache holds, so that misses and hits are in flight together.
    let mut daemon = start(&scratch, "write-back", 64 * MIB);
    let mut writer = Writer::new(Guest::connect(&socket(&daemon.spec), QUEUES, EVENT_IDX), 12_000);
    for round in 0..kills() {
        let requests = 200 + usize::try_from(writer.rng.below(2000)).unwrap();
        writer.run(requests);
        for queue in 0..QUEUES {
            writer.fill(queue);
        }
        daemon = daemon.kill().start();
        writer.guest.reconnect();
        if round % 2 == 0 {
            writer.finish();
        }
    }
    writer.finish();
    writer.read_all();
    daemon.stop();
}

#[test]
fn a_guest_waits_while_its_daemon_is_stopped() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = start(&scratch, "write-through", 16 * MIB);
    let mut writer = Writer::new(Guest::connect(&socket(&daemon.spec), QUEUES, EVENT_IDX), 2000);
    writer.run(500);
    let daemon = daemon.stop().start();
    writer.guest.reconnect();
    writer.run(500);
    writer.finish();
    let base = writer.guest.stop_queue(0);
    assert_eq!(base, u32::from(u16::try_from(base).unwrap()));
    writer.guest.disconnect();
    writer.guest.reconnect();
    writer.run(200);
    writer.finish();
    writer.read_all();
    daemon.stop();
}

#[test]
fn a_disabled_write_cache_stays_off_across_a_kill() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = start(&scratch, "write-back", 8 * MIB);
    let mut guest = Guest::connect(&socket(&daemon.spec), 1, 0);
    assert_eq!(guest.config()[32], 1);
    guest.set_write_cache(false);
    assert_eq!(guest.config()[32], 0);
    let daemon = daemon.kill().start();
    guest.reconnect();
    assert_eq!(guest.config()[32], 0);
    guest.set_write_cache(true);
    assert_eq!((guest.config()[32], guest.run(0, WRITE, 0, &[1; 512]).0), (1, 0));
    daemon.stop();
}

#[test]
fn a_second_front_end_waits_for_the_first_to_leave() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = start(&scratch, "write-back", 8 * MIB);
    let path = socket(&daemon.spec);
    let mut first = Guest::connect(&path, 1, 0);
    assert_eq!(first.run(0, WRITE, 0, &[3; 512]).0, 0);
    let second = std::thread::spawn(move || Guest::connect(&path, 1, 0).run(0, READ, 0, &[0; 512]));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(first.run(0, WRITE, 0, &[4; 512]).0, 0);
    first.disconnect();
    assert_eq!(second.join().unwrap(), (0, vec![4; 512]));
    daemon.stop();
}

#[test]
fn an_invalid_front_end_harms_no_others() {
    need_kickcache!();
    let scratch = Scratch::new();
    let mut daemon = start(&scratch, "write-back", 8 * MIB);
    let path = socket(&daemon.spec);
    for bytes in [
        &[0xff; 64][..],
        &[1, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0, 0],
        &[5, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 9],
    ] {
        let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
        std::io::Write::write_all(&mut stream, bytes).unwrap();
    }
    let mut slow = std::os::unix::net::UnixStream::connect(&path).unwrap();
    std::io::Write::write_all(&mut slow, &[1, 0, 0, 0, 1]).unwrap();
    daemon.connect();
    drop(slow);
    assert_eq!(Guest::connect(&path, 1, 0).run(0, FLUSH, 0, &[]).0, 0);
    assert!(daemon.is_alive());
    daemon.signal(Signal::TERM);
    let status = daemon.wait();
    daemon.check_end(status);
}

/// A guest whose memory is cut short loses its disk; other clients do not.
fn lose_memory(cut: Cut) {
    let scratch = Scratch::new();
    let mut daemon = start(&scratch, "write-back", 8 * MIB);
    let path = socket(&daemon.spec);
    let mut client = daemon.connect();
    let mut guest = Guest::connect(&path, 1, 0);
    assert_eq!(guest.run(0, WRITE, 0, &[7; 8192]).0, 0);
    guest.enable(0, false);
    guest.submit(0, WRITE, 0, &[8; 8192]);
    guest.cut_memory(cut);
    guest.enable(0, true);
    guest.kick_blindly(0);
    guest.wait_for_end();
    assert_eq!(client.read(0, 8192), vec![7; 8192], "something was stored that nobody wrote");
    client.write(4096, &[9; 4096]);
    let mut next = Guest::connect(&path, 1, 0);
    assert_eq!(next.run(0, READ, 8, &[0; 4096]), (0, vec![9; 4096]));
    drop(next);
    let log = daemon.log();
    assert_eq!(log.matches("it was cut short while it was shared").count(), 1, "{log}");
    assert_eq!(log.matches(" WARN ").count() + log.matches("ERROR").count(), 1, "{log}");
    assert!(daemon.is_alive());
    drop(client);
    daemon.stop();
}

#[test]
fn a_guest_with_truncated_payload_loses_only_its_own_disk() {
    need_kickcache!();
    lose_memory(Cut::Payload);
}

#[test]
fn a_guest_with_lost_memory_loses_only_its_own_disk() {
    need_kickcache!();
    lose_memory(Cut::All);
}

#[test]
fn a_guest_with_lost_inflight_memory_is_disconnected() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = start(&scratch, "write-back", 8 * MIB);
    let mut guest = Guest::connect(&socket(&daemon.spec), 1, 0);
    guest.bring_own_inflight();
    assert_eq!(guest.run(0, WRITE, 0, &[7; 4096]).0, 0);
    guest.enable(0, false);
    guest.submit(0, WRITE, 0, &[8; 4096]);
    guest.cut_inflight();
    guest.enable(0, true);
    guest.kick_blindly(0);
    guest.wait_for_end();
    assert_eq!(daemon.connect().read(0, 4096), vec![7; 4096]);
    daemon.stop();
}
