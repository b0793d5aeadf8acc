//! A cache device out of service: its record, and the content of its origins at that time.

#![expect(clippy::unwrap_used, reason = "helpers of a test may fail by a panic")]

use kickcache_engine::config::Mode;
use kickcache_engine::device::Device;
use kickcache_engine::engine::{Engine, Phase};
use kickcache_engine::format::mark::ServiceMark;
use kickcache_engine::request::{Durability, Errno, Operation};
use kickcache_engine::stats::{CacheHealth, Record};
use kickcache_engine::time::Duration;
use kickcache_engine::units::VolumeSet;
use kickcache_faultsim::plan::faults::{Faults, Outage, Trouble};
use kickcache_faultsim::subject::Subject;

use crate::stage::{Stage, VOLUME, blocks, dirty_plan, plan};

const VOLATILE: Operation = Operation::Write(Durability::Volatile);

/// The cache device fails all writes; the host makes a record, or fails to.
fn refuse_writes(stage: &mut Stage, note: u64) {
    let outage = refusal(stage);
    stage.set_faults(Faults { note, ..Faults::default() }, vec![outage]);
}

fn refusal(stage: &Stage) -> Outage {
    let until = stage.now().plus(Duration::from_millis(1 << 40));
    Outage { device: Device::Cache, trouble: Trouble::Refuses, from: stage.now(), until }
}

fn mark(stage: &Stage) -> ServiceMark {
    <Engine as Subject>::service(&stage.devices.cache).unwrap()
}

fn is_out(stage: &Stage) -> bool {
    stage.status().health == CacheHealth::OutOfService
}

#[test]
fn a_device_out_of_service_never_returns_to_service() {
    let mut stage = Stage::new(Mode::WriteThrough, 1);
    stage.write(blocks(0, 8), 2).unwrap();
    stage.drain();
    assert_eq!((mark(&stage), stage.status().record), (ServiceMark::InService, None));
    let until = stage.now().plus(Duration::from_millis(20));
    let outage = Outage { device: Device::Cache, trouble: Trouble::Refuses, from: stage.now(), until };
    stage.set_faults(Faults::default(), vec![outage]);
    for version in 3..60 {
        stage.write(blocks(0, 8), version).unwrap();
        stage.pass(1);
    }
    assert!(is_out(&stage));
    let complete = ServiceMark::OutOfService { incomplete: VolumeSet::default() };
    stage.until(|stage| mark(stage) == complete && stage.status().record == Some(Record::OnDevice));
    assert!(!stage.status().volumes[0].is_incomplete);
    assert_eq!(stage.read_all(8), vec![59; 8]);
    stage.stop();
    stage.cut_power();
    assert_eq!(mark(&stage), complete);
}

/// No write is acknowledged that a restart with the same device would undo.
#[test]
fn writes_fail_without_any_possible_record() {
    // A mark may be stored although its write fails, and so may a record of the host.
    let records: Vec<_> = (2..60).map(fail_while_nothing_can_be_put_on_record).collect();
    assert!(records.contains(&(ServiceMark::InService, None)), "{records:?}");
}

fn fail_while_nothing_can_be_put_on_record(seed: u64) -> (ServiceMark, Option<VolumeSet>) {
    let mut stage = Stage::new(Mode::WriteThrough, seed);
    stage.write(blocks(0, 8), 2).unwrap();
    stage.flush().unwrap();
    refuse_writes(&mut stage, 10_000);
    let mut acknowledged = 2;
    for version in 3..40 {
        if stage.write(blocks(0, 8), version).is_ok() {
            acknowledged = version;
        }
    }
    assert!(is_out(&stage));
    assert_eq!(stage.write(blocks(0, 8), 40), Err(Errno::Io));
    let id = stage.ask(Operation::Discard, blocks(0, 8), 0);
    assert_eq!(stage.finish(id).err(), Some(Errno::Io));
    stage.kill();
    let record = (mark(&stage), stage.devices.noted);
    assert_eq!(stage.open(), Phase::Running);
    assert!(stage.read_all(8).iter().all(|found| *found >= acknowledged));
    record
}

#[test]
fn failed_requests_succeed_once_the_record_exists() {
    let mut stage = Stage::new(Mode::WriteThrough, 3);
    refuse_writes(&mut stage, 10_000);
    for version in 2..40 {
        let _ = stage.write(blocks(0, 8), version);
    }
    assert!(is_out(&stage) && stage.write(blocks(0, 8), 40).is_err());
    assert_eq!(stage.status().record, Some(Record::Failed));
    refuse_writes(&mut stage, 0);
    stage.pass(3_000);
    stage.write(blocks(0, 8), 41).unwrap();
    assert_eq!(stage.devices.noted, Some(VolumeSet::default()));
    assert_eq!(stage.status().record, Some(Record::WithHost));
    assert_eq!(stage.read_all(8), vec![41; 8]);
}

#[test]
fn a_silent_device_is_put_on_record_by_the_host() {
    let mut stage = Stage::new(Mode::WriteThrough, 4);
    refuse_writes(&mut stage, 0);
    let mut version = 2;
    while stage.status().counters.errors < 7 {
        stage.write(blocks(0, 8), version).unwrap();
        version += 1;
    }
    let id = stage.ask(VOLATILE, blocks(0, 8), version);
    while !is_out(&stage) {
        stage.step();
    }
    let until = stage.now().plus(Duration::from_millis(60_000));
    let outage = Outage { device: Device::Cache, trouble: Trouble::Silent, from: stage.now(), until };
    stage.set_faults(Faults::default(), vec![outage]);
    let began = stage.now();
    stage.finish(id).unwrap();
    let waited = stage.now().since(began);
    assert!(waited < Duration::from_millis(5_200), "{waited:?}");
}

#[test]
fn a_volume_is_complete_only_when_its_origin_has_flushed() {
    let mut complete = 0;
    for number in 0..300 {
        let steps = number % 6;
        let mut stage = Stage::with(dirty_plan(5), number);
        assert_eq!(stage.open(), Phase::Running);
        stage.write(blocks(0, 4), 2).unwrap();
        stage.flush().unwrap();
        let until = stage.now().plus(Duration::from_millis(20));
        let origin = Device::Origin(VOLUME);
        let short = Outage { device: origin, trouble: Trouble::Refuses, from: stage.now(), until };
        stage.set_faults(Faults::default(), vec![refusal(&stage), short]);
        assert!(stage.write(blocks(0, 4), 3).is_err() && is_out(&stage));
        stage.pass(20);
        stage.write(blocks(0, 4), 3).unwrap();
        for _ in 0..steps {
            stage.step();
        }
        stage.cut_power();
        if stage.devices.noted.is_some_and(|incomplete| !incomplete.contains(VOLUME)) {
            complete += 1;
            let found: Vec<_> = (0..4).map(|block| stage.on_origin(block).unwrap()).collect();
            assert!(found.iter().all(|version| [2, 3].contains(version)), "after {steps} steps: {found:?}");
        }
    }
    assert!(complete > 0, "the host never heard that the volume is complete");
}

#[test]
fn an_unrecorded_discard_reveals_no_older_data() {
    let mut seen = 0;
    for steps in 0..40 {
        let mut stage = Stage::with(plan(Mode::WriteBack, 6), 6 + steps);
        assert_eq!(stage.open(), Phase::Running);
        stage.write(blocks(0, 4), 2).unwrap();
        stage.drain();
        stage.write(blocks(0, 4), 3).unwrap();
        refuse_writes(&mut stage, 10_000);
        for number in 0..steps % 12 {
            let _ = stage.write(blocks(100 + number, 1), 2);
        }
        let id = stage.ask(Operation::Discard, blocks(0, 4), 0);
        let result = stage.finish(id);
        let before: Vec<_> = (0..4).map(|block| stage.read(block)).collect();
        stage.kill();
        assert_eq!(stage.open(), Phase::Running);
        let after: Vec<_> = (0..4).map(|block| stage.read(block)).collect();
        for (before, after) in before.iter().zip(&after).filter(|pair| pair.0.is_ok()) {
            assert_eq!(before, after, "{result:?}, {steps} writes before");
        }
        seen += u32::from(before.contains(&Err(Errno::Io)));
    }
    assert!(seen > 0, "no discard failed halfway");
}

/// Writes through the log: the blocks are dirty meanwhile, but the cache device does not have the only copy of
/// acknowledged data.
fn write_through_dirty_blocks(stage: &mut Stage, version: u64) {
    let id = stage.ask(VOLATILE, blocks(0, 4), version);
    let mut seen_dirty = 0;
    while !stage.has_ended(id) {
        seen_dirty = seen_dirty.max(stage.dirty());
        assert_eq!(stage.engine().unwritten_blocks(VOLUME), []);
        stage.step();
    }
    stage.finish(id).unwrap();
    assert!(seen_dirty > 0, "nothing was ever dirty");
}

/// A block of a write-through write is dirty in the log until the origin has it.
#[test]
fn a_write_in_flight_is_not_lost_with_the_device() {
    let mut stage = Stage::new(Mode::WriteThrough, 7);
    stage.write(blocks(0, 4), 2).unwrap();
    stage.drain();
    write_through_dirty_blocks(&mut stage, 3);
    assert!(
        !stage.engine().dirty_blocks(VOLUME).is_empty(),
        "the origin has flushed before it was looked at"
    );
    assert_eq!(stage.engine().unwritten_blocks(VOLUME), []);
    write_through_dirty_blocks(&mut stage, 4);
    let mut stage = Stage::with(dirty_plan(7), 7);
    assert_eq!(stage.open(), Phase::Running);
    stage.write(blocks(0, 4), 2).unwrap();
    assert_eq!(stage.engine().unwritten_blocks(VOLUME).len(), 4);
}
