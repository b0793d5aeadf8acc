//! kill -9 in the middle of acknowledged writes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, Spec};
use crate::killed::{check, kill_under_writes, ledgers, wait_for_writes};
use crate::ledger::Ledger;
use crate::need_kickcache;
use crate::rng::Rng;
use crate::scratch::{KIB, MIB, Scratch};

const VOLUME_BYTES: u64 = 48 * MIB;
const WRITERS: u64 = 3;
const ROUNDS: u64 = 4;

#[test]
fn acknowledged_writes_survive_kill_in_write_back() {
    survive_kills("write-back", "64M", 4096);
}

#[test]
fn acknowledged_writes_survive_kill_with_a_tiny_cache() {
    survive_kills("write-back", "8M", 4096);
}

#[test]
fn acknowledged_writes_survive_kill_in_write_through() {
    survive_kills("write-through", "16M", 4096);
}

#[test]
fn acknowledged_writes_survive_kill_in_write_around() {
    survive_kills("write-around", "16M", 4096);
}

#[test]
fn acknowledged_writes_of_single_sectors_survive_kill() {
    survive_kills("write-back", "16M", 512);
}

fn survive_kills(mode: &'static str, cache_size: &'static str, cell_bytes: usize) {
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", VOLUME_BYTES);
    let mut ledgers = ledgers(WRITERS, VOLUME_BYTES, cell_bytes);
    let mut spec = Spec::new(&scratch, &origin, mode, cache_size);
    let mut rng = Rng::new(1);
    for round in 0..ROUNDS {
        let daemon = spec.start();
        check(&daemon, &mut ledgers, round);
        spec = write_and_kill(daemon, &mut ledgers, Duration::from_millis(rng.between(150, 900)));
    }
    let daemon = spec.start();
    check(&daemon, &mut ledgers, ROUNDS);
    let daemon = daemon.stop().start();
    check(&daemon, &mut ledgers, ROUNDS + 1);
    daemon.stop();
}

fn write_and_kill(daemon: Daemon, ledgers: &mut [Ledger], after: Duration) -> Spec {
    let begin = |_: &Daemon, done: &AtomicU64| {
        thread::sleep(after);
        wait_for_writes(done, 200);
    };
    kill_under_writes(daemon, ledgers, begin, drop)
}

#[test]
fn the_ledger_notices_lost_writes() {
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", VOLUME_BYTES);
    let spec = Spec::new(&scratch, &origin, "write-around", "16M");
    let before = scratch.path("before");
    let mut ledgers = ledgers(WRITERS, VOLUME_BYTES, 4096);
    let spec = write_and_kill(spec.start(), &mut ledgers[..1], Duration::from_millis(100));
    std::fs::copy(&origin, &before).unwrap();
    let spec = write_and_kill(spec.start(), &mut ledgers[..1], Duration::from_millis(100));

    let daemon = Spec { cache: scratch.path("cache of before"), origin: before, ..spec }.start();
    assert!(ledgers[0].check(&mut daemon.connect()).unwrap_err().contains("was acknowledged"));
}

#[test]
fn the_cache_is_warm_after_kill_and_after_stop() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 512 * MIB);
    // A stream would be bypassed.
    let blocks: Vec<u64> = (0..1000).map(|number| number * 617 % 1000 * 512 * KIB).collect();
    let content = |offset: u64| Rng::new(offset).bytes(4096);
    let file = File::options().write(true).open(&origin).unwrap();
    blocks.iter().for_each(|offset| file.write_all_at(&content(*offset), *offset).unwrap());
    let mut spec = Spec::new(&scratch, &origin, "write-back", "64M");
    spec.extra = vec!["--fill-window-max".into(), "4K".into()];
    let mut daemon = spec.start();
    let (mut client, start) = (daemon.connect(), Instant::now());
    // A promotion may be dropped while the log has no room for it.
    while daemon.volume_count("cached_bytes") < 1000 * 4096 {
        blocks.iter().for_each(|offset| client.promote(*offset, 4096));
        client.flush();
        thread::sleep(Duration::from_millis(300));
        assert!(start.elapsed() < Duration::from_secs(20), "promotion does not come to an end");
    }
    for life in ["kill", "stop"] {
        daemon = if life == "kill" { daemon.kill() } else { daemon.stop() }.start();
        let mut client = daemon.connect();
        for &offset in &blocks {
            assert!(client.read(offset, 4096) == content(offset), "block at {offset} after {life}");
        }
        let hits = daemon.volume_count("hit_blocks");
        assert!(hits >= 990, "only {hits} of 1000 reads hit after {life}");
    }
}
