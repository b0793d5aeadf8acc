//! Durable blocks of the journal are lost: the device has zeroes there. Without them, recovery cannot
//! determine which segments count and which blocks are void.

#![expect(clippy::unwrap_used, reason = "a test may fail by a panic")]

use kickcache_engine::device::Device;
use kickcache_engine::engine::Phase;
use kickcache_engine::error::Error;
use kickcache_engine::format::journal::{Fact, JournalBlock, JournalBody};
use kickcache_engine::time::Duration;
use kickcache_engine::units::{BLOCK_SIZE, Generation, SegmentIndex};
use kickcache_faultsim::content::Block;
use kickcache_faultsim::plan::faults::{Faults, Outage, Rates, Trouble};

use crate::stage::{Stage, blocks, dirty_plan};

/// The blocks of the journal by number, each with its place.
fn journal(stage: &Stage) -> Vec<(JournalBlock, u64)> {
    let geometry = stage.geometry();
    let places = stage.places(|_, bytes| JournalBlock::decode(bytes, &geometry).is_some());
    let decoded = |place: u64| match &stage.devices.cache.blocks()[usize::try_from(place).unwrap()] {
        Block::Bytes(bytes) => (JournalBlock::decode(&bytes[..], &geometry).unwrap(), place),
        Block::Zeroes | Block::Noise(_) | Block::Stamp(_) => unreachable!(),
    };
    let mut found: Vec<_> = places.into_iter().map(decoded).collect();
    found.sort_by_key(|(block, _)| block.ring);
    found
}

/// Many segments full of dirty blocks, records in between, and a kill.
fn long_life() -> Stage {
    let mut stage = Stage::with(dirty_plan(73), 73);
    assert_eq!(stage.open(), Phase::Running);
    for round in 0..10 {
        for first in (0..120).step_by(8) {
            stage.write(blocks(round * 120 + first, 8), 2).unwrap();
        }
        stage.discard(round * 120);
        stage.flush().unwrap();
        stage.pass(100);
    }
    stage.kill();
    stage
}

fn wipe(stage: &mut Stage, places: impl IntoIterator<Item = u64>) {
    places.into_iter().for_each(|place| stage.devices.cache.prepare(place, &Block::Zeroes));
}

fn check_refused(stage: &mut Stage, part: &str) {
    let phase = stage.open();
    let Phase::Failed(error @ Error::Rotted { .. }) = phase else { panic!("{part}: it is {phase:?}") };
    stage.kill();
    assert!(error.to_string().contains(part), "{error}");
}

#[test]
fn a_lost_journal_is_refused_after_kill_and_stop() {
    let killed = Stage::dirty_segments();
    let mut stopped = Stage::dirty_segments();
    assert_eq!(stopped.open(), Phase::Running);
    stopped.stop();
    stopped.kill();
    let opened = "its journal, which does not say that segment 0 was opened";
    for (mut stage, part) in [(killed, opened), (stopped, "its journal, of which nothing is left,")] {
        let all: Vec<u64> = journal(&stage).into_iter().map(|(_, place)| place).collect();
        assert!(all.len() > 1, "{all:?}");
        wipe(&mut stage, all);
        check_refused(&mut stage, part);
        stage.go_on_with_what_is_left();
        assert_eq!(stage.open(), Phase::Running);
        assert_eq!(stage.read_all(100), vec![2; 100]);
        assert!(stage.dirty() == 100, "{} are dirty", stage.dirty());
        stage.kill();
        assert_eq!(stage.open(), Phase::Running);
        stage.write(blocks(0, 40), 7).unwrap();
        stage.flush().unwrap();
        stage.kill();
        assert_eq!(stage.open(), Phase::Running);
        assert_eq!(stage.read_all(40), vec![7; 40]);
    }
}

#[test]
fn a_lost_journal_is_refused_after_growth_over_old_segments() {
    for is_written_later in [false, true] {
        let mut stage = Stage::with(dirty_plan(74), 74);
        assert_eq!(stage.open(), Phase::Running);
        let write = |stage: &mut Stage| {
            (0..100).step_by(5).for_each(|first| stage.write(blocks(first, 5), 2).unwrap());
            stage.flush().unwrap();
        };
        write(&mut stage);
        stage.grow(12 << 20, Generation::new(3));
        if is_written_later {
            write(&mut stage);
        }
        stage.kill();
        let all: Vec<u64> = journal(&stage).into_iter().map(|(_, place)| place).collect();
        wipe(&mut stage, all);
        check_refused(&mut stage, "its journal, which does not say that segment 0 was opened");
        stage.go_on_with_what_is_left();
        assert_eq!(stage.open(), Phase::Running);
        assert_eq!(stage.read_all(100), vec![2; 100]);
    }
}

/// The structures that prove the loss of the journal are unreadable too: the device must not be treated as one that was
/// never written.
fn check_deaf(deafen: impl Fn(&mut Stage)) {
    let mut stage = Stage::dirty_segments();
    let all: Vec<u64> = journal(&stage).into_iter().map(|(_, place)| place).collect();
    wipe(&mut stage, all);
    stage.begin_open();
    stage.until(|stage| stage.status().counters.reads > 1);
    deafen(&mut stage);
    let phase = stage.end_open();
    assert!(matches!(phase, Phase::Failed(Error::Recovery { .. } | Error::Unreadable { .. })), "{phase:?}");
    stage.kill();
    stage.devices.cache.mend();
    check_refused(&mut stage, "its journal, which does not say that segment 0 was opened");
}

fn first_block(stage: &Stage, segment: u32) -> u64 {
    let geometry = stage.geometry();
    geometry.byte_offset(geometry.first_location(SegmentIndex::new(segment))) / BLOCK_SIZE
}

#[test]
fn a_lost_device_is_not_treated_as_never_written() {
    check_deaf(|stage| {
        let (device, trouble, from) = (Device::Cache, Trouble::Gone, stage.now());
        let until = from.plus(Duration::from_millis(60_000));
        stage.set_faults(Faults::default(), vec![Outage { device, trouble, from, until }]);
    });
}

#[test]
fn a_half_failed_device_is_not_treated_as_never_written() {
    for reads in [2, 20, 40] {
        check_deaf(|stage| {
            stage.until(|stage| stage.status().counters.reads >= reads);
            let cache = Rates { read: 10_000, ..Rates::default() };
            stage.set_faults(Faults { cache, ..Faults::default() }, Vec::new());
        });
    }
}

#[test]
fn unreadable_used_segments_are_not_treated_as_never_written() {
    let count = Stage::dirty_segments().geometry().segment_count;
    for unreadable in [0..count / 2, 0..count] {
        check_deaf(|stage| {
            for segment in unreadable.clone() {
                let first = first_block(stage, segment);
                stage.devices.cache.make_unreadable(first);
            }
        });
    }
}

#[test]
fn a_bad_spot_in_a_never_opened_segment_is_tolerated() {
    let mut stage = Stage::dirty_segments();
    let last = first_block(&stage, stage.geometry().segment_count - 1);
    stage.devices.cache.make_unreadable(last);
    assert_eq!(stage.open(), Phase::Running);
    assert_eq!(stage.read_all(100), vec![2; 100]);
}

#[test]
fn a_new_unwritten_cache_device_is_not_missed() {
    let mut stage = Stage::with(dirty_plan(72), 72);
    for _ in 0..3 {
        assert_eq!(stage.open(), Phase::Running);
        stage.kill();
    }
}

/// Each missing journal block that a newer block declares durable is enough for a refusal.
#[test]
fn a_block_of_the_journal_that_is_missing_is_refused() {
    let stage = long_life();
    let found = journal(&stage);
    let is_durable = |number: u64| found.iter().any(|(block, _)| block.durable.journal.contains(number));
    let durable: Vec<_> = found.iter().filter(|(block, _)| is_durable(block.ring)).collect();
    assert!(durable.len() + 2 >= found.len() && durable.len() > 3, "{} of {}", durable.len(), found.len());
    let first = stage.geometry().journal().start / 4096;
    for (_, place) in &durable {
        let mut stage = long_life();
        wipe(&mut stage, [*place]);
        check_refused(&mut stage, &format!("block {} of its journal was whole once", place - first));
    }
}

/// No later block declares the newest journal block durable; the segment that its record opened proves that it existed.
#[test]
fn a_lost_newest_journal_block_is_detected_by_its_segment() {
    let mut stage = long_life();
    let is_opening = |body: &JournalBody| match body {
        JournalBody::Records(records) => records.iter().any(|record| matches!(record.fact, Fact::Opened(..))),
        JournalBody::Chunk(_) => false,
    };
    let found = journal(&stage);
    let last = found.iter().rposition(|(block, _)| is_opening(&block.body)).unwrap();
    wipe(&mut stage, found[last..].iter().map(|(_, place)| *place));
    let phase = stage.open();
    assert!(matches!(phase, Phase::Failed(Error::Rotted { .. })), "{phase:?}");
}

/// The last checkpoint contains the effect of all earlier records.
#[test]
fn records_before_the_last_checkpoint_are_not_missed() {
    let mut stage = long_life();
    assert_eq!(stage.open(), Phase::Running);
    stage.stop();
    stage.kill();
    let records: Vec<u64> = journal(&stage)
        .into_iter()
        .filter(|(block, _)| matches!(block.body, JournalBody::Records(_)))
        .map(|(_, place)| place)
        .collect();
    assert!(records.len() > 3, "{records:?}");
    wipe(&mut stage, records);
    assert_eq!(stage.open(), Phase::Running);
    assert_eq!(stage.read_all(120)[1..], [2; 119]);
}
