//! Runs in which batches fail while their blocks are overwritten, or moved by reclaim.

use kickcache_engine::time::Duration;
use kickcache_random::Random;

use crate::plan::aim::Aim;
use crate::plan::faults::Faults;
use crate::plan::latency::Latency;
use crate::plan::{Plan, focus};

/// Aims at power cuts after failed batches, before the blocks of the batch are durable elsewhere.
pub(super) fn draw(plan: &mut Plan, random: &mut Random) {
    plan.forbid_changes();
    focus::crash_while_reclaiming(plan, random);
    plan.faults = Faults::default();
    plan.faults.spares_journal = random.chance(800);
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (900, 50, 1_000);
    if random.chance(500) { overwrite(plan, random) } else { reclaim(plan, random) }
}

/// Many clients overwrite a few blocks, durably and not.
fn overwrite(plan: &mut Plan, random: &mut Random) {
    plan.faults.cache.write = random.within(300, 4_000);
    (plan.clients, plan.pause) = (16, Duration::from_micros([0, 100][random.index(2)]));
    plan.cache_latency = Latency { stall_permille: random.within(0, 100), ..plan.cache_latency };
    plan.shape.length_max = [4 << 10, 16 << 10][random.index(2)];
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (1_000, [1, 3, 8][random.index(3)]);
    (plan.shape.sector_permille, plan.shape.sequential_permille) = (random.below(300), 0);
    (plan.weights.flush, plan.weights.discard) = (random.within(5, 30), 0);
    plan.weights.durable_permille = random.within(100, 600);
    (plan.requests, plan.lives) = (random.within(20, 100), random.within(12, 24));
    plan.ends.aim = Aim::Anything;
}

/// Aims at moves of dirty blocks by reclaim.
fn reclaim(plan: &mut Plan, random: &mut Random) {
    plan.faults.cache.write = random.within(50, 800);
    plan.settings.fill_linger = Duration::from_millis([1, 20, 200][random.index(3)]);
    plan.ends.aim = if random.chance(700) { Aim::Records } else { Aim::Anything };
    (plan.requests, plan.lives) = (random.within(40, 150), random.within(8, 16));
}
