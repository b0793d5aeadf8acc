//! The effects of the commits of the repair, each in a small cache.

use super::*;
use crate::device_model::device_file::built_in;
use crate::published::load::{Order, Sweep, SweepShape, ZipfReads};
use crate::replay::bench::{Course, run, run_idle};
use crate::workload::Workload;

const BLOCK: u64 = 64 << 10;
const CACHE: u64 = 16 << 20;
const STALE_AT: u64 = 128 << 20;

struct Bench {
    cache: DmCache,
    devices: Devices,
    at: Instant,
}

impl Bench {
    fn new(age: Age) -> Bench {
        let origin_bytes = 256 << 20;
        let shape =
            DmCacheShape { age, block_bytes: BLOCK, cache_bytes: CACHE, origin_bytes, mode: WriteMode::Back };
        let device = |name, seed| built_in(name).unwrap().start(seed);
        let devices = Devices::cached(device("article-ssd", 1), device("mirrored-5400", 2));
        Bench { cache: DmCache::new(shape), devices, at: Instant::ZERO }
    }

    fn stale(age: Age, state: BlockState) -> Bench {
        let mut bench = Bench::new(age);
        bench.cache.fill_with_stale_data(STALE_AT, state);
        bench
    }

    fn run(&mut self, load: &mut dyn Workload, seconds: u64) {
        let length = Duration::from_millis(seconds * 1_000);
        let cost = Duration::from_millis(1);
        let course = Course { start: self.at, length, cost, ..Course::default() };
        let result = run(course, load, &mut self.cache, &mut self.devices, &mut |_| ());
        self.at = self.at.plus(Duration::from_nanos(result.nanos));
    }

    fn write(&mut self, bytes: u64) {
        let (kind, order) = (Kind::Write, Order::Sequential);
        let shape = SweepShape { kind, order, block_bytes: BLOCK, start: 0, bytes, jobs: 1, depth: 1 };
        self.run(&mut Sweep::new(shape), 100);
    }

    fn read(&mut self, bytes: u64, seconds: u64) {
        self.run(&mut ZipfReads::new(2, 0, bytes / 2, 3, u64::MAX), seconds);
    }

    fn rest(&mut self, seconds: u64) {
        let length = Duration::from_millis(seconds * 1_000);
        self.at = run_idle(&mut self.cache, &mut self.devices, self.at, length);
    }

    fn dirty_blocks(&self) -> u64 {
        self.cache.tally().dirty_bytes / BLOCK
    }

    fn promoted_blocks(&self) -> u64 {
        self.cache.tally().promoted_bytes / BLOCK
    }
}

#[test]
fn an_idle_origin_makes_the_cache_idle_between_commits() {
    let left = |age| {
        let mut bench = Bench::new(age);
        bench.write(CACHE / 2);
        bench.read(CACHE / 2, 30);
        bench.dirty_blocks()
    };
    // The ages are before 072792dcdfc8, between it and 701e03e4e180, and after both.
    assert_eq!([Age::LINUX_4_12_RC1, Age::PART_OF_REPAIR, Age::REPAIRED].map(left), [128, 0, 128]);
}

#[test]
fn only_an_idle_present_cache_writes_back_recent_writes() {
    let left = |age| {
        let mut bench = Bench::new(age);
        bench.write(CACHE / 2);
        bench.rest(5);
        bench.dirty_blocks()
    };
    assert_eq!((left(Age::LINUX_4_12_RC1), left(Age::REPAIRED)), (128, 0));
}

#[test]
fn a_block_enters_only_after_the_commit_in_progress() {
    let mut bench = Bench::stale(Age::REPAIRED, BlockState::Clean);
    let Bench { cache, devices, at } = &mut bench;
    let victim = cache.policy.take_victim().unwrap();
    cache.migrations += 2;
    let demote = Work::Demote { block: cache.block_of[victim as usize], index: victim };
    cache.background.queue(demote);
    cache.background.next(&mut cache.policy, &cache.block_of, Pressure::Busy);
    cache.metadata.wait(demote);
    cache.commit(*at, devices);
    let index = cache.policy.take_victim().unwrap();
    cache.background.begin(7);
    cache.enter(*at, Purpose::CopyWrite(Work::Promote { block: 7, index }), devices);
    assert_eq!(bench.promoted_blocks(), 0);
    bench.rest(1);
    assert_eq!((bench.promoted_blocks(), bench.cache.policy.free_count()), (1, 1));
}

#[test]
fn at_first_a_quarter_is_freed_ahead_of_need() {
    let free = |age| {
        let mut bench = Bench::stale(age, BlockState::Clean);
        bench.rest(10);
        bench.cache.policy.free_count()
    };
    assert_eq!((free(Age::PART_OF_REPAIR), free(Age::MOST_OF_REPAIR)), (64, 0));
}

#[test]
fn at_first_a_quarter_is_kept_clean_under_load() {
    let left = |age| {
        let mut bench = Bench::new(age);
        bench.cache.fill_with_stale_data(0, BlockState::Dirty);
        (1..4).for_each(|step| bench.cache.policy.tick(Instant::from_nanos(step * 11_000_000_000)));
        bench.read(CACHE / 4, 2);
        bench.dirty_blocks()
    };
    assert_eq!((left(Age::LINUX_4_12_RC1), left(Age::REPAIRED)), (192, 256));
}

#[test]
fn early_repair_steps_write_back_a_dirty_lower_half() {
    // Half of the cache is clean, and all clean blocks are above the dirty ones.
    let done = |age| {
        let mut bench = Bench::stale(age, BlockState::Clean);
        let cache = &mut bench.cache;
        cache.policy.tick(Instant::ZERO);
        let lower: Vec<u32> = (0..128).map(|_| cache.policy.take_victim().unwrap()).collect();
        for index in lower {
            cache.policy.requeue(index);
            cache.policy.set_state(index, BlockState::Dirty);
        }
        (1..4).for_each(|step| cache.policy.tick(Instant::from_nanos(step * 11_000_000_000)));
        cache.background.queue_demotion(&mut cache.policy, &cache.block_of);
        cache.background.next(&mut cache.policy, &cache.block_of, Pressure::Busy)
    };
    assert!(matches!(done(Age::LINUX_4_12_RC1), Some(Work::Demote { .. })));
    assert!(matches!(done(Age::PART_OF_REPAIR), Some(Work::Writeback { .. })));
}

#[test]
fn promoted_blocks_stay_only_since_they_enter_at_the_top() {
    let hits = |age| {
        let mut bench = Bench::stale(age, BlockState::Clean);
        bench.read(CACHE, 60);
        let tally = bench.cache.tally();
        (tally.hit_blocks, bench.promoted_blocks())
    };
    let (part, most) = (hits(Age::PART_OF_REPAIR), hits(Age::MOST_OF_REPAIR));
    assert!(most.0 > part.0 && most.1 * 10 < part.1, "{part:?} and {most:?} hits and promotions");
}

#[test]
fn a_repaired_cache_full_of_dirty_blocks_adapts_slowly() {
    let promoted = |state| {
        let mut bench = Bench::stale(Age::REPAIRED, state);
        bench.read(64 << 20, 10);
        bench.promoted_blocks()
    };
    let (clean, dirty) = (promoted(BlockState::Clean), promoted(BlockState::Dirty));
    assert!(dirty * 2 < clean, "{dirty} against {clean} blocks");
}

#[test]
fn a_promotion_waits_for_the_read_that_caused_it() {
    let mut bench = Bench::new(Age::REPAIRED);
    let demand =
        Demand { id: 0, job: 0, kind: Kind::Read, extent: ByteExtent { start: 0, length: BLOCK_SIZE } };
    // Free blocks: with the third tick the threshold is that of a queue without data.
    let policy = &mut bench.cache.policy;
    (0..3).for_each(|_| policy.tick(Instant::ZERO));
    while !policy.on_miss(0, Want::Read) {
        policy.tick(Instant::ZERO);
    }
    bench.cache.handle_demand(Instant::ZERO, demand, &mut bench.devices);
    assert_eq!(bench.cache.quiescing.len(), 1);
    bench.rest(1);
    assert!(bench.cache.quiescing.is_empty());
    assert_eq!(bench.promoted_blocks(), 1);
}

#[test]
fn promotions_are_committed_each_second_and_before_a_flush() {
    let mut bench = Bench::new(Age::REPAIRED);
    bench.cache.metadata.on_changed();
    let none = ByteExtent { start: 0, length: 0 };
    let demand = Demand { id: 0, job: 0, kind: Kind::Flush, extent: none };
    bench.cache.handle_demand(Instant::ZERO, demand, &mut bench.devices);
    assert!(bench.cache.metadata.is_running() && !bench.cache.metadata.is_changed());
    bench.rest(2);
    let device = bench.devices.take_results(bench.at).0.unwrap();
    // Five blocks and the superblock, each followed by a flush; then the client's.
    assert_eq!((device.writes, device.write_bytes, device.flushes), (2, 6 * BLOCK_SIZE, 3));
    bench.cache.metadata.on_changed();
    bench.rest(2);
    assert_eq!(bench.devices.take_results(bench.at).0.unwrap().flushes, 2);
}
