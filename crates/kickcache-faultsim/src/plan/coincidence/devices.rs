//! Devices that fail during another rare event: the replacement of a cache device, writes over dirty blocks, the
//! record that the cache device is out of service.

use kickcache_engine::config::Mode;
use kickcache_engine::time::Duration;
use kickcache_random::Random;

use crate::plan::Plan;
use crate::plan::aim::Aim;
use crate::plan::coincidence::pressure::{hurry, slow};
use crate::plan::faults::{Faults, LongTrouble, Trouble};
use crate::plan::focus;
use crate::plan::pick::draw_mode;
use crate::plan::pick::pick;

/// The old device fails some writes and flushes while operations of its successor hang, until the operator abandons the
/// successor.
pub(super) fn desert(plan: &mut Plan, random: &mut Random) {
    focus::replace_cache(plan, random);
    plan.faults = Faults::default();
    plan.faults.cache.write = pick(random, &[0, 200, 1_000, 3_000]);
    plan.faults.cache.flush = if plan.faults.cache.write == 0 { 2_000 } else { pick(random, &[0, 0, 1_000]) };
    plan.faults.spares_journal = random.chance(700);
    plan.faults.successor.hang = random.within(500, 5_000);
    (plan.mode_changes, plan.absent_permille, plan.long_pause_permille) = (false, 0, 0);
    plan.wait_max = None;
    if let Some(replacement) = &mut plan.replacement {
        (replacement.permille, replacement.within) = (1_000, Duration::from_micros(random.within(1, 5_000)));
        replacement.step_max = Duration::from_micros(random.within(10, 5_000));
    }
    plan.clients = plan.clients.max(4);
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (random.within(300, 900), 64);
    (plan.weights.read, plan.weights.write, plan.weights.flush) = (60, 100, random.within(5, 40));
    (plan.requests, plan.lives) = (random.within(60, 400), random.within(4, 10));
}

/// Batches fail until the cache device is out of service, while writes through the log and partial writes are in
/// progress over dirty blocks, and modes change.
pub(super) fn fail_log(plan: &mut Plan, random: &mut Random) {
    plan.faults = Faults::default();
    let is_soon = random.chance(500);
    if is_soon {
        plan.faults.long = Some(LongTrouble { permille: 900, is_cache: true, trouble: Trouble::Refuses });
    } else {
        plan.faults.cache.write = random.within(300, 5_000);
        plan.faults.spares_journal = random.chance(800);
    }
    plan.faults.note = pick(random, &[0, 0, 3_000]);
    plan.faults.origin.write = pick(random, &[0, 0, 1_000]);
    let limits = pick(random, &[(1, 2, 3), (10, 20, 30), (50, 100, 150), (300, 500, 700)]);
    for volume in &mut plan.volumes {
        (volume.dirty_low, volume.dirty_high, volume.dirty_limit) = limits;
        volume.mode = if random.chance(700) { Mode::WriteBack } else { draw_mode(random) };
        volume.idle_after = Duration::from_millis(pick(random, &[1, 5_000]));
    }
    plan.mode_changes = random.chance(700);
    hurry(plan);
    plan.cache_size = 8 << 20;
    plan.origin_latency.base = Duration::from_micros(random.within(100, 5_000));
    plan.shape.length_max = pick(random, &[8 << 10, 32 << 10]);
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (1_000, pick(random, &[4, 16, 64]));
    (plan.shape.sector_permille, plan.shape.sequential_permille) = (random.below(400), 0);
    (plan.weights.read, plan.weights.write) = (random.within(20, 100), 100);
    (plan.weights.flush, plan.weights.discard) = (random.below(15), random.below(15));
    plan.weights.durable_permille = random.below(300);
    (plan.requests, plan.lives) = (random.within(60, 400), random.within(6, 12));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (500, 300, 1_000);
    plan.ends.aim = pick(random, &[Aim::Anything, Aim::Failure, Aim::Marks]);
}

/// The record that the cache device is out of service is slow, and some of its writes fail.
pub(super) fn fail_marks(plan: &mut Plan, random: &mut Random) {
    focus::go_out_of_service(plan, random);
    if random.chance(500) {
        plan.faults.long = None;
        plan.faults.cache.write = random.within(1_000, 6_000);
    }
    plan.faults.note = pick(random, &[0, 3_000, 8_000]);
    plan.slow_part = Some(slow(random, Aim::Marks));
    (plan.weights.flush, plan.weights.discard) = (random.within(2, 30), random.below(20));
    plan.ends.aim = pick(random, &[Aim::Marks, Aim::Marks, Aim::Complete, Aim::Failure]);
}
