//! Runs in which clients write the same few blocks while the origin is busy with them.

use kickcache_engine::config::{Mode, OriginKind};
use kickcache_engine::time::Duration;
use kickcache_random::Random;

use crate::plan::Plan;
use crate::plan::faults::Faults;

/// Aims at overlapping writes that wait for their turn at the origin.
pub(super) fn draw(plan: &mut Plan, random: &mut Random) {
    plan.faults = Faults::default();
    plan.forbid_changes();
    if random.chance(300) {
        plan.faults.origin.write = random.within(100, 3_000);
    }
    for volume in &mut plan.volumes {
        volume.origin = OriginKind::Local;
        volume.mode = [Mode::WriteThrough, Mode::WriteAround, Mode::Bypass][random.index(3)];
    }
    plan.mode_changes &= random.chance(300);
    plan.settings.origin_flush_after = Duration::from_millis(2_000);
    (plan.clients, plan.pause, plan.long_pause_permille) = (16, Duration::from_micros(0), 0);
    plan.origin_latency.base = Duration::from_micros(random.within(200, 5_000));
    plan.shape.length_max = [4 << 10, 16 << 10][random.index(2)];
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (1_000, [2, 8, 32][random.index(3)]);
    (plan.shape.sequential_permille, plan.shape.unaligned_permille) = (0, 0);
    (plan.weights.read, plan.weights.write) = (random.within(0, 60), 100);
    (plan.weights.flush, plan.weights.discard) = (random.within(0, 2), random.within(0, 5));
    plan.weights.durable_permille = random.within(50, 500);
    (plan.requests, plan.lives) = (random.within(20, 150), random.within(6, 12));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (900, 50, 1_000);
}
