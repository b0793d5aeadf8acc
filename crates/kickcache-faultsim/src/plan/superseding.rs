//! Runs in which long writes to the origin supersede dirty blocks of the log.

use kickcache_engine::config::{Mode, OriginOffload};
use kickcache_engine::time::Duration;
use kickcache_random::Random;

use crate::plan::faults::{Damage, Faults};
use crate::plan::{Plan, focus, restarts};

/// Aims at power cuts while long writes to the origin supersede blocks whose writeback is in flight.
pub(super) fn draw(plan: &mut Plan, random: &mut Random) {
    let draw_change = match random.below(10) {
        0 => Some(focus::grow_cache as fn(&mut Plan, &mut Random)),
        1 => Some(focus::replace_cache as _),
        2 => Some(focus::leave_out_cache as _),
        3 => Some(focus::part_volumes as _),
        4 => Some(restarts::draw as _),
        _ => None,
    };
    plan.faults = Faults::default();
    plan.forbid_changes();
    if let Some(draw_change) = draw_change {
        draw_change(plan, random);
    } else {
        draw_faults(plan, random);
    }
    plan.settings.origin_offload = OriginOffload::Forced;
    plan.settings.origin_flush_after = Duration::from_millis(random.within(1, 50));
    for volume in &mut plan.volumes {
        volume.mode = Mode::WriteBack;
        volume.idle_after = Duration::from_millis(1);
        (volume.dirty_low, volume.dirty_high, volume.dirty_limit) = (1, 100, 900);
    }
    (plan.mode_changes, plan.clients) = (random.chance(300), plan.clients.max(8));
    plan.shape.length_max = 256 << 10;
    (plan.shape.sector_permille, plan.shape.unaligned_permille) = (random.within(0, 100), 0);
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (900, [64, 256][random.index(2)]);
    (plan.weights.read, plan.weights.write) = (random.within(30, 100), 100);
    (plan.weights.flush, plan.weights.discard) = (random.within(0, 20), random.within(0, 10));
    // Damage must not look like a torn write to the next recovery.
    let lives = if plan.faults.damage == Damage::default() { random.within(4, 12) } else { 1 };
    (plan.requests, plan.lives) = (random.within(20, 150), lives);
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (600, 250, 1_000);
}

/// An origin may store parts of a write that it fails.
fn draw_faults(plan: &mut Plan, random: &mut Random) {
    if random.chance(400) {
        let write_max = [200, 4_000][random.index(2)];
        (plan.faults.origin.write, plan.faults.origin.flush) =
            (random.within(1, write_max), random.within(1, 500));
    }
    if random.chance(300) {
        (plan.faults.cache.write, plan.faults.cache.flush) = (random.within(1, 100), random.within(1, 200));
        plan.faults.note = [0, 2_000][random.index(2)];
    }
}
