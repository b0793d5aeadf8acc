use alloc::string::String;
use alloc::vec::Vec;

use crate::cache::slots::SlotState;
use crate::config::{Mode, SequentialCutoff};
use crate::device::DeviceError;
use crate::format::redo::{RedoBlock, RedoGeometry, RedoTail, SLOT_BYTES};
use crate::path::{land, reclaim};
use crate::policy::retention::Reason;
use crate::redo::recovery::FoundGroup;
use crate::redo::{RedoSettings, RedoStatus};
use crate::request::{Durability, Errno, Operation, Unmap};
use crate::scene::Scene;
use crate::time::Duration;
use crate::units::{BLOCK_SIZE, BlockIndex, BlockKey, VolumeId};

const VOLUME: VolumeId = VolumeId::new(0);
const SLOTS: u64 = 63;

fn settings() -> RedoSettings {
    RedoSettings {
        uuid: [5; 16],
        geometry: RedoGeometry { slot_count: SLOTS },
        volumes: [VOLUME].into_iter().collect(),
        tail: RedoTail::default(),
        groups: Vec::new(),
        cut_every: Duration::from_millis(5_000),
        zero: 0,
    }
}

/// A scene whose volume is written back in cuts, every five seconds.
fn scene() -> Scene {
    let mut scene = Scene::new(Mode::WriteBack);
    scene.engine.attach_redo(scene.now, settings());
    scene
}

fn status(scene: &Scene) -> RedoStatus {
    scene.engine.redo_status().unwrap()
}

/// The operations of cuts and groups: without the log of the cache device.
fn of_groups(seen: &[String]) -> Vec<&str> {
    let is_of_group = |line: &&str| !line.starts_with("cache log") && !line.starts_with("cache metadata");
    seen.iter().map(String::as_str).filter(is_of_group).collect()
}

/// Lets the next cut come, and its group reach the origin.
fn pass(scene: &mut Scene) -> Vec<String> {
    scene.pass(Duration::from_millis(7_000))
}

fn write(scene: &mut Scene, block: u64) {
    scene.write(block * BLOCK_SIZE, BLOCK_SIZE).0.unwrap();
}

fn state_of(scene: &Scene, block: u64) -> Option<SlotState> {
    scene.engine.state.cache.state_of(BlockKey::new(VOLUME, BlockIndex::new(block)))
}

#[test]
fn a_group_reaches_the_journal_and_then_the_origin() {
    let mut scene = scene();
    [7, 3, 4].into_iter().for_each(|block| write(&mut scene, block));
    let seen = pass(&mut scene);
    let wanted = [
        "cache flush",
        "cache read 4096",
        "cache read 4096",
        "cache read 4096",
        "redo log 12288",
        "redo flush",
        "redo log 0, durable",
        "redo read 266240+12288",
        "origin write 12288+8192",
        "origin write 28672+4096",
        "origin flush",
        "redo log 0, durable",
    ];
    assert_eq!(of_groups(&seen)[..wanted.len()], wanted);
    assert_eq!(scene.not_clean(), (0, 0));
    let RedoStatus { waiting_groups, used_slots, counters, .. } = status(&scene);
    assert_eq!((waiting_groups, used_slots), (0, 0));
    assert_eq!((counters.committed_groups, counters.committed_blocks, counters.released_groups), (1, 3, 1));
    let seen = pass(&mut scene);
    assert!(!seen.iter().any(|line| line.starts_with("redo")), "no cut without dirty blocks: {seen:?}");
}

#[test]
fn writes_after_the_instant_belong_to_the_next_group() {
    let mut scene = scene();
    (0..2).for_each(|block| write(&mut scene, block));
    scene.hold("cache flush");
    pass(&mut scene);
    // Block 1 is superseded, block 2 is new; the cut reads the older copy of block 1.
    scene.begin(Operation::Write(Durability::Volatile), BLOCK_SIZE, 2 * BLOCK_SIZE);
    let seen = scene.end_held();
    assert!(of_groups(&seen).contains(&"origin write 0+8192"), "{seen:?}");
    scene.pass(Duration::from_millis(1));
    assert_eq!(state_of(&scene, 0), Some(SlotState::Clean));
    assert_eq!([1, 2].map(|block| state_of(&scene, block)), [Some(SlotState::Dirty); 2]);
    assert!(of_groups(&pass(&mut scene)).contains(&"origin write 4096+8192"));
    assert_eq!(scene.not_clean(), (0, 0));
}

#[test]
fn a_superseded_member_keeps_its_segment() {
    let mut scene = scene();
    write(&mut scene, 0);
    let segment = scene.engine.state.cache.segment_of(scene.location(0));
    scene.hold("cache flush");
    pass(&mut scene);
    scene.begin(Operation::Write(Durability::Volatile), 0, BLOCK_SIZE);
    let pins = |scene: &Scene| scene.engine.state.cache.segments().get(segment).pins;
    assert_eq!(pins(&scene), 1);
    scene.end_held();
    assert_eq!(pins(&scene), 0);
}

#[test]
fn a_failed_group_keeps_its_blocks_dirty() {
    for failing in ["redo log", "redo flush", "redo log 0, durable", "cache flush"] {
        let mut scene = scene();
        write(&mut scene, 0);
        scene.fail_times(1, failing, DeviceError::Io);
        let seen = pass(&mut scene);
        if failing == "cache flush" {
            assert!(scene.engine.state.device.is_out_of_service());
            assert_eq!(scene.not_clean(), (1, 0), "{seen:?}");
            continue;
        }
        let origin = seen.iter().position(|line| line.starts_with("origin write"));
        assert_eq!(origin, None, "{failing}: {seen:?}");
        assert_eq!((scene.not_clean(), status(&scene).counters.abandoned_cuts), ((1, 0), 1), "{failing}");
        scene.heal();
        let seen = pass(&mut scene);
        assert!(of_groups(&seen).contains(&"origin write 0+4096"), "{failing}: {seen:?}");
        assert_eq!(scene.not_clean(), (0, 0), "{failing}");
    }
}

#[test]
fn failed_reads_of_the_log_are_repeated_block_by_block() {
    let mut scene = scene();
    scene.write(0, 4 * BLOCK_SIZE).0.unwrap();
    scene.fail_times(1, "cache read 16384", DeviceError::Io);
    let seen = pass(&mut scene);
    assert_eq!(seen.iter().filter(|line| *line == "cache read 4096").count(), 4, "{seen:?}");
    assert_eq!((scene.not_clean(), status(&scene).counters.abandoned_cuts), ((0, 0), 0));
    scene.write(0, BLOCK_SIZE).0.unwrap();
    scene.fail("cache read", DeviceError::Io);
    pass(&mut scene);
    assert_eq!((scene.not_clean(), status(&scene).counters.abandoned_cuts), ((1, 0), 1));
}

#[test]
fn a_group_has_a_block_that_reclaim_moves() {
    let mut scene = scene();
    write(&mut scene, 0);
    scene.hold("origin flush");
    pass(&mut scene);
    let before = scene.location(0);
    let segment = scene.engine.state.cache.segment_of(before);
    land::end_segments(&mut scene.engine.state);
    scene.flush().0.unwrap();
    reclaim::empty(&mut scene.engine.state, segment, Reason::Turn);
    scene.run();
    assert_ne!(scene.location(0), before);
    scene.end_held();
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.not_clean(), (0, 0), "the moved copy has the version of the group");
}

#[test]
fn a_block_of_a_later_group_stays_dirty() {
    let mut scene = scene();
    write(&mut scene, 0);
    scene.hold("origin flush");
    pass(&mut scene);
    write(&mut scene, 0);
    pass(&mut scene);
    assert_eq!(status(&scene).waiting_groups, 2);
    scene.end_held_and_hold("origin write");
    scene.pass(Duration::from_millis(1));
    assert_eq!((status(&scene).waiting_groups, scene.not_clean()), (1, (1, 0)));
    scene.end_held();
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.not_clean(), (0, 0));
}

#[test]
fn a_failed_batch_abandons_the_cut() {
    let mut scene = scene();
    write(&mut scene, 0);
    scene.hold("cache flush");
    pass(&mut scene);
    scene.fail_times(1, "cache log 4096", DeviceError::Io);
    scene.begin(Operation::Write(Durability::Volatile), BLOCK_SIZE, BLOCK_SIZE);
    let seen = scene.end_held();
    assert!(!seen.iter().any(|line| line.starts_with("redo")), "{seen:?}");
    assert_eq!((status(&scene).is_cutting, status(&scene).counters.abandoned_cuts), (false, 1));
    pass(&mut scene);
    assert_eq!(scene.not_clean(), (0, 0));
}

#[test]
fn after_an_error_the_origin_gets_the_whole_group_again() {
    for (failing, held) in [("origin write 32768", 2), ("origin flush", 2), ("redo read", 1)] {
        let mut scene = scene();
        [0, 8].into_iter().for_each(|block| write(&mut scene, block));
        scene.fail_times(1, failing, DeviceError::Io);
        let seen = pass(&mut scene);
        let count = seen.iter().filter(|line| *line == "origin write 0+4096").count();
        assert_eq!(count, held, "{failing}: {seen:?}");
        assert_eq!((scene.not_clean(), status(&scene).waiting_groups), ((0, 0), 0), "{failing}");
    }
}

#[test]
fn a_restarted_origin_gets_the_whole_group_again() {
    let mut scene = scene();
    write(&mut scene, 0);
    scene.hold("origin flush");
    pass(&mut scene);
    scene.restart_origin();
    let seen = scene.end_held();
    assert_eq!(
        of_groups(&seen),
        ["redo read 266240+4096", "origin write 0+4096", "origin flush", "redo log 0, durable"]
    );
    assert_eq!(scene.not_clean(), (0, 0));
}

#[test]
fn a_block_becomes_clean_only_with_its_group() {
    for held in ["redo flush", "redo log 0, durable", "redo read", "origin write", "origin flush"] {
        let mut scene = scene();
        write(&mut scene, 0);
        scene.hold(held);
        pass(&mut scene);
        assert_eq!(scene.not_clean(), (1, 0), "{held}");
        scene.end_held();
        scene.pass(Duration::from_millis(1));
        assert_eq!(scene.not_clean(), (0, 0), "{held}");
    }
}

#[test]
fn requests_do_not_pass_the_log() {
    let mut scene = scene();
    scene.settings(VOLUME).sequential_cutoff = SequentialCutoff::Above(0);
    write(&mut scene, 0);
    let zeroes = Operation::WriteZeroes { unmap: Unmap::Allow, durability: Durability::Volatile };
    let (result, mut seen) = scene.ask(zeroes, 1 << 20, 3 << 20);
    result.unwrap();
    let (result, more) = scene.ask(Operation::Discard, 0, 1 << 20);
    result.unwrap();
    seen.extend(more);
    assert!(!seen.iter().any(|line| line.starts_with("origin")), "{seen:?}");
    assert!(scene.is_cached(0), "a discard has no effect");
    assert_eq!(scene.not_clean().0, 1 + (3 << 20) / BLOCK_SIZE);
}

#[test]
fn writes_wait_while_half_of_the_journal_is_dirty() {
    let mut scene = scene();
    scene.hold("redo");
    let most = scene.engine.state.redo().dirty_max();
    let (mut answered, mut begun) = (0, 0);
    while begun < most + 64 {
        scene.begin(Operation::Write(Durability::Volatile), begun * BLOCK_SIZE, 64 * BLOCK_SIZE);
        begun += 64;
        answered += u64::from(scene.take_reply().is_some()) * 64;
    }
    assert!(answered <= most && answered + 64 > most - 64, "{answered} of {most}");
    scene.end_held();
    scene.pass(Duration::from_millis(100));
    while scene.take_reply().is_some() {
        answered += 64;
    }
    assert_eq!(answered, begun);
    pass(&mut scene);
    assert_eq!(scene.not_clean(), (0, 0));
}

#[test]
fn all_dirty_blocks_fit_into_the_ring() {
    let mut scene = scene();
    scene.hold("cache log");
    let most = scene.engine.state.redo().all_dirty_max();
    // No write has a dirty block when the next one arrives.
    (0..most / 64 + 4).for_each(|number| {
        scene.begin(Operation::Write(Durability::Volatile), number * 64 * BLOCK_SIZE, 64 * BLOCK_SIZE);
    });
    assert!(scene.not_clean().0 <= most, "{} of {most}", scene.not_clean().0);
}

#[test]
fn a_drain_needs_no_wait_for_the_next_cut() {
    let mut scene = scene();
    write(&mut scene, 0);
    scene.drain();
    assert_eq!(scene.not_clean(), (0, 0));
    assert!(!scene.engine.status().volumes[0].is_draining);
}

#[test]
fn without_the_cache_device_writes_fail() {
    let mut scene = scene();
    write(&mut scene, 0);
    scene.engine.leave_out(scene.now);
    let (result, seen) = scene.write(BLOCK_SIZE, BLOCK_SIZE);
    assert_eq!(result, Err(Errno::Io));
    assert!(!seen.iter().any(|line| line.starts_with("origin write")), "{seen:?}");
    let seen = pass(&mut scene);
    assert!(!seen.iter().any(|line| line.starts_with("origin write")), "{seen:?}");
}

#[test]
fn a_stop_abandons_the_cut_and_keeps_committed_groups() {
    for (held, waiting) in [("redo log", 0), ("redo flush", 1), ("redo read", 1)] {
        let mut scene = scene();
        write(&mut scene, 0);
        scene.hold(held);
        pass(&mut scene);
        scene.engine.stop(scene.now);
        scene.run();
        scene.end_held();
        scene.stop();
        assert_eq!(status(&scene).waiting_groups, waiting, "{held}");
        assert_eq!(scene.not_clean().0 + scene.not_clean().1, 1, "{held}");
    }
}

#[test]
fn a_group_of_an_earlier_process_is_applied_first() {
    let mut scene = Scene::new(Mode::WriteBack);
    write(&mut scene, 9);
    let checksum = scene.engine.state.cache.slots().checksum(scene.location(9 * BLOCK_SIZE));
    let block = RedoBlock { key: BlockKey::new(VOLUME, BlockIndex::new(2)), checksum };
    let found = FoundGroup { number: 4, instant: 77, start: 10, chunks: [[block].into()].into() };
    let tail = RedoTail { epoch: 3, position: 10, released: 3, instant: 70 };
    scene.engine.attach_redo(scene.now, RedoSettings { tail, groups: [found].into(), ..settings() });
    assert_eq!(status(&scene).committed, 77);
    let seen = scene.run();
    let read = alloc::format!("redo read {}+4096", 11 * SLOT_BYTES + BLOCK_SIZE);
    assert_eq!(of_groups(&seen)[..3], [&read, "origin write 8192+4096", "origin flush"]);
    let seen = pass(&mut scene);
    let next = of_groups(&seen);
    assert!(
        next.contains(&alloc::format!("redo read {}+4096", 13 * SLOT_BYTES + BLOCK_SIZE).as_str()),
        "{next:?}"
    );
    assert_eq!(scene.not_clean(), (0, 0));
}

#[test]
fn a_silent_journal_ends_the_cut() {
    let mut scene = scene();
    write(&mut scene, 0);
    scene.hold("redo");
    pass(&mut scene);
    assert!(status(&scene).is_cutting);
    scene.pass(Duration::from_millis(5_000));
    assert_eq!(status(&scene).counters.abandoned_cuts, 1);
    assert_eq!(scene.not_clean(), (1, 0));
    scene.end_held();
    pass(&mut scene);
    assert_eq!(scene.not_clean(), (0, 0));
}

#[test]
fn large_cuts_have_several_chunks() {
    let mut scene = scene();
    (0..3).for_each(|piece| scene.write(piece << 20, 1 << 18).0.unwrap());
    let seen = pass(&mut scene);
    let lines = of_groups(&seen);
    let chunks: Vec<_> =
        lines.iter().filter(|line| line.starts_with("redo log ") && !line.contains("durable")).collect();
    assert_eq!(chunks, [&"redo log 258048", &"redo log 258048", &"redo log 258048", &"redo log 12288"]);
    assert_eq!((scene.not_clean(), scene.engine.pool_pages_used()), ((0, 0), 0));
}
