//! A full journal, and records that take long, at any change of state.

use kickcache_engine::config::{Mode, SequentialCutoff};
use kickcache_engine::time::Duration;
use kickcache_random::Random;

use crate::plan::aim::Aim;
use crate::plan::coincidence::pressure::{discard_and_flush, hurry, slow};
use crate::plan::faults::Faults;
use crate::plan::growth::Growth;
use crate::plan::pick::pick;
use crate::plan::{Plan, failed_batches, focus, overtaking, refusals, refused_supersedes, superseding};

/// Discards fill the journal while the chunks of checkpoints take long. Meanwhile the cache grows, volumes are removed,
/// the cache device is left out, origins refuse writes, or long writes supersede blocks.
pub(super) fn fill(plan: &mut Plan, random: &mut Random) {
    let draws = [
        focus::crash_at_a_checkpoint,
        focus::part_volumes,
        focus::leave_out_cache,
        focus::grow_cache,
        focus::crash_while_reclaiming,
        refusals::draw,
        superseding::draw,
    ];
    pick(random, &draws)(plan, random);
    plan.cache_size = 8 << 20;
    let weights = plan.weights;
    discard_and_flush(plan, random);
    if random.chance(500) {
        // Other requests keep their share.
        (plan.weights.read, plan.weights.write) = (weights.read, weights.write.max(60));
        plan.weights.zeroes = random.within(10, 60);
        plan.shape.length_max = 64 << 10;
    }
    hurry(plan);
    plan.slow_part = Some(slow(random, Aim::Checkpoint));
    plan.drains |= random.chance(500);
    if let Some(growth) = &mut plan.growth {
        *growth = Growth { within: Duration::from_millis(20), most: 1 << 20, is_repeated: true, ..*growth };
    }
    plan.ends.aim = pick(random, &[Aim::Anything, Aim::Checkpoint, Aim::OriginFlush]);
    (plan.requests, plan.lives) = (random.within(200, 1_000), random.within(3, 8));
}

/// Volumes are drained while the discards of other volumes fill the journal; lives end soon after the drains.
pub(super) fn fill_while_draining(plan: &mut Plan, random: &mut Random) {
    plan.faults = Faults::default();
    for volume in &mut plan.volumes {
        (volume.mode, volume.sequential_cutoff) = (Mode::WriteBack, SequentialCutoff::Off);
        (volume.dirty_low, volume.dirty_high, volume.dirty_limit) = (1, 100, 900);
        volume.idle_after = Duration::from_millis(1);
    }
    (plan.mode_changes, plan.drains, plan.cache_size) = (false, true, 8 << 20);
    discard_and_flush(plan, random);
    hurry(plan);
    plan.clients = pick(random, &[4, 8, 16]);
    plan.weights.write = random.within(5, 60);
    let origin = Duration::from_micros(random.within(20, 500));
    (plan.origin_latency.base, plan.origin_latency.mean) = (origin, origin);
    plan.origin_latency.stall_permille = 0;
    plan.settings.origin_flush_after = Duration::from_millis(pick(random, &[1, 5, 50]));
    let part = pick(random, &[Aim::Checkpoint, Aim::Checkpoint, Aim::Records]);
    plan.slow_part = Some(slow(random, part));
    (plan.requests, plan.lives) = (random.within(200, 600), random.within(6, 14));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (300, 600, 500);
    plan.ends.aim = Aim::Drained;
}

/// Records take long while blocks are dropped, moved, superseded and refused, and lives end soon after their
/// submission.
pub(super) fn delay_records(plan: &mut Plan, random: &mut Random) {
    let draws = [
        focus::crash_at_a_checkpoint,
        focus::crash_while_reclaiming,
        focus::part_volumes,
        failed_batches::draw,
        overtaking::draw,
        refusals::draw,
        refused_supersedes::draw,
        superseding::draw,
    ];
    pick(random, &draws)(plan, random);
    plan.slow_part = Some(slow(random, Aim::Records));
    plan.weights.discard = plan.weights.discard.max(random.below(40));
    (plan.requests, plan.lives) = (plan.requests.min(300), plan.lives.max(6));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (600, 300, 1_000);
    plan.ends.aim = pick(random, &[Aim::Anything, Aim::Records, Aim::Records]);
}
