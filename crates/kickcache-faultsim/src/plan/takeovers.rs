//! Replacements with errors of the successor, or of either device after sealing.

use kickcache_engine::config::FreedSegments;
use kickcache_random::Random;

use crate::plan::faults::{Faults, Rates, SealedRates};
use crate::plan::{Plan, focus};

pub(super) fn draw(plan: &mut Plan, random: &mut Random) {
    plan.forbid_changes();
    focus::replace_cache(plan, random);
    plan.faults = Faults::default();
    (plan.mode_changes, plan.absent_permille) = (false, 0);
    match random.below(5) {
        0 | 1 => plan.faults.successor = rates(random),
        2 => plan.faults.sealed.old = rates(random),
        3 => plan.faults.sealed.new = rates(random),
        _ => {
            let flush = random.within(1_000, 8_000);
            let both = Rates { flush, forgets: true, ..Rates::default() };
            plan.faults.sealed = SealedRates { old: both, new: both };
        }
    }
    if random.chance(300) {
        plan.settings.freed_segments = FreedSegments::Discarded;
    }
    if plan.faults.sealed != SealedRates::default()
        && let Some(replacement) = &mut plan.replacement
    {
        (replacement.permille, replacement.larger_max) = (1_000, 0);
    }
    plan.weights.flush = random.within(5, 40);
    (plan.requests, plan.lives) = (random.within(60, 300), random.within(4, 12));
}

/// Error rates up to 1, 10 or 50 percent.
fn rates(random: &mut Random) -> Rates {
    let most = [100, 1_000, 5_000][random.index(3)];
    let flush = if random.chance(500) { 0 } else { random.within(1, most) };
    Rates { write: random.within(1, most), flush, ..Rates::default() }
}
