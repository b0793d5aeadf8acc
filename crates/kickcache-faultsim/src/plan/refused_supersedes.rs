//! Runs in which origins refuse long writes over blocks that wait for a flush.

use kickcache_engine::time::Duration;
use kickcache_random::Random;

use crate::plan::faults::Faults;
use crate::plan::latency::Latency;
use crate::plan::{Plan, superseding};

pub(super) fn draw(plan: &mut Plan, random: &mut Random) {
    plan.forbid_changes();
    superseding::draw(plan, random);
    plan.forbid_changes();
    plan.faults = Faults::default();
    plan.faults.origin.write = [300, 1_000, 3_000][random.index(3)];
    plan.mode_changes = false;
    plan.settings.origin_flush_after = Duration::from_millis([1, 5][random.index(2)]);
    let origin = Duration::from_micros(random.within(20, 500));
    plan.origin_latency = Latency { base: origin, mean: origin, stall_permille: random.within(20, 150) };
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (950, 64);
    (plan.weights.flush, plan.weights.discard) = (random.within(5, 30), 0);
    (plan.requests, plan.lives) = (random.within(50, 200), random.within(4, 10));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (800, 100, 1_000);
}
