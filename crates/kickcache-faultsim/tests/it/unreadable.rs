//! If the cache device cannot read a block, only this block is lost, and only if it was dirty.

#![expect(clippy::unwrap_used, reason = "a test may fail by a panic")]

use kickcache_engine::config::UNREADABLE_TRIES;
use kickcache_engine::device::Device;
use kickcache_engine::request::{Errno, Operation};
use kickcache_engine::stats::CacheHealth;
use kickcache_engine::time::Duration;
use kickcache_engine::units::{BLOCK_SIZE, BlockIndex, BlockKey, ByteExtent};
use kickcache_faultsim::plan::faults::{Faults, Outage, Trouble};

use crate::stage::{Stage, VOLUME, blocks, dirty_plan};

/// Reads of runs that contain the bad block, in addition to the tries of the block alone.
const RUNS_MAX: u64 = 8;

/// The first 1,000 blocks are dirty in a log of 8 MiB, and `block` is unreadable in its place.
fn with_bad_spot(block: u64) -> Stage {
    let mut stage = Stage::with(dirty_plan(60), 60);
    stage.open();
    for first in (0..1_000).step_by(50) {
        stage.write(blocks(first, 50), 2).unwrap();
    }
    stage.flush().unwrap();
    stage.damage(block, 2);
    stage
}

fn failed(stage: &mut Stage) -> u64 {
    stage.host.as_mut().unwrap().bad_spots().failed()
}

fn damaged(stage: &Stage) -> u64 {
    stage.status().volumes[0].damaged_blocks
}

fn drain(stage: &mut Stage) {
    let now = stage.now();
    stage.engine_mut().drain(now, VOLUME);
    stage.until(|stage| stage.dirty() == damaged(stage));
}

#[test]
fn reclaim_goes_round_a_dirty_block_that_cannot_be_read() {
    let mut stage = with_bad_spot(500);
    // Since the origin refuses writes, reclaim moves the dirty blocks.
    let (from, until) = (stage.now(), stage.now().plus(Duration::from_millis(1_000_000)));
    let outage = Outage { device: Device::Origin(VOLUME), trouble: Trouble::Refuses, from, until };
    stage.set_faults(Faults::default(), vec![outage]);
    for round in 0..40 {
        for first in (0..1_000).step_by(4) {
            stage.write(blocks(first + 1, 3), 3 + round).unwrap();
        }
        stage.pass(400);
    }
    let carried = stage.status().counters.reinserted_blocks;
    assert!(carried > 200, "reclaim carried {carried} blocks on");
    let tries = failed(&mut stage);
    assert!(tries <= u64::from(UNREADABLE_TRIES) + RUNS_MAX, "{tries} reads of one bad block");
    assert_eq!(stage.status().health, CacheHealth::Good);
    let found: Vec<_> = (490..510).map(|block| stage.read(block)).collect();
    let version = |block| match block {
        500 => Err(Errno::Io),
        other if other % 4 == 0 => Ok(2),
        _ => Ok(42),
    };
    let expected: Vec<_> = (490..510).map(version).collect();
    assert_eq!(found, expected);
    stage.stop();
}

#[test]
fn a_drain_skips_an_unreadable_block_and_names_it() {
    let mut stage = with_bad_spot(500);
    let before = stage.now();
    drain(&mut stage);
    assert!(stage.now().since(before).as_nanos() < 10_000_000_000, "it takes {:?}", stage.now());
    assert_eq!((stage.dirty(), damaged(&stage)), (1, 1));
    assert_eq!(stage.engine().damaged_blocks(), [BlockKey::new(VOLUME, BlockIndex::new(500))]);
    assert_eq!(stage.status().retired_segments, 1);
    let tries = failed(&mut stage);
    assert!(tries <= u64::from(UNREADABLE_TRIES) + RUNS_MAX, "{tries} reads of one bad block");
    assert_eq!(stage.read(500), Err(Errno::Io));
    assert_eq!(failed(&mut stage), tries);
    assert_eq!(stage.on_origin(500), Some(0));
    assert_eq!((stage.on_origin(499), stage.on_origin(501)), (Some(2), Some(2)));
    let part = ByteExtent { start: 500 * BLOCK_SIZE + 512, length: 512 };
    assert_eq!(stage.write(part, 3), Err(Errno::Io));
    stage.write(blocks(500, 1), 4).unwrap();
    assert_eq!((damaged(&stage), stage.read(500)), (0, Ok(4)));
    stage.drain();
    assert_eq!(stage.on_origin(500), Some(4));
    stage.stop();
}

#[test]
fn a_stop_ends_while_a_block_cannot_be_read() {
    for millis in [0, 20, 900, 3_000] {
        let mut stage = with_bad_spot(500);
        let now = stage.now();
        stage.engine_mut().drain(now, VOLUME);
        stage.pass(millis);
        let before = stage.now();
        stage.stop();
        assert!(stage.now().since(before).as_nanos() < 2_000_000_000, "after {millis} ms");
    }
}

/// If a run contains a clean block that is unreadable, the other blocks of the run are readable, dirty or not.
#[test]
fn an_unreadable_clean_block_is_read_from_the_origin() {
    let mut stage = Stage::with(dirty_plan(61), 61);
    stage.open();
    stage.write(blocks(0, 64), 2).unwrap();
    stage.drain();
    stage.damage(30, 2);
    let id = stage.ask(Operation::Read, blocks(0, 64), 0);
    let read = stage.finish(id).unwrap();
    assert!((0..).zip(&read.blocks).all(|(block, found)| found.version(VOLUME, block) == Some(2)));
    assert_eq!(stage.read(30), Ok(2));
    assert_eq!(failed(&mut stage), 1);
    assert_eq!(damaged(&stage), 0);
    stage.stop();
}

#[test]
fn a_temporarily_unreadable_device_loses_no_data() {
    let mut stage = Stage::with(dirty_plan(62), 62);
    stage.open();
    stage.write(blocks(0, 1_000), 2).unwrap();
    stage.flush().unwrap();
    let (from, until) = (stage.now(), stage.now().plus(Duration::from_millis(20_000)));
    let outage = Outage { device: Device::Cache, trouble: Trouble::Gone, from, until };
    stage.set_faults(Faults::default(), vec![outage]);
    let before = stage.status().counters.reads;
    stage.engine_mut().drain(from, VOLUME);
    stage.pass(19_000);
    let reads = stage.status().counters.reads - before;
    assert!(reads < 100, "{reads} reads of a device that reads nothing");
    drain(&mut stage);
    assert_eq!((stage.dirty(), damaged(&stage)), (0, 0));
    assert!((0..1_000).all(|block| stage.on_origin(block) == Some(2)));
    stage.stop();
}
