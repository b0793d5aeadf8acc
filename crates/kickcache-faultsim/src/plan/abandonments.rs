//! Runs in which the operator leaves out a cache device with dirty blocks.

use kickcache_engine::config::{Mode, SequentialCutoff};
use kickcache_engine::time::Duration;
use kickcache_random::Random;

use crate::plan::aim::Aim;
use crate::plan::faults::Faults;
use crate::plan::{Abandoned, Plan};

pub(super) fn draw(plan: &mut Plan, random: &mut Random) {
    plan.faults = Faults::default();
    plan.forbid_changes();
    plan.abandoned = Some(Abandoned::AnyTime);
    for volume in &mut plan.volumes {
        (volume.mode, volume.sequential_cutoff) = (Mode::WriteBack, SequentialCutoff::Off);
    }
    (plan.mode_changes, plan.absent_permille, plan.long_pause_permille) = (false, 0, 0);
    plan.cache_size = 8 << 20;
    let origin = Duration::from_micros(random.within(500, 20_000));
    (plan.origin_latency.base, plan.origin_latency.mean) = (origin, origin);
    plan.shape.length_max = [4 << 10, 16 << 10][random.index(2)];
    (plan.shape.sequential_permille, plan.shape.unaligned_permille) = (0, 0);
    (plan.weights.read, plan.weights.write) = (random.within(10, 60), 100);
    (plan.weights.flush, plan.weights.discard) = (random.within(5, 40), random.below(10));
    plan.weights.durable_permille = [0, 0, 200, 900][random.index(4)];
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (800, 100, 1_000);
    plan.ends.aim = [Aim::Marks, Aim::Marks, Aim::Complete, Aim::Complete, Aim::Anything][random.index(5)];
    match random.below(5) {
        0 => write_back_early(plan, random),
        1 | 2 => overwrite_all(plan, random),
        3 => fail_to_complete(plan, random),
        _ => overwrite_some(plan, random),
    }
    if plan.faults.origin.flush == 0 && random.chance(400) {
        plan.faults.origin.flush = random.within(500, 5_000);
    }
    if random.chance(200) {
        // The host cannot make the record, and half of the writes to the cache device fail.
        (plan.faults.cache.write, plan.faults.note) = (5_000, 10_000);
    }
}

/// Aims at dirty blocks that the origins have stored, but not flushed.
fn write_back_early(plan: &mut Plan, random: &mut Random) {
    for volume in &mut plan.volumes {
        (volume.dirty_low, volume.dirty_high, volume.dirty_limit) = (1, 2, 900);
        volume.idle_after = Duration::from_millis(1);
    }
    plan.settings.origin_flush_after = Duration::from_millis(2_000);
    plan.clients = [1, 2, 4][random.index(3)];
    plan.pause = Duration::from_millis(random.within(5, 100));
    plan.abandoned = Some([Abandoned::AnyTime, Abandoned::Unflushed][random.index(2)]);
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (950, 64);
    (plan.requests, plan.lives) = (random.within(20, 60), random.within(10, 20));
}

/// Aims at overwrites of all dirty blocks, past the cache device, before an origin is flushed.
fn overwrite_all(plan: &mut Plan, random: &mut Random) {
    keep_dirty(plan);
    (plan.clients, plan.pause) = (16, Duration::from_micros(0));
    plan.shape.length_max = 4 << 10;
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (1_000, [2, 4, 8][random.index(3)]);
    plan.shape.sector_permille = 0;
    (plan.requests, plan.lives) = (random.within(50, 150), random.within(10, 20));
}

/// Aims at failures of the flushes that would prove the volumes complete.
fn fail_to_complete(plan: &mut Plan, random: &mut Random) {
    overwrite_all(plan, random);
    plan.faults.origin.flush = random.within(3_000, 8_000);
    plan.weights.durable_permille = random.within(200, 700);
    plan.ends.aim = Aim::Complete;
}

fn overwrite_some(plan: &mut Plan, random: &mut Random) {
    keep_dirty(plan);
    plan.clients = [4, 8, 16][random.index(3)];
    plan.pause = Duration::from_micros([0, 200, 5_000][random.index(3)]);
    plan.settings.origin_flush_after = Duration::from_millis([1, 50, 2_000][random.index(3)]);
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (950, [8, 64][random.index(2)]);
    plan.shape.sector_permille = random.below(200);
    (plan.requests, plan.lives) = (random.within(20, 200), random.within(8, 20));
}

fn keep_dirty(plan: &mut Plan) {
    for volume in &mut plan.volumes {
        (volume.dirty_low, volume.dirty_high, volume.dirty_limit) = (600, 750, 900);
        volume.idle_after = Duration::from_millis(5_000);
    }
    plan.drains = false;
}
