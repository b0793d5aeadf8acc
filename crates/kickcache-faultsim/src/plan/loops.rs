//! Runs in which the working set is a loop larger than the cache, so that the cache keeps a part of the loop.

use kickcache_engine::config::{Admission, SequentialCutoff};
use kickcache_engine::time::Duration;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_random::Random;

use crate::plan::Plan;
use crate::plan::faults::Faults;
use crate::plan::growth::Growth;

pub(super) fn draw(plan: &mut Plan, random: &mut Random) {
    plan.faults = Faults::default();
    plan.forbid_changes();
    (plan.cache_size, plan.clients) = (8 << 20, [2, 4, 8][random.index(3)]);
    let tenths = random.within(12, 20);
    for size in &mut plan.origin_sizes {
        *size = plan.cache_size / BLOCK_SIZE * tenths / 10 * BLOCK_SIZE;
    }
    for volume in &mut plan.volumes {
        (volume.admission, volume.sequential_cutoff) = (Admission::Pressure, SequentialCutoff::Off);
        volume.fill_window_max = BLOCK_SIZE << random.within(0, 4);
    }
    if random.chance(300) {
        let within = Duration::from_millis(random.within(1, 500));
        let step_max = Duration::from_micros(random.within(10, 1_000));
        let (most, is_stale, is_repeated) = (4 << 20, false, false);
        plan.growth = Some(Growth { permille: 500, within, step_max, most, is_stale, is_repeated });
    }
    plan.pause = Duration::from_micros(0);
    (plan.long_pause_permille, plan.absent_permille) = (0, 0);
    plan.shape.sequential_permille = 1_000;
    plan.shape.length_max = 64 << 10;
    (plan.shape.hot_permille, plan.shape.hot_blocks) = ([0, 500][random.index(2)], 256);
    (plan.requests, plan.lives) = (random.within(2_000, 5_000), random.within(1, 3));
    (plan.ends.power_cut, plan.ends.kill, plan.ends.verify) = (500, 300, 500);
}
