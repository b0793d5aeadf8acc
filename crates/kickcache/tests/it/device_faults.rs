//! The promises about devices that fail.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::client::{Client, FLUSH, READ, Request, WRITE};
use crate::daemon::{Daemon, VOLUME};
use crate::faulty::FaultyDisks;
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, need_kickcache};

const EIO: u32 = 5;
const BLOCKS: u64 = 64;
/// So far that no miss reads ahead another block.
const STRIDE: u64 = 128 << 10;
const ORIGIN_BYTES: u64 = 16 * MIB;

/// The daemon is dropped first.
struct Bench {
    daemon: Daemon,
    disks: FaultyDisks,
    _scratch: Scratch,
}

/// Skips the test if FUSE is not available.
macro_rules! bench {
    ($mode:literal) => {{
        need_kickcache!();
        let scratch = Scratch::new();
        let disks = faulty_disks!(&scratch, 8 * MIB, ORIGIN_BYTES);
        let mut spec = disks.spec(&scratch, $mode);
        spec.extra = vec!["--fill-window-max".into(), "4K".into()];
        Bench { daemon: spec.start(), disks, _scratch: scratch }
    }};
}

fn content(block: u64, version: u64) -> Vec<u8> {
    Rng::new(block << 32 | version).bytes(4096)
}

fn place(block: u64) -> u64 {
    block * STRIDE
}

fn read(client: &mut Client, block: u64) -> Result<Vec<u8>, u32> {
    let request = Request { command: READ, flags: 0, offset: place(block), length: 4096 };
    let reply = client.call(request, &[]).unwrap();
    if reply.errno == 0 { Ok(reply.data) } else { Err(reply.errno) }
}

fn write(client: &mut Client, block: u64, version: u64) -> u32 {
    let request = Request { command: WRITE, flags: 0, offset: place(block), length: 4096 };
    client.call(request, &content(block, version)).unwrap().errno
}

fn flush(client: &mut Client) -> u32 {
    client.call(Request { command: FLUSH, ..Request::default() }, &[]).unwrap().errno
}

fn write_all(client: &mut Client, version: u64) {
    for block in 0..BLOCKS {
        assert_eq!(write(client, block, version), 0, "block {block}");
    }
    client.flush();
}

fn check_all(client: &mut Client, version: u64) {
    for block in 0..BLOCKS {
        assert!(read(client, block) == Ok(content(block, version)), "block {block}");
    }
}

fn wait_for(daemon: &Daemon, name: &str, is_right: impl Fn(u64) -> bool) {
    let start = Instant::now();
    while !is_right(daemon.volume_count(name)) {
        assert!(start.elapsed() < Duration::from_secs(20), "{name} is {}", daemon.volume_count(name));
        thread::sleep(Duration::from_millis(50));
    }
}

fn clean_blocks(bench: &Bench) -> Client {
    let mut client = bench.daemon.connect();
    write_all(&mut client, 1);
    bench.daemon.drain();
    client
}

/// A fault prevents writeback.
fn dirty_blocks(bench: &Bench) -> Client {
    bench.disks.tell("fault origin write eio");
    let mut client = bench.daemon.connect();
    write_all(&mut client, 1);
    client
}

#[test]
fn an_unreadable_clean_block_is_read_from_the_origin() {
    let bench = bench!("write-through");
    let mut client = clean_blocks(&bench);
    // After each failure the daemon may read the superblock, which fails as well.
    bench.disks.tell("fault cache read eio times 6");
    check_all(&mut client, 1);
    assert!(bench.daemon.volume_count("healed_blocks") >= 3);
}

#[test]
fn a_corrupt_clean_block_is_read_from_the_origin() {
    let bench = bench!("write-through");
    let mut client = clean_blocks(&bench);
    bench.disks.tell("fault cache read rot");
    check_all(&mut client, 1);
    // If the cache device is slower than the origin, hits are read from the origin.
    let [healed, origin_reads] =
        ["healed_blocks", "origin_reads"].map(|name| bench.daemon.volume_count(name));
    assert!(healed > 0 && origin_reads >= BLOCKS, "{healed} healed, {origin_reads} reads");
    bench.disks.tell("clear");
    check_all(&mut client, 1);
}

#[test]
fn a_damaged_dirty_block_is_an_error_and_stays() {
    let bench = bench!("write-back");
    let mut client = dirty_blocks(&bench);
    // A restart, so that no block is read from memory.
    let daemon = bench.daemon.kill().start();
    drop(client);
    client = daemon.connect();
    bench.disks.tell("fault cache read rot times 1");
    let errors = (0..BLOCKS).filter(|block| read(&mut client, *block).is_err()).count();
    assert_eq!(errors, 1, "reads that failed");
    assert_eq!(daemon.volume_count("damaged_blocks"), 1);
    assert!(daemon.volume_count("dirty_bytes") > 0, "the damaged block was dropped");
    bench.disks.tell("clear");
    let daemon = daemon.kill().start();
    check_all(&mut daemon.connect(), 1);
    daemon.drain();
}

#[test]
fn a_stop_with_lost_blocks_does_not_end_well() {
    let bench = bench!("write-back");
    drop(dirty_blocks(&bench));
    let mut daemon = bench.daemon.kill().start();
    bench.disks.tell("fault cache read rot times 1");
    let mut client = daemon.connect();
    (0..BLOCKS).for_each(|block| drop(read(&mut client, block)));
    assert_eq!(daemon.volume_count("damaged_blocks"), 1);
    drop(client);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait().code(), Some(8), "{}", daemon.log());
    assert!(daemon.log().contains("1 dirty block is lost, because"), "{}", daemon.log());
}

#[test]
fn an_unreadable_dirty_block_is_an_error() {
    let bench = bench!("write-back");
    drop(dirty_blocks(&bench));
    let daemon = bench.daemon.kill().start();
    let mut client = daemon.connect();
    bench.disks.tell("fault cache read eio times 1");
    let errors: Vec<u32> = (0..BLOCKS).filter_map(|block| read(&mut client, block).err()).collect();
    assert_eq!(errors, [EIO]);
}

#[test]
fn a_write_that_the_cache_device_refuses_goes_elsewhere() {
    for mode in ["write-through", "write-back"] {
        let bench = match mode {
            "write-back" => bench!("write-back"),
            _ => bench!("write-through"),
        };
        let mut client = clean_blocks(&bench);
        bench.disks.tell("fault cache write eio 1400000+9000000 times 1");
        write_all(&mut client, 2);
        check_all(&mut client, 2);
        assert!(bench.daemon.status().to_string().contains("\"health\":\"good\""));
        bench.daemon.drain();
        let daemon = bench.daemon.kill().start();
        check_all(&mut daemon.connect(), 2);
    }
}

#[test]
fn a_cache_device_that_refuses_writes_goes_out_of_service() {
    let bench = bench!("write-through");
    let mut client = clean_blocks(&bench);
    bench.disks.tell("fault cache write eio");
    for version in 2..6 {
        write_all(&mut client, version);
        check_all(&mut client, version);
    }
    assert!(bench.daemon.status().to_string().contains("out-of-service"));
}

/// As an SSD at the end of its life.
#[test]
fn a_cache_device_that_refuses_writes_can_be_drained() {
    let bench = bench!("write-back");
    let mut client = dirty_blocks(&bench);
    bench.disks.tell("fault cache write eio");
    for block in BLOCKS..2 * BLOCKS {
        write(&mut client, block, 1);
    }
    assert!(bench.daemon.status().to_string().contains("out-of-service"));
    bench.disks.tell("clear");
    bench.disks.tell("fault cache write eio");
    bench.daemon.drain();
    assert_eq!(bench.daemon.volume_count("dirty_bytes"), 0);
    check_all(&mut client, 1);
    assert_eq!(flush(&mut client), 0);
}

#[test]
fn a_full_file_system_below_the_cache_is_no_corruption() {
    let bench = bench!("write-back");
    let mut client = clean_blocks(&bench);
    bench.disks.tell("fault cache write enospc");
    for version in 2..5 {
        for block in 0..BLOCKS {
            assert_eq!(write(&mut client, block, version), 0);
        }
        check_all(&mut client, version);
    }
}

#[test]
fn a_lost_clean_cache_device_is_not_missed() {
    let bench = bench!("write-through");
    let mut client = clean_blocks(&bench);
    bench.disks.tell("fault cache any eio");
    check_all(&mut client, 1);
    for version in 2..4 {
        for block in 0..BLOCKS {
            assert_eq!(write(&mut client, block, version), 0);
        }
        check_all(&mut client, version);
    }
    assert_eq!(flush(&mut client), 0, "the origin has everything and can flush it");
}

#[test]
fn a_lost_dirty_cache_device_gives_errors_without_old_data() {
    let bench = bench!("write-back");
    let mut client = clean_blocks(&bench);
    bench.disks.tell("fault origin write eio");
    for block in 0..BLOCKS / 2 {
        assert_eq!(write(&mut client, block, 2), 0);
    }
    client.flush();
    bench.disks.tell("fault cache any gone");
    for block in 0..BLOCKS {
        let found = read(&mut client, block);
        let is_dirty = block < BLOCKS / 2;
        // Blocks in memory may still be served; a read of a dirty block must never return the data of the
        // origin.
        let is_right = match found {
            Ok(data) if is_dirty => data == content(block, 2),
            Ok(data) => data == content(block, 1),
            Err(errno) => is_dirty && errno == EIO,
        };
        assert!(is_right, "block {block}");
    }
    assert_eq!(write(&mut client, 60, 3), EIO, "the origin refuses writes too");
    assert_eq!(flush(&mut client), EIO, "dirty blocks cannot be made durable");
    let log = bench.daemon.log();
    assert!(log.contains("blocks of v are dirty and on"), "nobody will know what was lost: {log}");
}

#[test]
fn an_origin_error_is_reported_without_other_changes() {
    let bench = bench!("write-through");
    let mut client = clean_blocks(&bench);
    bench.disks.tell("fault origin read eio");
    let absent = Request { command: READ, flags: 0, offset: 64 << 10, length: 4096 };
    assert_eq!(client.call(absent, &[]).unwrap().errno, EIO);
    check_all(&mut client, 1);
    bench.disks.tell("clear");
    assert_eq!(client.call(absent, &[]).unwrap().errno, 0);
    bench.disks.tell("fault origin write eio");
    assert_eq!(write(&mut client, 1, 9), EIO);
    bench.disks.tell("clear");
    assert_eq!(write(&mut client, 1, 2), 0);
    assert!(read(&mut client, 1) == Ok(content(1, 2)));
    bench.disks.tell("fault origin flush eio");
    assert_eq!(write(&mut client, 2, 2), 0);
    assert_eq!(flush(&mut client), EIO);
    bench.disks.tell("clear");
    // A background flush may have failed too, and this error is reported once.
    assert!(flush(&mut client) == 0 || flush(&mut client) == 0);
    assert!(read(&mut client, 2) == Ok(content(2, 2)));
}

#[test]
fn writeback_goes_on_when_the_origin_can_be_written_again() {
    let bench = bench!("write-back");
    let mut client = dirty_blocks(&bench);
    bench.daemon.control(&["drain", VOLUME]);
    wait_for(&bench.daemon, "origin_errors", |errors| errors > 2);
    assert!(bench.daemon.volume_count("dirty_bytes") + bench.daemon.volume_count("unflushed_bytes") > 0);
    check_all(&mut client, 1);
    bench.disks.tell("clear");
    bench.daemon.drain();
    assert_eq!(bench.daemon.volume_count("dirty_bytes"), 0);
}

/// A process cannot be killed while it waits for a disk that hangs.
struct Release<'a>(&'a FaultyDisks);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.tell("clear");
    }
}

#[test]
fn slow_and_hanging_devices_delay_and_do_no_harm() {
    let bench = bench!("write-back");
    let mut client = clean_blocks(&bench);
    bench.disks.tell("fault cache write delay=300 times 3");
    bench.disks.tell("fault origin write delay=300 times 3");
    write_all(&mut client, 2);
    check_all(&mut client, 2);
    bench.daemon.drain();
    let _release = Release(&bench.disks);
    assert_eq!(write(&mut client, 3, 2), 0);
    bench.disks.tell("fault cache flush hang times 1");
    client.send(Request { command: FLUSH, ..Request::default() }, &[]).unwrap();
    thread::sleep(Duration::from_millis(500));
    bench.disks.tell("clear");
    assert_eq!(client.receive().unwrap().errno, 0);
    check_all(&mut client, 2);
}
