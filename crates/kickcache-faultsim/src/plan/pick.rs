//! Draws that several parts of a plan need.

use kickcache_random::Random;

pub(super) fn pick<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[random.index(choices.len())]
}

/// The value of a feature: 0, which turns it off, in half of the draws, else a value from `low` to `high`.
pub(super) fn swarm(random: &mut Random, low: u64, high: u64) -> u64 {
    if random.chance(500) { 0 } else { random.within(low, high) }
}
