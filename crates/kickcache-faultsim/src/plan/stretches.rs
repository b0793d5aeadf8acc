//! Runs in which writeback reads long pieces of the log from a slow cache device.

use kickcache_engine::config::{Mode, OriginKind, OriginOffload};
use kickcache_engine::time::Duration;
use kickcache_random::Random;

use crate::plan::Plan;
use crate::plan::faults::Faults;

/// Aims at blocks that are overwritten or moved while writeback reads them.
pub(super) fn draw(plan: &mut Plan, random: &mut Random) {
    plan.faults = Faults::default();
    plan.forbid_changes();
    plan.mode_changes = false;
    let is_failing = random.chance(500);
    if is_failing {
        (plan.faults.cache.read, plan.faults.origin.write) =
            (random.within(100, 1_000), random.within(0, 500));
    }
    plan.settings.origin_offload = OriginOffload::Forced;
    for volume in &mut plan.volumes {
        (volume.mode, volume.origin) = (Mode::WriteBack, OriginKind::Local);
        (volume.dirty_low, volume.dirty_high, volume.dirty_limit) = (200, 400, 900);
        volume.idle_after = Duration::from_millis(1);
    }
    (plan.cache_size, plan.clients, plan.pause) = (8 << 20, 16, Duration::from_micros(0));
    (plan.cache_latency.base, plan.cache_latency.mean) =
        (Duration::from_micros(20), Duration::from_micros(500));
    plan.cache_latency.stall_permille = random.within(10, 60);
    let origin = Duration::from_micros(random.within(50, 500));
    (plan.origin_latency.base, plan.origin_latency.mean) = (origin, origin);
    plan.shape.length_max = [8 << 10, 32 << 10][random.index(2)];
    (plan.shape.sector_permille, plan.shape.unaligned_permille, plan.shape.sequential_permille) = (0, 0, 0);
    plan.shape.hot_permille = [0, 500][random.index(2)];
    (plan.weights.read, plan.weights.write) = (5, 100);
    (plan.weights.flush, plan.weights.discard) = (random.within(5, 20), random.within(0, 5));
    (plan.requests, plan.lives) =
        if is_failing { (random.within(50, 200), 6) } else { (random.within(1_000, 2_500), 2) };
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (500, 200, 1_000);
}
