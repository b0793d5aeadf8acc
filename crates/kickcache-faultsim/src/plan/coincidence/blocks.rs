//! Blocks in a rare state that another rare event affects: unreadable while they wait for a flush, dropped by a request
//! that the origin refuses, written by requests that overlap in part.

use kickcache_engine::config::{Admission, Mode, OriginOffload, Room, SequentialCutoff};
use kickcache_engine::time::Duration;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_random::Random;

use crate::plan::aim::Aim;
use crate::plan::coincidence::pressure::hurry;
use crate::plan::faults::Faults;
use crate::plan::pick::pick;
use crate::plan::{Plan, focus, restarts, superseding};

/// The origins have stored blocks and have not flushed them, the cache device cannot read some of these, and the power
/// fails. Reclaim, writeback or clients read them.
pub(super) fn lose_unflushed_copies(plan: &mut Plan, random: &mut Random) {
    focus::carry_what_waits_for_a_flush(plan, random);
    if random.chance(500) {
        plan.faults.bad_spot_permille = random.within(10, 200);
    } else {
        plan.faults.cache.read = random.within(50, 2_000);
    }
    (plan.weights.flush, plan.weights.durable_permille) = (random.within(2, 20), pick(random, &[0, 200]));
    plan.shape.sector_permille = random.below(200);
    (plan.requests, plan.lives) = (random.within(300, 900), random.within(3, 8));
    plan.ends.aim = pick(random, &[Aim::Anything, Aim::Failure]);
}

/// Origins fail durable writebacks, which may be errors of blocks that wait for a flush. The log has a copy of all
/// writes: long writes, writes of streams, and writes while the log is nearly full would bypass it.
pub(super) fn fail_durable_writebacks(plan: &mut Plan, random: &mut Random) {
    focus::carry_what_waits_for_a_flush(plan, random);
    (plan.faults.origin.write, plan.faults.tells_once) = (random.within(300, 3_000), true);
    plan.settings.origin_offload = OriginOffload::Never;
    (plan.cache_size, plan.shape.length_max) = (16 << 20, 16 << 10);
    (plan.weights.flush, plan.weights.durable_permille) = (random.within(2, 20), 0);
    (plan.weights.discard, plan.weights.zeroes) = (0, 0);
    plan.volumes.iter_mut().for_each(|volume| volume.sequential_cutoff = SequentialCutoff::Off);
    (plan.requests, plan.lives) = (random.within(50, 200), random.within(4, 12));
    plan.ends.aim = pick(random, &[Aim::Anything, Aim::Failure]);
}

/// Origins of either kind refuse discards of blocks that were written back or not, and clients read these blocks. In
/// half of the runs the origins are servers that restart.
pub(super) fn refuse_discards(plan: &mut Plan, random: &mut Random) {
    if random.chance(600) {
        restarts::draw_beside_fills(plan, random);
        for volume in &mut plan.volumes {
            // Reads that are not cached show the loss of the data that they returned.
            volume.admission = pick(random, &[Admission::Always, Admission::SecondTouch]);
            volume.fill_window_max = pick(random, &[BLOCK_SIZE, BLOCK_SIZE << 4]);
            volume.room_max = pick(random, &[None, Some(Room::Blocks(1)), Some(Room::Blocks(1))]);
        }
        // Between two restarts there is time for a writeback, a refused discard and a read.
        let access = Duration::from_micros(random.within(200, 4_000));
        (plan.origin_latency.base, plan.origin_latency.mean) = (access, access);
        plan.restart_after = Some(Duration::from_micros(random.within(30_000, 200_000)));
    } else {
        plan.faults = Faults::default();
        plan.origin_latency.base = Duration::from_micros(random.within(100, 5_000));
        for volume in &mut plan.volumes {
            volume.mode = pick(random, &[Mode::WriteBack, Mode::WriteBack, Mode::WriteThrough]);
            (volume.dirty_low, volume.idle_after) = (1, Duration::from_millis(1));
        }
        plan.settings.origin_flush_after = Duration::from_millis(pick(random, &[1, 2_000]));
        (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (600, 200, 1_000);
    }
    plan.faults.origin.unmap = random.within(4_000, 9_500);
    // A drain writes blocks back although clients are busy.
    (plan.drains, plan.clients) = (random.chance(500), pick(random, &[4, 8, 16]));
    plan.pause = Duration::from_micros(pick(random, &[0, 2_000, 10_000]));
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (1_000, pick(random, &[12, 32, 64]));
    plan.shape.length_max = pick(random, &[4 << 10, 16 << 10]);
    plan.shape.sequential_permille = 0;
    // Between two discards of a block there are several reads, and most flushes come too late.
    (plan.weights.read, plan.weights.write) = (150, random.within(60, 150));
    (plan.weights.discard, plan.weights.zeroes) = (random.within(8, 30), pick(random, &[0, 0, 20]));
    (plan.weights.flush, plan.weights.durable_permille) = (pick(random, &[0, 0, 2]), 0);
    (plan.requests, plan.lives) = (random.within(400, 1_500), random.within(1, 4));
}

/// Origins refuse long write-zeroes over dirty and unflushed blocks, while batches fail in some runs.
pub(super) fn refuse_zeroes(plan: &mut Plan, random: &mut Random) {
    superseding::draw(plan, random);
    plan.forbid_changes();
    plan.faults = Faults::default();
    plan.faults.origin.unmap = pick(random, &[0, 1_000, 5_000]);
    if random.chance(500) {
        (plan.faults.cache.write, plan.faults.spares_journal) = (random.within(100, 2_000), true);
    }
    plan.settings.origin_offload = pick(random, &[OriginOffload::Forced, OriginOffload::Proven]);
    plan.mode_changes = false;
    plan.drains |= random.chance(300);
    plan.shape.length_max = pick(random, &[256 << 10, 1 << 20]);
    (plan.weights.zeroes, plan.weights.flush) = (random.within(20, 80), random.within(5, 30));
    (plan.requests, plan.lives) = (random.within(50, 200), random.within(6, 12));
    plan.ends.aim = pick(random, &[Aim::Anything, Aim::Failure, Aim::OriginFlush]);
}

/// Requests of all kinds overlap requests in flight in part, in all modes, and the devices refuse some.
pub(super) fn overlap(plan: &mut Plan, random: &mut Random) {
    plan.faults = Faults::default();
    match random.below(5) {
        0 => plan.faults.origin.write = random.within(100, 3_000),
        1 => plan.faults.cache.write = random.within(10, 1_000),
        2 => (plan.faults.origin.read, plan.faults.cache.read) = (random.below(500), random.below(500)),
        3 => plan.faults.origin.unmap = random.within(500, 5_000),
        _ => {}
    }
    plan.faults.spares_journal = random.chance(500);
    let limits = pick(random, &[(1, 2, 3), (20, 50, 80), (300, 500, 700)]);
    for volume in &mut plan.volumes {
        (volume.dirty_low, volume.dirty_high, volume.dirty_limit) = limits;
        volume.idle_after = Duration::from_millis(1);
    }
    plan.mode_changes = random.chance(500);
    plan.settings.origin_flush_after = Duration::from_millis(pick(random, &[1, 50, 2_000]));
    hurry(plan);
    plan.origin_latency.base = Duration::from_micros(random.within(100, 3_000));
    plan.cache_latency.base = Duration::from_micros(random.within(20, 1_000));
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (1_000, random.within(3, 24));
    plan.shape.length_max = 64 << 10;
    (plan.shape.sector_permille, plan.shape.unaligned_permille) = (random.below(600), random.below(300));
    plan.shape.sequential_permille = 0;
    (plan.weights.read, plan.weights.write) = (random.within(20, 100), 100);
    (plan.weights.discard, plan.weights.zeroes) = (random.below(30), random.below(40));
    (plan.weights.flush, plan.weights.promote) = (random.below(10), random.below(20));
    (plan.requests, plan.lives) = (random.within(50, 400), random.within(4, 10));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (500, 400, 1_000);
}

/// Reads of cached blocks are sent to servers that restart before they have flushed these blocks, or have an unreadable
/// cached copy of a block that a partial write needs.
pub(super) fn read_before_restarts(plan: &mut Plan, random: &mut Random) {
    restarts::draw_beside_fills(plan, random);
    plan.settings.origin_offload = OriginOffload::Forced;
    plan.faults.cache.read = pick(random, &[0, 500, 3_000]);
    (plan.shape.hot_blocks, plan.shape.length_max) = (pick(random, &[8, 32]), 64 << 10);
    (plan.weights.read, plan.weights.write) = (100, 60);
    (plan.weights.discard, plan.shape.sector_permille) = (random.below(10), random.below(600));
}
