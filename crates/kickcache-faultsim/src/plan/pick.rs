//! Draws that several parts of a plan need.

use kickcache_engine::config::Mode;
use kickcache_random::Random;

const MODES: [Mode; 4] = [Mode::WriteThrough, Mode::WriteBack, Mode::WriteAround, Mode::Bypass];

pub(super) fn pick<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[random.index(choices.len())]
}

/// The value of a feature: 0, which turns it off, in half of the draws, else a value from `low` to `high`.
pub(super) fn swarm(random: &mut Random, low: u64, high: u64) -> u64 {
    if random.chance(500) { 0 } else { random.within(low, high) }
}

/// A mode; the two that put writes into the log are more frequent.
pub fn draw_mode(random: &mut Random) -> Mode {
    if random.chance(700) { pick(random, &MODES[..2]) } else { pick(random, &MODES) }
}
