//! A load of several days on a cache with a daily write budget.

use kickcache_engine::config::Mode;
use kickcache_engine::time::{Duration, Instant};

use crate::policy_study::load::Load;
use crate::ratio::share;
use crate::untimed::{InstantCache, Trial, VOLUME};

/// The number of samples of the counters in a day.
pub const LOOKS: u64 = 96;
const DAY: u64 = 86_400_000_000_000;
const LOOK: u64 = DAY / LOOKS;

/// A load that takes some days: an equal part in each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Days {
    pub trial: Trial,
    pub mode: Mode,
    pub count: u64,
    /// Hours at the beginning of each day that contain all of its accesses.
    pub hours: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Look {
    pub written_bytes: u64,
    pub hit_blocks: u64,
    pub miss_blocks: u64,
}

impl Look {
    fn of(cache: &InstantCache) -> Look {
        let volume = cache.engine.counters(VOLUME);
        Look {
            written_bytes: cache.engine.status().counters.write_bytes,
            hit_blocks: volume.hit_blocks,
            miss_blocks: volume.miss_blocks,
        }
    }

    #[must_use]
    pub fn since(&self, before: Look) -> Look {
        Look {
            written_bytes: self.written_bytes - before.written_bytes,
            hit_blocks: self.hit_blocks - before.hit_blocks,
            miss_blocks: self.miss_blocks - before.miss_blocks,
        }
    }

    pub fn hit_ratio(&self) -> f64 {
        share(self.hit_blocks, self.hit_blocks + self.miss_blocks)
    }
}

impl Days {
    /// The counters at each sample, [`LOOKS`] a day.
    ///
    /// # Panics
    /// If the sizes are impossible.
    pub fn run(&self, load: &Load) -> Vec<Look> {
        let volume_bytes = load.volume_bytes * self.trial.scale.0;
        let mut cache = InstantCache::open(volume_bytes, self.trial).expect("a possible size");
        cache.engine.set_mode(Instant::ZERO, VOLUME, self.mode);
        let mut looks = Vec::new();
        let until = |cache: &mut InstantCache, at: Instant, looks: &mut Vec<Look>| {
            while (looks.len() as u64 + 1) * LOOK <= at.as_nanos() {
                cache.wait_until(Instant::from_nanos((looks.len() as u64 + 1) * LOOK));
                looks.push(Look::of(cache));
            }
        };
        for (number, access) in (0..).zip(&load.accesses) {
            let at = self.time(number, load.accesses.len() as u64);
            until(&mut cache, at, &mut looks);
            cache.access(at, access.kind, access.extent);
        }
        until(&mut cache, Instant::ZERO.plus(Duration::from_nanos(self.count * DAY)), &mut looks);
        looks
    }

    fn time(&self, number: u64, count: u64) -> Instant {
        let in_day = count.div_ceil(self.count);
        let (day, number) = (number / in_day, number % in_day);
        let part = u128::from(DAY * self.hours / 24) * u128::from(number) / u128::from(in_day);
        Instant::from_nanos(day * DAY + u64::try_from(part).expect("within a day"))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use kickcache_engine::config::SequentialCutoff;

    use super::*;
    use crate::untimed::{Fill, Scale};

    const CACHE_BLOCKS: u64 = 8_192;

    fn two_days(write_budget: Option<NonZeroU64>) -> ([u64; 2], f64) {
        let fill = Fill::Adaptive { sequential_cutoff: SequentialCutoff::default() };
        let trial = Trial { cache_blocks: CACHE_BLOCKS, scale: Scale(1), fill, write_budget };
        let days = Days { trial, mode: Mode::WriteThrough, count: 2, hours: 24 };
        let looks = days.run(&Load::skewed("", 12 * CACHE_BLOCKS, 200_000));
        let (first, last) = (looks[95], looks[191].since(looks[95]));
        ([first.written_bytes, last.written_bytes], last.hit_ratio())
    }

    #[test]
    fn a_budget_is_held_each_day_and_costs_few_hits() {
        let (written, hits) = two_days(None);
        let budget = written[1] / 2;
        let (held, hits_held) = two_days(NonZeroU64::new(budget));
        for bytes in held {
            assert!((95..=105).contains(&(bytes * 100 / budget)), "{bytes} of {budget}, {written:?} without");
        }
        assert!(hits_held > hits - 0.02, "{hits_held}, {hits} without");
    }
}
