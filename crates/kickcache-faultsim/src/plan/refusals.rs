//! Runs in which origins refuse some of the writes of blocks that are written and read all the time.

use kickcache_engine::config::{Mode, OriginKind, SequentialCutoff};
use kickcache_engine::time::Duration;
use kickcache_random::Random;

use crate::plan::Plan;
use crate::plan::faults::Faults;

/// Aims at several writes of a block that wait for a slow origin, with reads between them.
pub(super) fn draw(plan: &mut Plan, random: &mut Random) {
    plan.faults = Faults::default();
    plan.forbid_changes();
    (plan.faults.origin.write, plan.faults.origin.flush) = (random.within(100, 5_000), random.below(300));
    plan.faults.full_permille = [0, 500][random.index(2)];
    match random.below(6) {
        0 => plan.faults.cache.read = random.within(10, 1_000),
        1 => plan.faults.cache.write = random.within(10, 500),
        _ => {}
    }
    for volume in &mut plan.volumes {
        volume.mode = if random.chance(700) { Mode::WriteThrough } else { Mode::WriteBack };
        (volume.origin, volume.sequential_cutoff) = (OriginKind::Local, SequentialCutoff::Off);
        (volume.dirty_low, volume.dirty_high, volume.dirty_limit) = (1, 2, 3);
        volume.idle_after = Duration::from_millis(1);
    }
    plan.mode_changes = random.chance(300);
    plan.settings.origin_flush_after = Duration::from_millis(random.within(1, 50));
    (plan.cache_size, plan.clients, plan.pause) = (8 << 20, 16, Duration::from_micros(0));
    (plan.long_pause_permille, plan.absent_permille) = (0, 0);
    plan.cache_latency.base = Duration::from_micros(20);
    plan.cache_latency.mean = Duration::from_micros(random.within(10, 200));
    plan.origin_latency.base = Duration::from_micros(random.within(100, 2_000));
    plan.origin_latency.mean = plan.origin_latency.base;
    plan.shape.length_max = [4 << 10, 16 << 10][random.index(2)];
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (950, random.within(1, 8));
    (plan.shape.sector_permille, plan.shape.unaligned_permille) = (random.below(200), random.below(100));
    plan.shape.sequential_permille = 0;
    (plan.weights.read, plan.weights.write) = (100, random.within(30, 150));
    (plan.weights.flush, plan.weights.discard) = (random.below(10), random.below(10));
    (plan.requests, plan.lives) = (random.within(200, 1_000), random.within(1, 4));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (300, 400, 1_000);
}
