//! Runs in which a cache device fails while its log is read.

use kickcache_random::Random;

use crate::plan::Plan;
use crate::plan::faults::Rotting;
use crate::plan::focus::rot_between_lives;

/// The log is damaged before the start, and the cache device fails during recovery: the failure must not hide
/// the damage.
pub(super) fn draw(plan: &mut Plan, random: &mut Random) {
    plan.forbid_changes();
    plan.mode_changes = false;
    rot_between_lives(plan, random);
    plan.faults.rotting = Rotting::WholeJournal;
    (plan.faults.in_recovery, plan.faults.early_permille) = (true, random.within(300, 1_000));
    (plan.weights.flush, plan.weights.discard) = (random.within(5, 50), 0);
    let requests_max = [60, 200][random.index(2)];
    (plan.requests, plan.lives) = (random.within(10, requests_max), random.within(10, 20));
}
