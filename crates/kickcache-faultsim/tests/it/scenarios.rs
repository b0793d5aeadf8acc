//! Faults, each as a test. A comment has the source of a fault of another cache. `docs/dev/testing.md` lists the faults
//! that are only visible from outside of the engine.

use kickcache_engine::config::Mode;
use kickcache_engine::device::Device;
use kickcache_engine::engine::{Engine, Phase};
use kickcache_engine::error::Error;
use kickcache_engine::format::geometry::Geometry;
use kickcache_engine::format::journal::{JournalBlock, JournalBody};
use kickcache_engine::format::superblock::{SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock};
use kickcache_engine::format::version::FORMAT_VERSION_NEWEST;
use kickcache_engine::request::{Durability, Errno, Operation};
use kickcache_engine::stats::CacheHealth;
use kickcache_engine::time::Duration;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent, Location};
use kickcache_faultsim::content::Block;
use kickcache_faultsim::device::SimulatedDevice;
use kickcache_faultsim::payload::Payload;
use kickcache_faultsim::plan::Plan;
use kickcache_faultsim::plan::faults::{Damage, Faults, Outage, Rates, Trouble};
use kickcache_faultsim::rot::durable_places;
use kickcache_faultsim::subject::Subject;
use kickcache_random::Random;

use crate::stage::{Stage, VOLUME, blocks, dirty_plan, plan};

const VOLATILE: Operation = Operation::Write(Durability::Volatile);

fn errors(read: u64, write: u64, flush: u64) -> Rates {
    Rates { read, write, flush, ..Rates::default() }
}

/// ocf#519, open-cas#832: the mark that declares data valid reached the device before the data.
#[test]
fn a_header_that_outlives_its_data_brings_no_garbage() {
    for seed in 0..60 {
        let mut stage = Stage::new(Mode::WriteBack, seed);
        stage.write(blocks(0, 32), 2).unwrap();
        stage.flush().unwrap();
        let asked = stage.ask(VOLATILE, blocks(0, 32), 3);
        for _ in 0..seed % 12 {
            stage.step();
        }
        let is_new = stage.has_ended(asked);
        stage.cut_and_open();
        let found = stage.read_all(32);
        assert!(found.iter().all(|version| [2, 3].contains(version)), "{is_new}: {found:?}");
    }
}

/// ocf#390, #391: a power cut in the middle of a stop.
#[test]
fn a_cut_at_any_step_of_a_stop_is_lossless() {
    for steps in 0..60 {
        let mut stage = Stage::new(Mode::WriteBack, steps);
        stage.write(blocks(0, 40), 2).unwrap();
        stage.flush().unwrap();
        let now = stage.now();
        stage.engine_mut().stop(now);
        for _ in 0..steps {
            stage.step();
        }
        stage.cut_and_open();
        assert_eq!(stage.read_all(40), vec![2; 40], "after {steps} steps");
    }
}

/// ocf#617: a new cache takes over the mapping of an earlier cache.
#[test]
fn a_reformatted_device_has_no_old_blocks() {
    let mut stage = Stage::new(Mode::WriteBack, 1);
    stage.write(blocks(0, 64), 2).unwrap();
    stage.stop();
    stage.cut_power();
    Engine::format(&mut stage.devices.cache, [8; 16], &stage.plan.origin_sizes).unwrap();
    assert_eq!(stage.open(), Phase::Running);
    assert_eq!(stage.read_all(64), vec![0; 64]);
    assert_eq!(stage.dirty(), 0);
}

/// dm-cache before Linux 4.17: the flag of a clean shutdown was not looked at.
#[test]
fn after_a_kill_exactly_the_dirty_blocks_are_dirty() {
    let mut stage = Stage::new(Mode::WriteBack, 2);
    stage.write(blocks(0, 30), 2).unwrap();
    stage.drain();
    stage.stop();
    stage.kill();
    stage.open();
    stage.write(blocks(100, 20), 3).unwrap();
    stage.kill();
    assert_eq!(stage.open(), Phase::Running);
    let dirty: Vec<u64> = stage.engine().dirty_blocks(VOLUME).iter().map(|block| block.get()).collect();
    assert_eq!(dirty, (100..120).collect::<Vec<_>>());
    stage.drain();
    assert!((100..120).all(|block| stage.on_origin(block) == Some(3)));
}

/// ocf#578: the warm cache is lost by a dirty shutdown.
#[test]
fn a_cache_is_warm_after_a_power_cut() {
    let mut stage = Stage::new(Mode::WriteThrough, 3);
    for block in 0..200 {
        stage.read(block).unwrap();
    }
    stage.pass(100);
    stage.flush().unwrap();
    stage.cut_and_open();
    stage.read_all(200);
    let counters = stage.status().volumes[0].counters;
    assert!(counters.hit_blocks >= 190, "{counters:?}");
}

/// open-cas#1650: both copies of the metadata were being written when the power failed.
#[test]
fn serving_does_not_write_the_superblock() {
    let mut stage = Stage::new(Mode::WriteBack, 4);
    let copies = |stage: &Stage| {
        SUPERBLOCK_OFFSETS
            .map(|start| stage.devices.cache.bytes(ByteExtent { start, length: SUPERBLOCK_SIZE as u64 }))
    };
    let before = copies(&stage);
    for round in 0..20 {
        stage.write(blocks(round * 50, 50), 2 + round).unwrap();
    }
    stage.drain();
    assert_eq!(copies(&stage), before);
    stage.stop();
    assert_ne!(copies(&stage), before, "it says what of the journal is durable");
}

/// open-cas#1650: when a volume is added, one copy of the superblock is written and flushed before the other.
#[test]
fn a_superblock_of_two_generations_is_either_of_them() {
    for seed in 0..80u64 {
        let mut device = SimulatedDevice::new(8 << 20);
        Engine::format(&mut device, [7; 16], &[8 << 20]).unwrap();
        let read = |device: &SimulatedDevice| {
            let copies = SUPERBLOCK_OFFSETS
                .map(|start| device.bytes(ByteExtent { start, length: SUPERBLOCK_SIZE as u64 }));
            Superblock::decode([&copies[0], &copies[1]], device.size()).unwrap()
        };
        let old = read(&device);
        let mut new = old.clone();
        new.add_volume("late", 4 << 20, "another").unwrap();
        new.epoch += 1;
        // With 0 to 3 steps: nothing is written; the first copy is being written; the first copy is durable; the second
        // copy is being written too.
        let steps = seed % 4;
        for (copy, offset) in (0..).zip(SUPERBLOCK_OFFSETS).take(usize::try_from(steps.div_ceil(2)).unwrap())
        {
            let bytes = new.encode();
            let made = bytes.chunks_exact(4096).map(|chunk| Block::from_bytes(chunk.try_into().unwrap()));
            let data = Payload { skip: 0, length: bytes.len(), blocks: made.collect() };
            let ticket = device.write(offset, data);
            let durability = if copy < steps / 2 { Durability::Durable } else { Durability::Volatile };
            device.complete_write(ticket, durability);
        }
        device.cut_power(512, &mut Random::new(seed));
        let found = read(&device);
        assert!(found == old || found == new, "{found:?}");
    }
}

/// open-cas#253, #311: after an upgrade, a version mismatch makes dirty data inaccessible.
#[test]
fn another_format_version_is_refused_by_a_sentence() {
    let mut bytes = Superblock::new([1; 16], 8 << 20).unwrap().encode();
    bytes[12] = 99;
    bytes[8..12].fill(0);
    let sum = kickcache_faultsim::content::checksum(&bytes);
    bytes[8..12].copy_from_slice(&sum.get().to_le_bytes());
    let refused = Superblock::decode([&bytes, &bytes], 8 << 20).unwrap_err();
    assert_eq!(refused, Error::Version { found: 99, expected: FORMAT_VERSION_NEWEST });
}

/// ceph#41490: the root pointer is corrupted by updates that race at queue depths above 1.
#[test]
fn concurrent_writes_of_the_same_blocks_leave_either() {
    for seed in 0..20 {
        let mut stage = Stage::new(Mode::WriteBack, seed);
        let asked: Vec<_> = (2..34).map(|version| stage.ask(VOLATILE, blocks(0, 4), version)).collect();
        for id in asked {
            stage.finish(id).unwrap();
        }
        let found = stage.read_all(4);
        stage.kill();
        assert_eq!(stage.open(), Phase::Running);
        assert_eq!(stage.read_all(4), found);
    }
}

/// ceph#41093: a log record that is split where the ring begins again cannot be read.
#[test]
fn the_journal_goes_round_and_is_read_back() {
    let mut stage = Stage::new(Mode::WriteAround, 5);
    let mut checkpoints = 0;
    for version in 2..62 {
        for start in (0..1024).step_by(64) {
            let read = stage.ask(Operation::Read, blocks(start, 64), 0);
            stage.finish(read).unwrap();
        }
        stage.pass(10);
        stage.write(blocks(0, 1024), version).unwrap();
        if version % 15 == 0 {
            checkpoints += stage.status().counters.checkpoints;
            stage.flush().unwrap();
            stage.cut_and_open();
        }
    }
    assert!(checkpoints >= 4, "{checkpoints} checkpoints are hardly a round");
    stage.flush().unwrap();
    stage.cut_and_open();
    assert_eq!(stage.read_all(1024), vec![61; 1024]);
}

/// The newest checkpoint is lost, as on a device that lied about a flush: the journal reaches back to the previous
/// checkpoint, and is nearly full.
#[test]
fn a_journal_without_its_newest_checkpoint_is_used_or_refused() {
    let mut stage = Stage::new(Mode::WriteAround, 31);
    let mut refused = 0;
    for version in 2..120 {
        stage.read(7).unwrap();
        stage.pass(10);
        stage.write(blocks(7, 1), version).unwrap();
        stage.flush().unwrap();
        stage.kill();
        let saved = stage.devices.clone();
        if let Some(place) = newest_checkpoint(&stage) {
            stage.devices.cache.flip_bit(blocks(place, 1), &mut Random::new(version));
            if stage.open() == Phase::Running {
                stage.write(blocks(9, 1), version).unwrap();
                stage.pass(100);
                stage.kill();
            } else {
                refused += 1;
            }
        }
        stage.devices = saved;
        assert_eq!(stage.open(), Phase::Running);
    }
    assert!((1..60).contains(&refused), "{refused} times the older checkpoint was out of reach");
}

fn newest_checkpoint(stage: &Stage) -> Option<u64> {
    let geometry = Geometry::for_device(stage.plan.cache_size).expect("the stage has a device");
    let start_of = |block: u64| {
        let bytes = stage.devices.cache.bytes(blocks(block, 1));
        match JournalBlock::decode(&bytes, &geometry)?.body {
            JournalBody::Chunk(found) => Some((found.start, block)),
            JournalBody::Records(_) => None,
        }
    };
    let journal = geometry.journal();
    let all = journal.start / BLOCK_SIZE..journal.end() / BLOCK_SIZE;
    all.filter_map(start_of).max().map(|(_, block)| block)
}

#[test]
fn a_promote_waits_for_memory() {
    let mut plan = plan(Mode::WriteBack, 30);
    plan.settings.pool_pages = 64;
    let mut stage = Stage::with(plan, 30);
    stage.open();
    let extent =
        |number: u64| ByteExtent { start: number * 200 * BLOCK_SIZE + 512, length: 400 * BLOCK_SIZE };
    let ids: Vec<_> = (0..8).map(|number| stage.ask(Operation::Promote, extent(number), 0)).collect();
    ids.into_iter().for_each(|id| drop(stage.finish(id).unwrap()));
}

/// ceph#41068: a counter of space is not put back, and a full cache hangs for ever.
#[test]
fn a_full_cache_goes_on_and_its_space_comes_back() {
    let mut stage = Stage::new(Mode::WriteBack, 6);
    for round in 0..8 {
        for start in (0..4096).step_by(128) {
            stage.write(blocks(start, 128), 2 + round).unwrap();
        }
    }
    stage.drain();
    stage.until(|stage| stage.engine().pool_pages_used() == 0);
    let status = stage.status();
    assert!(status.free_segments > 0 && status.counters.reclaimed_segments > 500, "{status:?}");
    assert!((0..4096).all(|block| stage.on_origin(block) == Some(9)));
}

/// ceph#42046: offsets of 32 bits, caches above 4 GB broken.
#[test]
fn places_beyond_4_gib_keep_their_bytes() {
    let geometry = Geometry::for_device(1 << 40).unwrap();
    let far = Location::new(200_000_000);
    assert_eq!(geometry.byte_offset(far) - geometry.byte_offset(Location::new(0)), 200_000_000 * 4096);
    let mut stage = Stage::new(Mode::WriteBack, 7);
    stage.kill();
    let plan = Plan { origin_sizes: vec![6 << 30], ..stage.plan.clone() };
    let mut stage = Stage::with(plan, 7);
    assert_eq!(stage.open(), Phase::Running);
    let place = (5 << 30) / BLOCK_SIZE;
    stage.write(blocks(place, 8), 2).unwrap();
    stage.write(blocks(place - (1 << 20), 8), 3).unwrap();
    stage.kill();
    stage.open();
    assert_eq!((stage.read(place), stage.read(place - (1 << 20))), (Ok(2), Ok(3)));
    stage.drain();
    assert_eq!(stage.on_origin(place), Some(2));
}

/// ceph#42555: when an old place is emptied, the entry of the newer copy is removed.
#[test]
fn reclaim_of_an_old_copy_leaves_the_newer_one() {
    let mut stage = Stage::new(Mode::WriteBack, 8);
    for round in 2..30 {
        stage.write(blocks(0, 16), round).unwrap();
        stage.write(blocks(64 * round, 64), round).unwrap();
        assert_eq!(stage.read_all(16), vec![round; 16]);
    }
    stage.flush().unwrap();
    stage.cut_and_open();
    assert_eq!(stage.read_all(16), vec![29; 16]);
}

/// ceph#43127, #44199: overlapping writes change places during writeback.
#[test]
fn writeback_leaves_the_last_of_overlapping_writes_on_the_origin() {
    for seed in 0..20 {
        let mut stage = Stage::new(Mode::WriteBack, seed);
        for version in 2..20 {
            stage.write(blocks(version % 5, 8), version).unwrap();
            if version % 3 == 0 {
                let now = stage.now();
                stage.engine_mut().drain(now, VOLUME);
            }
        }
        let expected = stage.read_all(16);
        stage.drain();
        let found: Vec<u64> = (0..16).map(|block| stage.on_origin(block).unwrap()).collect();
        assert_eq!(found, expected);
    }
}

/// s3backer#184: corruption with a file system that writes concurrently.
#[test]
fn partial_writes_of_one_block_at_once_all_stay() {
    for mode in [Mode::WriteBack, Mode::WriteThrough, Mode::WriteAround] {
        let mut stage = Stage::new(mode, 9);
        let sector = |number: u64| ByteExtent { start: number * 512, length: 512 };
        let asked: Vec<_> = (0..16).map(|number| stage.ask(VOLATILE, sector(number), 2 + number)).collect();
        for id in asked {
            stage.finish(id).unwrap();
        }
        let read = stage.ask(Operation::Read, blocks(0, 2), 0);
        let found = stage.finish(read).unwrap();
        for number in 0..16 {
            let block = &found.blocks[usize::try_from(number / 8).unwrap()];
            assert_eq!(
                block.version_of_units(VOLUME, number * 16..number * 16 + 16),
                Ok(2 + number),
                "{mode:?}"
            );
        }
    }
}

fn gone_from_now(stage: &Stage, device: Device) -> Vec<Outage> {
    vec![Outage {
        device,
        trouble: Trouble::Gone,
        from: stage.now(),
        until: stage.now().plus(Duration::from_millis(1 << 40)),
    }]
}

/// juicefs#4782, #4870: the disk of the cache fails and all I/O stops.
#[test]
fn a_clean_volume_continues_without_its_cache_device() {
    let mut stage = Stage::new(Mode::WriteThrough, 10);
    stage.write(blocks(0, 64), 2).unwrap();
    stage.drain();
    let outages = gone_from_now(&stage, Device::Cache);
    stage.set_faults(Faults::default(), outages);
    assert_eq!(stage.read_all(64), vec![2; 64]);
    for version in 3..40 {
        stage.write(blocks(0, 64), version).unwrap();
    }
    stage.flush().unwrap();
    assert_eq!(stage.read_all(64), vec![39; 64]);
    assert_eq!(stage.on_origin(0), Some(39));
}

#[test]
fn reads_of_dirty_blocks_fail_without_the_cache_device() {
    let mut stage = Stage::new(Mode::WriteBack, 11);
    stage.write(blocks(0, 8), 2).unwrap();
    let outages = gone_from_now(&stage, Device::Cache);
    stage.set_faults(Faults::default(), outages);
    assert!((0..8).all(|block| stage.read(block) == Err(Errno::Io)));
    assert_eq!(stage.flush(), Err(Errno::Io));
}

#[test]
fn a_lost_write_leaves_the_overwritten_dirty_block() {
    let mut stage = Stage::new(Mode::WriteBack, 26);
    stage.write(blocks(0, 1), 2).unwrap();
    let cache = Rates { write: 10_000, ..Rates::default() };
    stage.set_faults(Faults { cache, ..Faults::default() }, Vec::new());
    stage.write(ByteExtent { start: 512, length: 1024 }, 3).unwrap();
    let id = stage.ask(Operation::Read, blocks(0, 1), 0);
    let found = stage.finish(id).unwrap();
    let parts = [(0..16, 2), (16..48, 3), (48..128, 2)];
    for (units, version) in parts {
        assert_eq!(found.blocks[0].version_of_units(VOLUME, units), Ok(version));
    }
}

#[test]
fn a_superseding_write_is_acknowledged_only_once_stored() {
    let mut stage = Stage::new(Mode::WriteBack, 29);
    let cache = Rates { write: 10_000, ..Rates::default() };
    stage.set_faults(Faults { cache, ..Faults::default() }, Vec::new());
    let versions = 2..10;
    let ids: Vec<_> = versions
        .map(|version| {
            let at = ByteExtent { start: (version - 2) * 512, length: 512 };
            let id = stage.ask(VOLATILE, at, version);
            let batches = stage.status().counters.batches;
            stage.until(|stage| stage.status().counters.batches > batches || stage.has_ended(id));
            id
        })
        .collect();
    ids.into_iter().for_each(|id| drop(stage.finish(id).unwrap()));
    let id = stage.ask(Operation::Read, blocks(0, 1), 0);
    let found = stage.finish(id).unwrap();
    for (number, version) in (0..).zip(2..10) {
        let units = number * 16..(number + 1) * 16;
        assert_eq!(found.blocks[0].version_of_units(VOLUME, units), Ok(version));
    }
}

#[test]
fn a_partial_dirty_block_is_unwritable_without_the_cache_device() {
    let mut stage = Stage::new(Mode::WriteBack, 27);
    stage.write(blocks(0, 1), 2).unwrap();
    let id = stage.ask(VOLATILE, ByteExtent { start: 512, length: 1024 }, 3);
    let batches = stage.status().counters.batches;
    stage.until(|stage| stage.status().counters.batches > batches);
    let outages = gone_from_now(&stage, Device::Cache);
    stage.set_faults(Faults::default(), outages);
    assert_eq!(stage.finish(id).unwrap_err(), Errno::Io);
    assert_eq!(stage.read(0), Err(Errno::Io));
    assert_eq!(stage.on_origin(0), Some(0));
}

#[test]
fn writes_waiting_for_memory_do_not_wake_each_other_forever() {
    let mut plan = plan(Mode::WriteBack, 28);
    plan.settings.pool_pages = 8;
    let mut stage = Stage::with(plan, 28);
    stage.open();
    let extent = |block: u64| ByteExtent { start: block * BLOCK_SIZE + 512, length: 2 * BLOCK_SIZE };
    let ids: Vec<_> = (0..32).map(|number| stage.ask(VOLATILE, extent(number % 16), number + 2)).collect();
    ids.into_iter().for_each(|id| drop(stage.finish(id).unwrap()));
}

#[test]
fn a_write_larger_than_the_cache_is_stored_whole() {
    for mode in [Mode::WriteBack, Mode::WriteThrough, Mode::WriteAround] {
        let mut stage = Stage::new(mode, 29);
        stage.write(blocks(3, 40), 2).unwrap();
        stage.write(blocks(0, 4000), 3).unwrap();
        let odd = ByteExtent { start: 512, length: 3999 * BLOCK_SIZE };
        let ids: Vec<_> = (4..8).map(|version| stage.ask(VOLATILE, odd, version)).collect();
        ids.into_iter().for_each(|id| drop(stage.finish(id).unwrap()));
        stage.flush().unwrap();
        stage.cut_and_open();
        assert!((1..3999).all(|block| (4..8).contains(&stage.read(block).unwrap())), "{mode:?}");
    }
}

/// juicefs#5981: a flipped bit is served.
#[test]
fn a_flipped_bit_in_a_clean_block_is_healed() {
    let mut stage = Stage::new(Mode::WriteThrough, 12);
    stage.write(blocks(0, 32), 2).unwrap();
    stage.drain();
    let damage = Damage { flip: 10_000, ..Damage::default() };
    stage.set_faults(Faults { damage, ..Faults::default() }, Vec::new());
    assert_eq!(stage.read_all(32), vec![2; 32]);
    assert!(stage.status().volumes[0].counters.healed_blocks > 0);
}

#[test]
fn a_flipped_bit_in_a_dirty_block_is_an_error() {
    let mut stage = Stage::new(Mode::WriteBack, 13);
    stage.write(blocks(0, 4), 2).unwrap();
    let damage = Damage { flip: 10_000, ..Damage::default() };
    stage.set_faults(Faults { damage, ..Faults::default() }, Vec::new());
    assert!((0..4).all(|block| stage.read(block) == Err(Errno::Io)));
    assert!(stage.status().volumes[0].counters.damaged_blocks > 0);
    assert_eq!(stage.on_origin(0), Some(0));
    stage.write(blocks(0, 4), 3).unwrap();
}

/// A torn write leaves the older copy; rot of durable data must not, in this life and in the next.
#[test]
fn a_corrupt_dirty_block_after_a_kill_is_an_error() {
    let mut stage = Stage::written_twice(40);
    stage.rot(5, 3);
    for _ in 0..3 {
        assert_eq!(stage.open(), Phase::Running);
        stage.check_lost_alone(5);
        assert_eq!(stage.read(100), Ok(4));
        stage.cut_power();
    }
}

#[test]
fn a_header_that_rotted_after_a_kill_is_refused() {
    let mut stage = Stage::written_twice(40);
    let place = durable_places(&stage.devices.cache, stage.devices.cache.blocks()).headers[0];
    stage.devices.cache.flip_bit(blocks(place, 1), &mut Random::new(2));
    let Phase::Failed(error @ Error::Rotted { .. }) = stage.open() else { panic!("it is refused") };
    assert!(error.to_string().contains("a batch header in segment 1 was whole once"), "{error}");
    stage.kill();
    stage.go_on_with_what_is_left();
}

#[test]
fn a_corrupt_clean_block_after_a_kill_is_healed() {
    let mut stage = Stage::with(dirty_plan(41), 41);
    (0..8).for_each(|block| stage.devices.origins[0].prepare(block, &Block::stamp(VOLUME, block, 3)));
    assert_eq!(stage.open(), Phase::Running);
    assert_eq!(stage.read_all(8), vec![3; 8]);
    stage.pass(50);
    stage.flush().unwrap();
    stage.write(blocks(100, 1), 4).unwrap();
    stage.kill();
    stage.rot(5, 3);
    assert_eq!(stage.open(), Phase::Running);
    assert_eq!(stage.read_all(8), vec![3; 8]);
    assert_eq!(stage.status().volumes[0].counters.healed_blocks, 1);
}

#[test]
fn a_failed_write_is_not_reported_as_corruption() {
    for seed in 0..40 {
        let mut stage = Stage::with(dirty_plan(seed), seed);
        assert_eq!(stage.open(), Phase::Running);
        stage.write(blocks(0, 8), 2).unwrap();
        stage.flush().unwrap();
        stage.set_faults(Faults { cache: errors(0, 5_000, 0), ..Faults::default() }, Vec::new());
        for block in 0..8 {
            stage.write(blocks(block, 1), 3).unwrap();
        }
        stage.set_faults(Faults::default(), Vec::new());
        if stage.status().health == CacheHealth::Good {
            stage.flush().unwrap();
            stage.write(blocks(100, 1), 4).unwrap();
            stage.cut_and_open();
            assert_eq!(stage.read_all(8), vec![3; 8], "seed {seed}");
        }
    }
}

#[test]
fn blocks_written_together_are_one_read() {
    assert_eq!(reads_of_1024_stretches(2 << 30), 1_024);
    assert!(reads_of_1024_stretches(512 << 20) <= 1_024 + 1_024 / 8);
}

/// Reads of a cache device of this size for 1,024 stretches of 64 KiB, each written by one request.
fn reads_of_1024_stretches(cache_size: u64) -> u64 {
    let mut plan = dirty_plan(31);
    (plan.cache_size, plan.origin_sizes) = (cache_size, vec![64 << 20]);
    let mut stage = Stage::with(plan, 31);
    stage.open();
    let extent = |number: u64| blocks(number * 37 % 1024 * 16, 16);
    for number in (0..1024).step_by(8) {
        let ids: Vec<_> = (number..number + 8).map(|number| stage.ask(VOLATILE, extent(number), 2)).collect();
        ids.into_iter().for_each(|id| drop(stage.finish(id).expect("nothing fails")));
    }
    stage.pass(100);
    let before = stage.status().counters.reads;
    for number in 0..1_024 {
        let id = stage.ask(Operation::Read, blocks(number * 16, 16), 0);
        stage.finish(id).expect("nothing fails");
    }
    stage.status().counters.reads - before
}

#[test]
fn writes_go_on_with_a_cache_full_of_damage() {
    let mut stage = Stage::with(dirty_plan(30), 30);
    stage.open();
    stage.write(blocks(0, 1_400), 2).unwrap();
    let damage = Damage { flip: 10_000, ..Damage::default() };
    stage.set_faults(Faults { damage, ..Faults::default() }, Vec::new());
    assert!((0..1_400).all(|block| stage.read(block) == Err(Errno::Io)));
    stage.set_faults(Faults::default(), Vec::new());
    stage.write(blocks(2_000, 800), 3).unwrap();
    assert!((2_000..2_800).all(|block| stage.read(block) == Ok(3)));
    assert!((0..1_400).all(|block| stage.read(block) == Err(Errno::Io)));
}

#[test]
fn a_write_too_large_for_the_damaged_cache_bypasses_it() {
    for left in [8, 60, 120, 240] {
        let mut stage = Stage::with(dirty_plan(30), 30);
        stage.open();
        stage.write(blocks(0, 1_400), 2).unwrap();
        let damage = Damage { flip: 10_000, ..Damage::default() };
        stage.set_faults(Faults { damage, ..Faults::default() }, Vec::new());
        assert!((left..1_400).all(|block| stage.read(block) == Err(Errno::Io)));
        stage.set_faults(Faults::default(), Vec::new());
        stage.write(blocks(2_000, 1_500), 3).unwrap();
        assert!((2_000..3_500).all(|block| stage.read(block) == Ok(3)), "{left}");
    }
}

/// Writeback must not include a clean block between two dirty ones over a write in flight past the cache
/// device.
#[test]
fn writeback_keeps_newer_writes_past_a_failed_cache() {
    for steps in 0..12 {
        let mut stage = Stage::with(dirty_plan(32), steps);
        stage.open();
        stage.write(blocks(0, 3), 2).unwrap();
        stage.drain();
        stage.write(blocks(0, 1), 3).unwrap();
        stage.write(blocks(2, 1), 3).unwrap();
        stage.flush().unwrap();
        stage.set_faults(Faults { cache: errors(0, 10_000, 0), ..Faults::default() }, Vec::new());
        for version in 4.. {
            if stage.status().health != CacheHealth::Good {
                break;
            }
            stage.write(blocks(100, 1), version).unwrap();
        }
        assert_eq!(stage.read(1), Ok(2));
        let past = stage.ask(VOLATILE, blocks(1, 1), 9);
        for _ in 0..steps {
            stage.step();
        }
        let now = stage.now();
        stage.engine_mut().drain(now, VOLUME);
        stage.finish(past).unwrap();
        stage.until(|stage| stage.dirty() == 0);
        assert_eq!((stage.on_origin(0), stage.on_origin(1), stage.on_origin(2)), (Some(3), Some(9), Some(3)));
    }
}

/// juicefs#4798: a detector of slow disks trips under load.
#[test]
fn a_slow_cache_device_stays_in_service() {
    let mut stage = Stage::new(Mode::WriteBack, 14);
    stage.set_faults(
        Faults { cache: Rates { hang: 3_000, ..Rates::default() }, ..Faults::default() },
        Vec::new(),
    );
    for version in 2..12 {
        stage.write(blocks(version * 8, 8), version).unwrap();
        stage.flush().unwrap();
    }
    assert_eq!(stage.status().health, CacheHealth::Good);
    assert_eq!(stage.read(80), Ok(10));
}

/// riffle#591: a full file system below the cache is treated as corruption.
#[test]
fn a_full_cache_device_is_lossless_and_does_not_block() {
    for mode in [Mode::WriteThrough, Mode::WriteBack] {
        let mut stage = Stage::new(mode, 15);
        stage.write(blocks(0, 16), 2).unwrap();
        stage.drain();
        let full = Faults { cache: errors(0, 10_000, 0), full_permille: 1_000, ..Faults::default() };
        stage.set_faults(full, Vec::new());
        for version in 3..30 {
            stage.write(blocks(0, 16), version).unwrap();
        }
        assert_eq!(stage.read_all(16), vec![29; 16]);
        stage.set_faults(Faults::default(), Vec::new());
        stage.flush().unwrap();
        assert_eq!((stage.on_origin(0), stage.dirty()), (Some(29), 0), "{mode:?}");
    }
}

/// ZeroFS#98: a discard of a whole device takes minutes.
#[test]
fn a_discard_of_a_whole_volume_is_few_submissions() {
    let mut stage = Stage::new(Mode::WriteBack, 16);
    stage.write(blocks(0, 512), 2).unwrap();
    let before = stage.now();
    let asked = stage.ask(Operation::Discard, blocks(0, 4096), 0);
    stage.finish(asked).unwrap();
    assert!(stage.now().since(before) < Duration::from_millis(20));
    assert_eq!(stage.status().volumes[0].cached_blocks, 0);
}

/// Early NVMe drivers: a flush is sent together with the data, and ends first.
#[test]
fn a_flush_covers_every_write_that_was_acknowledged_before_it() {
    for seed in 0..60 {
        for mode in [Mode::WriteBack, Mode::WriteThrough, Mode::WriteAround] {
            let mut stage = Stage::new(mode, seed);
            let others: Vec<_> =
                (0..8).map(|number| stage.ask(VOLATILE, blocks(100 + number, 1), 9)).collect();
            stage.write(blocks(0, 8), 2).unwrap();
            let flush = stage.ask(Operation::Flush, blocks(0, 0), 0);
            stage.ask(VOLATILE, blocks(50, 8), 3);
            stage.finish(flush).unwrap();
            drop(others);
            stage.cut_and_open();
            assert_eq!(stage.read_all(8), vec![2; 8], "{mode:?}, seed {seed}");
        }
    }
}

#[test]
fn a_failed_recovery_changes_no_data() {
    let mut stage = Stage::new(Mode::WriteBack, 17);
    stage.write(blocks(0, 32), 2).unwrap();
    stage.kill();
    stage.plan.faults = Faults { cache: errors(10_000, 0, 0), ..Faults::default() };
    assert!(matches!(stage.open(), Phase::Failed(Error::Recovery { .. })));
    stage.kill();
    stage.plan.faults = Faults::default();
    assert_eq!(stage.open(), Phase::Running);
    assert_eq!(stage.read_all(32), vec![2; 32]);
}

#[test]
fn dirty_data_waits_for_an_origin_that_is_gone() {
    let mut stage = Stage::new(Mode::WriteBack, 18);
    let until = stage.now().plus(Duration::from_millis(5_000));
    let outage = Outage { device: Device::Origin(VOLUME), trouble: Trouble::Gone, from: stage.now(), until };
    stage.set_faults(Faults::default(), vec![outage]);
    stage.write(blocks(0, 16), 2).unwrap();
    assert_eq!(stage.read(500), Err(Errno::Io));
    stage.pass(3_000);
    assert_eq!(stage.dirty(), 16);
    stage.drain();
    assert!(stage.now() >= until && stage.on_origin(15) == Some(2));
}
