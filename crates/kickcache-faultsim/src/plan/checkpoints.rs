//! Checkpoints of several chunks, together with failed batches, and growths of the cache device while the journal
//! fills.

use kickcache_engine::time::Duration;
use kickcache_random::Random;

use crate::plan::aim::Aim;
use crate::plan::faults::Faults;
use crate::plan::growth::Growth;
use crate::plan::latency::Latency;
use crate::plan::{Plan, focus};

/// The size in bytes of a cache device with more segments than one chunk describes: its checkpoints have two chunks.
const TWO_CHUNKS: u64 = 31 << 20;

/// Crashes during checkpoints, in some runs at any time.
pub(super) fn draw(plan: &mut Plan, random: &mut Random) {
    plan.forbid_changes();
    focus::crash_at_a_checkpoint(plan, random);
    plan.faults = Faults::default();
    plan.faults.cache.write = [0, 100, 500, 1_500][random.index(4)];
    plan.faults.spares_journal = plan.faults.cache.write > 100;
    plan.ends.aim = if random.chance(700) { Aim::Checkpoint } else { Aim::Anything };
    match random.below(3) {
        0 => grow_often(plan, random),
        1 => {}
        _ => {
            plan.cache_size = TWO_CHUNKS;
            plan.origin_sizes.fill(16 << 20);
            plan.shape.length_max = 256 << 10;
        }
    }
}

/// Aims at growths while discards and flushes fill the journal.
fn grow_often(plan: &mut Plan, random: &mut Random) {
    plan.growth = Some(Growth {
        permille: 1_000,
        within: Duration::from_micros(random.within(100, 100_000)),
        step_max: Duration::from_micros(random.within(10, 2_000)),
        most: 64 << 10,
        is_stale: false,
        is_repeated: true,
    });
    plan.cache_latency = Latency { stall_permille: random.within(0, 30), ..plan.cache_latency };
    (plan.clients, plan.pause, plan.long_pause_permille) = (16, Duration::from_micros(0), 0);
    (plan.weights.flush, plan.weights.discard) = (20, random.within(60, 200));
}
