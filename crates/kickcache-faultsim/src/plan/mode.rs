//! Draws modes of volumes.

use kickcache_engine::config::Mode;
use kickcache_random::Random;

use crate::plan::pick::pick;

const MODES: [Mode; 4] = [Mode::WriteThrough, Mode::WriteBack, Mode::WriteAround, Mode::Bypass];

/// A mode; the two that put writes into the log are more frequent.
pub fn draw_mode(random: &mut Random) -> Mode {
    if random.chance(700) { pick(random, &MODES[..2]) } else { pick(random, &MODES) }
}
