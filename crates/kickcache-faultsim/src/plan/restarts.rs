//! Runs in which origins are servers of their own, that lose what they have not flushed and come back.

use kickcache_engine::config::{Admission, Mode, OriginKind, SequentialCutoff};
use kickcache_engine::time::Duration;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_random::Random;

use crate::plan::Plan;
use crate::plan::faults::Faults;
use crate::plan::focus::random_share;
use crate::plan::mode::draw_mode;

/// Restarts of origins, and crashes of the host between.
pub(super) fn draw(plan: &mut Plan, random: &mut Random) {
    restart(plan, random);
    match random.below(4) {
        0 => read_damaged_copies(plan, random),
        1 | 2 => read_a_patchwork(plan, random),
        _ => {}
    }
}

/// The same, always with copies that nobody can read.
pub(super) fn draw_beside_damage(plan: &mut Plan, random: &mut Random) {
    restart(plan, random);
    read_damaged_copies(plan, random);
}

/// The same, always with fills that bring more than was asked for.
pub(super) fn draw_beside_fills(plan: &mut Plan, random: &mut Random) {
    restart(plan, random);
    read_a_patchwork(plan, random);
}

/// The same, always with writes of which the log has no copy.
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

/// Copies that nobody can read while the origin has not flushed what was written back: neither may be taken for the other.
fn read_damaged_copies(plan: &mut Plan, random: &mut Random) {
    for volume in &mut plan.volumes {
        volume.mode = Mode::WriteBack;
        (volume.admission, volume.sequential_cutoff) = (Admission::Always, SequentialCutoff::Off);
        volume.dirty_low = 1;
        volume.idle_after = Duration::from_millis(1);
    }
    plan.mode_changes = false;
    plan.faults.damage.flip = random.within(1_000, 5_000);
    plan.settings.origin_flush_after = Duration::from_millis(2_000);
    plan.restart_after = Some(Duration::from_micros(random.within(5_000, 30_000)));
    plan.origin_latency.base = Duration::from_micros(random.within(1_000, 8_000));
    (plan.shape.hot_permille, plan.shape.hot_blocks, plan.shape.length_max) = (1_000, 12, 16 << 10);
    plan.shape.sequential_permille = 0;
    (plan.weights.read, plan.weights.write) = (100, 40);
    (plan.weights.flush, plan.weights.discard, plan.weights.zeroes) = (0, 0, 0);
    (plan.requests, plan.lives) = (random.within(300, 800), 1);
}

/// Few blocks, some of them discarded, some just written back: a fill that is under way when the origin restarts has them all.
fn read_a_patchwork(plan: &mut Plan, random: &mut Random) {
    for volume in &mut plan.volumes {
        volume.mode = Mode::WriteBack;
        (volume.admission, volume.sequential_cutoff) = (Admission::Always, SequentialCutoff::Off);
        volume.fill_window_max = BLOCK_SIZE << 4;
        volume.dirty_low = 1;
        volume.idle_after = Duration::from_millis(1);
    }
    plan.mode_changes = false;
    plan.settings.origin_flush_after = Duration::from_millis(2_000);
    plan.restart_after = Some(Duration::from_micros(random.within(5_000, 60_000)));
    plan.origin_latency.base = Duration::from_micros(random.within(2_000, 15_000));
    (plan.shape.hot_permille, plan.shape.hot_blocks, plan.shape.length_max) = (1_000, 64, 32 << 10);
    plan.shape.sequential_permille = 0;
    (plan.weights.read, plan.weights.write, plan.weights.discard) = (100, 60, 30);
    (plan.weights.flush, plan.weights.zeroes) = (0, 0);
    plan.clients = plan.clients.max(4);
}

/// Writes that go to the origin alone, which has flushed none of them when it restarts and they are read.
fn write_past_the_log(plan: &mut Plan, random: &mut Random) {
    for volume in &mut plan.volumes {
        volume.mode = [Mode::WriteAround, Mode::Bypass][random.index(2)];
    }
    plan.mode_changes = false;
    plan.settings.origin_flush_after = Duration::from_millis(2_000);
    plan.restart_after = Some(Duration::from_micros(random.within(5_000, 60_000)));
    plan.origin_latency.base = Duration::from_micros(random.within(100, 2_000));
    (plan.shape.hot_permille, plan.shape.hot_blocks, plan.shape.length_max) = (1_000, 64, 16 << 10);
    plan.shape.sequential_permille = 0;
    (plan.weights.flush, plan.weights.durable_permille) = (random.within(0, 2), 0);
}
