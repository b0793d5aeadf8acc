//! Dirty blocks that the cache device cannot read.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::bad_input::refused;
use crate::client::{Client, READ, Request, WRITE};
use crate::daemon::{Daemon, VOLUME};
use crate::faulty::FaultyDisks;
use crate::offline_tools::run;
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, need_kickcache};

const EIO: u32 = 5;
const ORIGIN_BYTES: u64 = 64 * MIB;
/// Dirty blocks, in about half of the cache.
const DIRTY: u64 = 4_000;
const BAD: u64 = 2_000;

fn content(block: u64, version: u64) -> Vec<u8> {
    Rng::new(block << 32 | version).bytes(4096)
}

fn place(block: u64) -> u64 {
    block * 4096
}

fn read(client: &mut Client, block: u64) -> Result<Vec<u8>, u32> {
    let request = Request { command: READ, flags: 0, offset: place(block), length: 4096 };
    let reply = client.call(request, &[]).unwrap();
    if reply.errno == 0 { Ok(reply.data) } else { Err(reply.errno) }
}

fn write(client: &mut Client, block: u64, version: u64) {
    let request = Request { command: WRITE, flags: 0, offset: place(block), length: 4096 };
    assert_eq!(client.call(request, &content(block, version)).unwrap().errno, 0, "block {block}");
}

/// Dirty blocks, in about half of the cache; the origin takes no writes.
fn dirty(scratch: &Scratch, disks: &FaultyDisks) -> Daemon {
    let mut spec = disks.spec(scratch, "write-back");
    spec.cache_size = "32M";
    let daemon = spec.start();
    disks.tell("fault origin write eio");
    let mut client = daemon.connect();
    // A long stream bypasses the log.
    for first in (0..DIRTY).step_by(16).map(|at| at * 7 % DIRTY) {
        let data: Vec<u8> = (first..first + 16).flat_map(|block| content(block, 1)).collect();
        client.write(place(first), &data);
    }
    client.flush();
    daemon
}

fn check_others(client: &mut Client) {
    let mut others = (0..DIRTY).filter(|block| *block != BAD);
    assert!(others.all(|block| read(client, block) == Ok(content(block, 1))));
}

/// The offsets of the blocks on a cache device that satisfy a predicate.
fn find_all(device: &[u8], is_wanted: impl Fn(&[u8]) -> bool) -> Vec<usize> {
    let blocks = device.chunks_exact(4096).enumerate();
    blocks.filter(|(_, block)| is_wanted(block)).map(|(number, _)| number * 4096).collect()
}

/// The offset of the last block on the cache device that satisfies a predicate.
fn find(scratch: &Scratch, is_wanted: impl Fn(&[u8]) -> bool) -> usize {
    let below = fs::read(scratch.path("cache below")).unwrap();
    below.chunks_exact(4096).rposition(is_wanted).unwrap() * 4096
}

/// Dirty blocks, with one of these unreadable in its place; the origin accepts writes.
fn with_bad_spot(scratch: &Scratch, disks: &FaultyDisks) -> Daemon {
    let daemon = dirty(scratch, disks);
    let at = find(scratch, |block| block == content(BAD, 1));
    disks.tell("clear");
    disks.tell(&format!("fault cache read eio {at}+4096"));
    daemon
}

#[test]
fn an_unreadable_dirty_block_is_lost_alone_and_named() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 32 * MIB, ORIGIN_BYTES);
    let daemon = with_bad_spot(&scratch, &disks);
    let mut client = daemon.connect();
    let said = daemon.spec.refusal(&["drain", VOLUME, "--wait"], 1);
    let extent = format!("byte offset + length: {} + 4096;", place(BAD));
    assert!(said.contains(" is lost") && said.contains(&extent), "{said}");
    let status = daemon.status();
    let cache = &status["caches"][0];
    let volume = &cache["volumes"][0];
    assert_eq!((&volume["dirty_bytes"], &volume["damaged_bytes"]), (&4096.into(), &4096.into()), "{status}");
    assert_eq!((&cache["retired_segments"], &cache["health"]), (&1.into(), &"good".into()), "{status}");
    assert!(daemon.control(&["status"]).contains("DAMAGED"), "{}", daemon.control(&["status"]));
    let errors = cache["counters"]["errors"].as_u64().unwrap();
    assert!(errors < 20, "{errors} reads of one bad block");
    assert_eq!(read(&mut client, BAD), Err(EIO));
    check_others(&mut client);
    let start = Instant::now();
    while !daemon.log().contains("1 dirty block of v is lost") {
        assert!(start.elapsed() < Duration::from_secs(60), "{}", daemon.log());
        thread::sleep(Duration::from_millis(50));
    }
    write(&mut client, BAD, 2);
    assert!(read(&mut client, BAD) == Ok(content(BAD, 2)));
    daemon.drain();
    assert_eq!(daemon.volume_count("damaged_bytes"), 0);
    daemon.stop();
}

#[test]
fn writes_and_a_stop_work_with_an_unreadable_block() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 32 * MIB, ORIGIN_BYTES);
    let mut daemon = with_bad_spot(&scratch, &disks);
    let mut client = daemon.connect();
    let mut rng = Rng::new(1);
    // More writes than the cache holds.
    let (mut rounds, mut rounds_after) = (0, 0);
    while rounds_after < 20 {
        rounds += 1;
        rounds_after += u64::from(daemon.volume_count("damaged_bytes") > 0);
        assert!(rounds < 1_000, "nobody has read the bad block: {}", daemon.status());
        for block in (0..500).map(|_| rng.below(DIRTY)).filter(|block| *block != BAD) {
            write(&mut client, block, 2);
        }
    }
    let errors = daemon.status()["caches"][0]["counters"]["errors"].as_u64().unwrap();
    assert!(errors < 20, "{errors} reads of one bad block");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait().code(), Some(8), "{}", daemon.log());
    let log = daemon.log();
    let last = log.lines().find(|line| line.contains("the server has stopped")).unwrap();
    assert!(
        last.contains("1 dirty block is lost") && last.contains("all other acknowledged writes"),
        "{last}"
    );
}

#[test]
fn a_start_after_a_kill_skips_unreadable_blocks_and_summaries() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 32 * MIB, ORIGIN_BYTES);
    let daemon = dirty(&scratch, &disks);
    let mut client = daemon.connect();
    write(&mut client, BAD, 2);
    client.flush();
    let spec = daemon.kill();
    let block = find(&scratch, |block| block == content(BAD, 2));
    let summary = find(&scratch, |block| block.starts_with(b"KICKSUMM"));
    disks.tell(&format!("fault cache read eio {block}+4096"));
    disks.tell(&format!("fault cache read eio {summary}+4096"));
    let daemon = spec.start();
    let mut client = daemon.connect();
    assert_eq!(read(&mut client, BAD), Err(EIO));
    check_others(&mut client);
    assert_eq!(daemon.volume_count("dirty_bytes"), DIRTY * 4096);
    write(&mut client, BAD, 3);
    assert!(read(&mut client, BAD) == Ok(content(BAD, 3)));
    disks.tell("clear");
    daemon.drain();
    daemon.stop();
}

#[test]
fn a_start_is_refused_without_a_needed_log_part() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 32 * MIB, ORIGIN_BYTES);
    let daemon = dirty(&scratch, &disks);
    write(&mut daemon.connect(), BAD, 2);
    let spec = daemon.kill();
    let header = find(&scratch, |block| block == content(BAD, 2)) - 4096;
    let journal = find(&scratch, |block| block.starts_with(b"KICKJRNL"));
    for (place, named) in [(header, "that may be a batch header"), (journal, "of its journal")] {
        disks.tell(&format!("fault cache read eio {place}+4096"));
        assert!(spec.try_start().is_none(), "{named}");
        let log = fs::read_to_string(spec.dir.join("daemon.log")).unwrap();
        assert!(log.contains("the cache device cannot read") && log.contains(named), "{log}");
        assert!(log.contains("--repair --accept-older --state"), "{log}");
        disks.tell("clear");
    }
    let daemon = spec.start();
    assert!(read(&mut daemon.connect(), BAD) == Ok(content(BAD, 2)));
    daemon.drain();
    daemon.stop();
}

/// Zeroes replace a block of the journal that was durable; then the whole journal.
#[test]
fn a_start_is_refused_without_a_part_of_the_journal() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 32 * MIB, ORIGIN_BYTES);
    let daemon = dirty(&scratch, &disks);
    disks.tell("clear");
    // One block of the journal after the other becomes durable.
    let mut client = daemon.connect();
    for version in 2..6 {
        client.trim(place(DIRTY + version), 4096);
        client.flush();
        write(&mut client, BAD, version);
        client.flush();
    }
    let spec = daemon.kill();
    let below = scratch.path("cache below");
    let whole = fs::read(&below).unwrap();
    let journal = find_all(&whole, |block| block.starts_with(b"KICKJRNL"));
    assert!(journal.len() > 3, "{journal:?}");
    let second = journal[1]..journal[1] + 4096;
    // 1/100 of the device.
    let ring = 1 << 20..(1 << 20) + (32 << 20) / 100 / 4096 * 4096;
    for (gone, named) in [(second, "of its journal was whole once"), (ring, "does not say that segment 0 ")] {
        let mut damaged = whole.clone();
        damaged[gone].fill(0);
        fs::write(&below, damaged).unwrap();
        assert!(spec.try_start().is_none(), "{named}");
        let log = fs::read_to_string(spec.dir.join("daemon.log")).unwrap();
        assert!(log.contains(named) && log.contains("--repair --accept-older --state"), "{log}");
    }
    go_on_with_what_is_left(&below);
    let daemon = spec.start();
    let mut client = daemon.connect();
    assert!(read(&mut client, BAD) == Ok(content(BAD, 5)));
    check_others(&mut client);
    daemon.drain();
    daemon.stop();
}

/// A log with lost parts is repaired only with `--accept-older`.
pub(crate) fn go_on_with_what_is_left(cache: &Path) {
    let before = fs::read(cache).unwrap();
    let check = |more: &[&str]| {
        let words = [&["check", cache.to_str().unwrap()], more].concat();
        run(&words).status.code()
    };
    assert_eq!((check(&[]), check(&["--repair"])), (Some(6), Some(6)));
    assert!(fs::read(cache).unwrap() == before, "nothing is changed");
    assert_eq!(check(&["--repair", "--accept-older"]), Some(6));
    assert_eq!(check(&[]), Some(0));
}

#[test]
fn a_service_mark_that_cannot_be_read_retires_no_device() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 32 * MIB, ORIGIN_BYTES);
    let spec = disks.spec(&scratch, "write-back");
    let daemon = spec.start();
    daemon.connect().write(0, &content(0, 1));
    let spec = daemon.stop();
    for mark in [16_384, 540_672] {
        disks.tell(&format!("fault cache read eio {mark}+4096"));
        let said = refused("an unreadable mark", &spec.arguments());
        assert!(
            said.contains("service marks cannot be read") && said.contains("the device is unchanged"),
            "{said}"
        );
        disks.tell("clear");
    }
    let daemon = spec.start();
    assert!(read(&mut daemon.connect(), 0) == Ok(content(0, 1)));
    assert_eq!(daemon.status()["caches"][0]["health"], "good");
    daemon.stop();
}

#[test]
fn an_unreadable_superblock_copy_is_tolerated() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 32 * MIB, ORIGIN_BYTES);
    let mut spec = disks.spec(&scratch, "write-back");
    for (version, copy) in [0, 512 << 10].into_iter().enumerate() {
        let version = version as u64;
        let daemon = spec.start();
        write(&mut daemon.connect(), 0, version);
        spec = daemon.stop();
        disks.tell(&format!("fault cache read eio {copy}+4096"));
        let daemon = spec.start();
        assert!(read(&mut daemon.connect(), 0) == Ok(content(0, version)), "copy at {copy}");
        spec = daemon.stop();
        disks.tell("clear");
    }
}
