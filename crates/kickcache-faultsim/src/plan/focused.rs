//! Runs that focus on one subject, with failing writes or flushes.

use kickcache_engine::time::Duration;
use kickcache_random::Random;

use crate::plan::{Plan, focus, overtaking, refusals, restarts, superseding};

const SUBJECTS: [fn(&mut Plan, &mut Random); 11] = [
    superseding::draw,
    overtaking::draw,
    refusals::draw,
    restarts::draw,
    focus::crash_at_a_checkpoint,
    focus::crash_while_reclaiming,
    focus::replace_cache,
    focus::grow_cache,
    focus::leave_out_cache,
    focus::part_volumes,
    focus::go_out_of_service,
];

/// Error rates in 1/10000 of the writes or flushes of a device.
const ERROR_RATES: [u64; 4] = [20, 100, 500, 2_000];

/// Draws one subject, and one error rate for the writes or the flushes of the cache device or the origins.
pub(super) fn draw(plan: &mut Plan, random: &mut Random) {
    plan.forbid_changes();
    SUBJECTS[random.index(SUBJECTS.len())](plan, random);
    // If an origin loses unflushed writes while the cache device is out of service, the only copies are lost.
    plan.faults.origin.forgets = false;
    plan.settings.fill_linger = plan.settings.fill_linger.max(Duration::from_millis(20));
    let rate = ERROR_RATES[random.index(ERROR_RATES.len())];
    for _ in 0..random.within(1, 2) {
        let faults = &mut plan.faults;
        let failing = match random.below(4) {
            0 => &mut faults.cache.write,
            1 => &mut faults.cache.flush,
            2 => &mut faults.origin.write,
            _ => &mut faults.origin.flush,
        };
        *failing = rate;
    }
}
