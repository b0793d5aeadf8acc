//! Runs in which all volumes are written back in cuts, by way of a redo journal.

use kickcache_engine::config::{Mode, OriginKind, SequentialCutoff};
use kickcache_engine::format::redo::SLOT_BYTES;
use kickcache_engine::time::Duration;
use kickcache_random::Random;

use crate::plan::Plan;
use crate::plan::faults::Faults;
use crate::plan::pick::pick;

/// The redo journal of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PointInTime {
    pub journal_size: u64,
    pub cut_every: Duration,
    /// Steps after which the origins are examined without the cache device, in 1/10000.
    pub examined_permyriad: u64,
}

/// Probability in 1/1000 of plans of this kind.
pub(super) const PERMILLE: u64 = 80;

pub(super) fn draw(plan: &mut Plan, random: &mut Random) {
    plan.forbid_changes();
    (plan.mode_changes, plan.absent_permille) = (false, 0);
    let before = plan.faults;
    plan.faults = Faults::default();
    if random.chance(500) {
        // A cache device that fails for good ends all writes: no further life goes on without an order of the user.
        plan.faults.origin = crate::plan::faults::Rates { lie: 0, ..before.origin };
        plan.faults.cache.read = before.cache.read;
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
    (plan.requests, plan.lives) =
        if random.chance(500) { (random.within(20, 200), 6) } else { (random.within(500, 2_000), 2) };
    (plan.ends.power_cut, plan.ends.kill) = pick(random, &[(500, 300), (900, 0), (100, 800)]);
}
