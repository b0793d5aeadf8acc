//! Many requests at a time, and structures that are slow to write.

use kickcache_engine::time::Duration;
use kickcache_random::Random;

use crate::plan::Plan;
use crate::plan::aim::Aim;
use crate::plan::latency::SlowPart;
use crate::plan::load::Weights;
use crate::plan::pick::pick;

/// A structure that takes up to 1 ms longer to write, or up to 20 ms, 200 ms or a second.
pub(super) fn slow(random: &mut Random, part: Aim) -> SlowPart {
    SlowPart { part, span: Duration::from_millis(pick(random, &[1, 20, 200, 1_000])) }
}

/// Many clients without pauses.
pub(super) fn hurry(plan: &mut Plan) {
    (plan.clients, plan.pause) = (16, Duration::from_micros(0));
    (plan.long_pause_permille, plan.absent_permille) = (0, 0);
}

/// Each flush behind a discard of a cached block takes a block of the journal.
pub(super) fn discard_and_flush(plan: &mut Plan, random: &mut Random) {
    let Weights { write, durable_permille, .. } = plan.weights;
    plan.weights = Weights {
        read: 10,
        write: write.clamp(30, 100),
        flush: random.within(20, 80),
        discard: random.within(60, 200),
        zeroes: random.below(20),
        promote: 0,
        durable_permille,
    };
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (900, pick(random, &[16, 64, 256]));
    plan.shape.length_max = 16 << 10;
    plan.shape.sequential_permille = 0;
}
