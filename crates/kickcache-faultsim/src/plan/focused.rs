//! Runs that focus on one subject, with failing writes or flushes.

use kickcache_engine::config::{Mode, OriginKind, SequentialCutoff};
use kickcache_engine::format::redo::SLOT_BYTES;
use kickcache_engine::time::Duration;
use kickcache_random::Random;

use crate::plan::faults::{Faults, Rates};
use crate::plan::pick::pick;
use crate::plan::point_in_time::PointInTime;
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

/// All volumes are written back in cuts.
pub(super) fn draw_point_in_time(plan: &mut Plan, random: &mut Random) {
    plan.forbid_changes();
    (plan.mode_changes, plan.setting_changes, plan.absent_permille) = (false, false, 0);
    let before = plan.faults;
    plan.faults = Faults::default();
    if random.chance(500) {
        // A cache device out of service ends all writes: no further life goes on without an order of the user.
        plan.faults.origin = Rates { lie: 0, unmap: 0, ..before.origin };
        plan.faults.cache.read = before.cache.read.min(100);
        (plan.faults.origin.write, plan.faults.origin.flush) =
            pick(random, &[(0, 200), (100, 0), (300, 300)]);
    }
    plan.point_in_time = Some(PointInTime {
        journal_size: SLOT_BYTES * pick(random, &[16, 17, 24, 40, 64]),
        cut_every: Duration::from_micros(pick(random, &[100, 2_000, 20_000, 500_000])),
        examined_permyriad: pick(random, &[2, 10, 50]),
    });
    for volume in &mut plan.volumes {
        (volume.mode, volume.origin) = (Mode::WriteBack, OriginKind::Local);
        if random.chance(500) {
            volume.sequential_cutoff = SequentialCutoff::Above(64 << 10);
        }
    }
    plan.shape.length_max = plan.shape.length_max.min(256 << 10);
    plan.shape.hot_permille = pick(random, &[0, 500, 900, 990]);
    plan.weights.write = random.within(50, 100);
    plan.weights.zeroes = plan.weights.zeroes.min(2);
    (plan.requests, plan.lives) =
        if random.chance(500) { (random.within(20, 200), 6) } else { (random.within(200, 800), 2) };
    (plan.ends.power_cut, plan.ends.kill) = pick(random, &[(500, 300), (900, 0), (100, 800)]);
}
