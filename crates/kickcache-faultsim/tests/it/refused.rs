//! Writes that an origin refuses: the copies in the log, before and after a restart, and the effect on other volumes.

#![expect(clippy::unwrap_used, reason = "helpers of a test may fail by a panic")]

use kickcache_engine::config::{Mode, VolumeSettings};
use kickcache_engine::device::Device;
use kickcache_engine::engine::Phase;
use kickcache_engine::request::{Durability, Errno, Operation};
use kickcache_engine::time::Duration;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent, VolumeId};
use kickcache_faultsim::plan::faults::{Faults, Outage, Trouble};

use crate::stage::{Stage, VOLUME, blocks, dirty_plan, plan};

const VOLATILE: Operation = Operation::Write(Durability::Volatile);

fn trouble_at_the_origin(stage: &mut Stage, trouble: Trouble) {
    let until = stage.now().plus(Duration::from_millis(1 << 40));
    let outage = Outage { device: Device::Origin(VOLUME), trouble, from: stage.now(), until };
    stage.set_faults(Faults::default(), vec![outage]);
}

fn versions(stage: &mut Stage, count: u64) -> Vec<u64> {
    (0..count).map(|block| stage.read(block).unwrap()).collect()
}

#[test]
fn a_refused_write_through_the_log_leaves_no_dirty_blocks() {
    for (trouble, errno) in [(Trouble::Refuses, Errno::Io), (Trouble::Full, Errno::NoSpace)] {
        let mut stage = Stage::new(Mode::WriteThrough, 1);
        stage.write(blocks(0, 8), 2).unwrap();
        stage.drain();
        trouble_at_the_origin(&mut stage, trouble);
        assert_eq!(stage.write(blocks(0, 16), 3), Err(errno));
        assert_eq!(stage.dirty(), 0);
        let before: Vec<_> = (8..16).map(|block| stage.on_origin(block)).collect();
        stage.kill();
        assert_eq!((stage.open(), stage.dirty()), (Phase::Running, 0));
        let after: Vec<_> = (8..16).map(|block| stage.on_origin(block)).collect();
        assert_eq!(before, after, "nothing of it comes back");
    }
}

#[test]
fn an_earlier_dirty_block_survives_a_refused_write() {
    let mut stage = Stage::with(dirty_plan(2), 2);
    assert_eq!(stage.open(), Phase::Running);
    stage.write(blocks(0, 4), 2).unwrap();
    let now = stage.now();
    stage.engine_mut().set_mode(now, VOLUME, Mode::WriteThrough);
    trouble_at_the_origin(&mut stage, Trouble::Refuses);
    assert_eq!(stage.write(blocks(0, 8), 3), Err(Errno::Io));
    assert_eq!(stage.dirty(), 4);
    let before = versions(&mut stage, 4);
    assert!(before.iter().all(|version| [2, 3].contains(version)));
    stage.kill();
    assert_eq!((stage.open(), stage.dirty()), (Phase::Running, 4));
    assert_eq!(versions(&mut stage, 4), before);
}

#[test]
fn beyond_its_limit_a_refusing_origin_fails_writes_at_once() {
    for trouble in [Trouble::Refuses, Trouble::Full] {
        let mut stage = Stage::new(Mode::WriteBack, 3);
        trouble_at_the_origin(&mut stage, trouble);
        let mut refused = None;
        for number in 0..400 {
            let began = stage.now();
            let result = stage.write(blocks(number * 9, 8), 2);
            assert!(stage.now().since(began) < Duration::from_millis(300), "{number}");
            if result.is_err() {
                refused.get_or_insert(number);
            }
        }
        let (refused, dirty) = (refused.unwrap(), stage.dirty());
        assert!(refused > 80 && dirty <= (refused + 1) * 8, "{refused}, {dirty}");
        stage.write(blocks(0, 8), 3).unwrap();
        assert_eq!((stage.dirty(), stage.read(7)), (dirty, Ok(3)));
        stage.set_faults(Faults::default(), Vec::new());
        stage.drain();
        assert_eq!((stage.on_origin(0), stage.on_origin(9)), (Some(3), Some(2)));
    }
}

/// Reads during a write that the origin will refuse return the earlier data, or data that stays; never data that is
/// removed later.
#[test]
fn refused_writes_are_never_visible() {
    let mut seen = 0;
    for seed in 0..40 {
        let mut stage = Stage::new(Mode::WriteThrough, seed);
        stage.write(blocks(0, 2), 2).unwrap();
        stage.drain();
        trouble_at_the_origin(&mut stage, Trouble::Refuses);
        let write = stage.ask(VOLATILE, blocks(0, 2), 3);
        let mut reads = Vec::new();
        while !stage.has_ended(write) {
            reads.push(stage.ask(Operation::Read, blocks(0, 1), 0));
            stage.step();
        }
        assert!(stage.finish(write).is_err());
        let found: Vec<_> = reads.into_iter().map(|id| stage.finish(id).unwrap().blocks[0].clone()).collect();
        let id = stage.ask(Operation::Read, blocks(0, 1), 0);
        let last = stage.finish(id).unwrap().blocks[0].version(VOLUME, 0);
        // A refused write may have stored some of its sectors. If it stored all sectors, they must stay.
        let newer = found.iter().position(|block| block.version(VOLUME, 0) == Some(3));
        assert!(newer.is_none() || last == Some(3), "seed {seed}: read {newer:?} gave what is gone");
        seen += u32::from(found.len() > 2);
    }
    assert!(seen > 10);
}

#[test]
fn a_silent_origin_keeps_no_neighbour() {
    let mut plan = plan(Mode::WriteBack, 5);
    plan.origin_sizes.push(16 << 20);
    let other = VolumeId::new(1);
    plan.volumes.push(VolumeSettings { volume: other, ..plan.volumes[0] });
    let mut stage = Stage::with(plan, 5);
    assert_eq!(stage.open(), Phase::Running);
    trouble_at_the_origin(&mut stage, Trouble::Silent);
    let mut waiting = Vec::new();
    for round in 0..300 {
        waiting.push(stage.ask(Operation::Read, blocks(round * 13 % 4_000, 4), 0));
        waiting.push(stage.ask(VOLATILE, blocks(round * 17 % 4_000, 8), 2));
        let began = stage.now();
        let write = stage.ask_of(other, VOLATILE, blocks(round * 11 % 4_000, 8), 2);
        let read = stage.ask_of(other, Operation::Read, blocks(round * 7 % 4_000, 4), 0);
        let part = ByteExtent { start: round * 5 % 4_000 * BLOCK_SIZE + 512, length: 1_024 };
        let parts = stage.ask_of(other, VOLATILE, part, 2);
        for id in [write, read, parts] {
            stage.finish(id).unwrap();
        }
        assert!(stage.now().since(began) < Duration::from_millis(1_000), "round {round}");
    }
    assert!(waiting.iter().any(|id| !stage.has_ended(*id)));
}
