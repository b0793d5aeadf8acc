//! Runs in which origins are servers that restart and may lose their unflushed data.

use std::ops::RangeInclusive;

use kickcache_engine::config::{Admission, Mode, OriginKind, SequentialCutoff};
use kickcache_engine::time::Duration;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_random::Random;

use crate::plan::Plan;
use crate::plan::faults::Faults;
use crate::plan::focus::random_share;
use crate::plan::pick::draw_mode;

pub(super) fn draw(plan: &mut Plan, random: &mut Random) {
    restart(plan, random);
    match random.below(4) {
        0 => read_damaged_copies(plan, random),
        1 | 2 => read_a_patchwork(plan, random),
        _ => {}
    }
}

pub(super) fn draw_beside_damage(plan: &mut Plan, random: &mut Random) {
    restart(plan, random);
    read_damaged_copies(plan, random);
}

pub(super) fn draw_beside_fills(plan: &mut Plan, random: &mut Random) {
    restart(plan, random);
    read_a_patchwork(plan, random);
}

pub(super) fn draw_without_copies(plan: &mut Plan, random: &mut Random) {
    restart(plan, random);
    write_past_the_log(plan, random);
}

fn restart(plan: &mut Plan, random: &mut Random) {
    plan.faults = Faults::default();
    plan.restart_after = Some(Duration::from_micros(random.within(2_000, 200_000)));
    let is_written_back = random.chance(600);
    for volume in &mut plan.volumes {
        volume.origin = OriginKind::Remote;
        volume.mode = if is_written_back { Mode::WriteBack } else { draw_mode(random) };
        volume.dirty_low = volume.dirty_low.min(random_share(random, 100));
        volume.idle_after = Duration::from_millis(random.within(1, 20));
    }
    plan.mode_changes &= random.chance(300);
    plan.settings.origin_flush_after = Duration::from_millis([1, 50, 500, 2_000][random.index(4)]);
    plan.cache_size = 8 << 20;
    plan.shape.length_max = 64 << 10;
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (random.within(0, 900), 256);
    (plan.weights.read, plan.weights.write) = (random.within(10, 100), 100);
    plan.weights.flush = random.within(0, 10);
    (plan.requests, plan.lives) = (random.within(50, 600), random.within(1, 6));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (300, 400, 1_000);
}

/// Aims at damaged cached copies of blocks that the origin has not flushed.
fn read_damaged_copies(plan: &mut Plan, random: &mut Random) {
    write_back_at_once(plan);
    plan.faults.damage.flip = random.within(1_000, 5_000);
    restart_soon(plan, micros(random, 5_000..=30_000), micros(random, 1_000..=8_000));
    (plan.shape.hot_blocks, plan.shape.length_max) = (12, 16 << 10);
    (plan.weights.read, plan.weights.write) = (100, 40);
    (plan.weights.flush, plan.weights.discard, plan.weights.zeroes) = (0, 0, 0);
    (plan.requests, plan.lives) = (random.within(300, 800), 1);
}

/// Aims at fills over discarded and just written blocks while the origin restarts.
fn read_a_patchwork(plan: &mut Plan, random: &mut Random) {
    write_back_at_once(plan);
    plan.volumes.iter_mut().for_each(|volume| volume.fill_window_max = BLOCK_SIZE << 4);
    restart_soon(plan, micros(random, 5_000..=60_000), micros(random, 2_000..=15_000));
    (plan.shape.hot_blocks, plan.shape.length_max) = (64, 32 << 10);
    (plan.weights.read, plan.weights.write, plan.weights.discard) = (100, 60, 30);
    (plan.weights.flush, plan.weights.zeroes) = (0, 0);
    plan.clients = plan.clients.max(4);
}

/// Aims at reads of writes that bypass the log, before the origin has flushed them.
fn write_past_the_log(plan: &mut Plan, random: &mut Random) {
    for volume in &mut plan.volumes {
        volume.mode = [Mode::WriteAround, Mode::Bypass][random.index(2)];
    }
    restart_soon(plan, micros(random, 5_000..=60_000), micros(random, 100..=2_000));
    (plan.shape.hot_blocks, plan.shape.length_max) = (64, 16 << 10);
    (plan.weights.flush, plan.weights.durable_permille) = (random.within(0, 2), 0);
}

fn write_back_at_once(plan: &mut Plan) {
    for volume in &mut plan.volumes {
        volume.mode = Mode::WriteBack;
        (volume.admission, volume.sequential_cutoff) = (Admission::Always, SequentialCutoff::Off);
        volume.dirty_low = 1;
        volume.idle_after = Duration::from_millis(1);
    }
}

/// Sets the mean interval of restarts and the shortest time of an access to an origin.
fn restart_soon(plan: &mut Plan, after: Duration, access: Duration) {
    plan.mode_changes = false;
    plan.settings.origin_flush_after = Duration::from_millis(2_000);
    (plan.restart_after, plan.origin_latency.base) = (Some(after), access);
    (plan.shape.hot_permille, plan.shape.sequential_permille) = (1_000, 0);
}

fn micros(random: &mut Random, of: RangeInclusive<u64>) -> Duration {
    Duration::from_micros(random.within(*of.start(), *of.end()))
}
