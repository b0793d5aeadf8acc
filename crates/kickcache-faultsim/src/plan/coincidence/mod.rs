//! Runs in which two rare events coincide: each plan makes both events frequent, and ends lives soon after them.

mod blocks;
mod devices;
mod journal;
mod pressure;

use kickcache_random::Random;

use crate::plan::Plan;
use crate::plan::aim::Aim;
use crate::plan::coincidence::pressure::slow;
use crate::plan::faults::Damage;
use crate::plan::pick::pick;

/// The coincidences; the rarest ones are listed twice.
const COINCIDENCES: [fn(&mut Plan, &mut Random); 15] = [
    journal::fill,
    journal::fill_while_draining,
    journal::delay_records,
    devices::desert,
    devices::desert,
    devices::fail_log,
    devices::fail_marks,
    blocks::lose_unflushed_copies,
    blocks::lose_unflushed_copies,
    blocks::refuse_discards,
    blocks::refuse_discards,
    blocks::refuse_zeroes,
    blocks::fail_durable_writebacks,
    blocks::read_before_restarts,
    blocks::overlap,
];

/// Turns a plan into one with a coincidence.
pub(super) fn draw(plan: &mut Plan, random: &mut Random) {
    plan.forbid_changes();
    COINCIDENCES[random.index(COINCIDENCES.len())](plan, random);
}

/// Adds single features to any plan, so that they coincide with everything that plans have.
pub(super) fn add(plan: &mut Plan, random: &mut Random) {
    if plan.wait_max.is_some() || plan.faults.damage != Damage::default() {
        return;
    }
    if random.chance(80) && plan.slow_part.is_none() {
        let part = pick(random, &[Aim::Records, Aim::Checkpoint, Aim::Marks]);
        plan.slow_part = Some(slow(random, part));
    }
    if random.chance(100) && plan.ends.aim == Aim::Anything {
        let aims = [Aim::OriginFlush, if plan.faults.any() { Aim::Failure } else { Aim::Records }];
        plan.ends.aim = pick(random, &aims);
    }
    plan.setting_changes |= random.chance(100);
    if random.chance(50) {
        plan.drains = true;
    }
}
