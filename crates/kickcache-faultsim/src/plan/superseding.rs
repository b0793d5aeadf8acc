//! Runs in which long writes supersede, at the origin, what only the log has.

use kickcache_engine::config::{Mode, OriginOffload};
use kickcache_engine::time::Duration;
use kickcache_random::Random;

use crate::plan::Plan;
use crate::plan::faults::Faults;

/// Long writes go to the origin though the log has older blocks of theirs, which are on their way there meanwhile; the power
/// fails around that, and now and then an origin fails a write or a flush.
pub(super) fn draw(plan: &mut Plan, random: &mut Random) {
    plan.settings.origin_offload = OriginOffload::Forced;
    plan.settings.origin_flush_after = Duration::from_millis(random.within(1, 50));
    plan.faults = Faults::default();
    if random.chance(300) {
        (plan.faults.origin.write, plan.faults.origin.flush) = (random.within(1, 200), random.within(1, 500));
    }
    for volume in &mut plan.volumes {
        volume.mode = Mode::WriteBack;
        volume.idle_after = Duration::from_millis(1);
        (volume.dirty_low, volume.dirty_high, volume.dirty_limit) = (1, 100, 900);
    }
    (plan.mode_changes, plan.clients) = (false, plan.clients.max(8));
    plan.shape.length_max = 256 << 10;
    (plan.shape.sector_permille, plan.shape.unaligned_permille) = (random.within(0, 100), 0);
    (plan.shape.hot_permille, plan.shape.hot_blocks) = (900, [64, 256][random.index(2)]);
    (plan.weights.read, plan.weights.write) = (30, 100);
    (plan.weights.flush, plan.weights.discard) = (random.within(0, 20), random.within(0, 10));
    (plan.requests, plan.lives) = (random.within(20, 150), random.within(4, 12));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (600, 250, 1_000);
}
