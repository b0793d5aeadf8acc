//! The next block of a job's file.

use kickcache_random::Random;

use crate::pareto::Pareto;
use crate::workload::fio::options::{Distribution, JobOptions};
use crate::zipf::Zipf;

/// A stream of blocks, from 0 to below the number of blocks.
#[derive(Debug)]
pub(crate) enum Offsets {
    InOrder,
    /// Each block with the same probability, whether or not it was drawn before.
    Uniform(Random),
    /// Each once, then each again in another order.
    Shuffled(Shuffle),
    Zipf(Zipf),
    Pareto(Pareto),
}

impl Offsets {
    pub(crate) fn new(options: &JobOptions, blocks: u64, random: &mut Random) -> Offsets {
        if !options.is_random {
            return Offsets::InOrder;
        }
        let seed = random.next_u64();
        match options.distribution {
            Distribution::Random if options.has_map => {
                Offsets::Shuffled(Shuffle { random: Random::new(seed), keys: [0; 4], next: 0 })
            }
            Distribution::Random => Offsets::Uniform(Random::new(seed)),
            Distribution::Zipf(theta, centre) => {
                let zipf = Zipf::new(blocks, theta, seed);
                Offsets::Zipf(match centre {
                    Some(centre) => zipf.with_centre(centre),
                    None => zipf,
                })
            }
            Distribution::Pareto(h, centre) => Offsets::Pareto(Pareto::new(blocks, h, centre, seed)),
        }
    }

    /// The next block; `None` if the job continues at its position.
    pub(crate) fn next(&mut self, blocks: u64) -> Option<u64> {
        Some(match self {
            Offsets::InOrder => return None,
            Offsets::Uniform(random) => random.below(blocks),
            Offsets::Shuffled(shuffle) => shuffle.next(blocks),
            Offsets::Zipf(zipf) => zipf.next(),
            Offsets::Pareto(pareto) => pareto.next(),
        })
    }
}

/// Each number below a limit once, in an order that needs no memory: a Feistel network over a power of four that is
/// walked until it leads back below the limit.
#[derive(Debug)]
pub(crate) struct Shuffle {
    random: Random,
    keys: [u64; 4],
    next: u64,
}

impl Shuffle {
    fn next(&mut self, limit: u64) -> u64 {
        if self.next == 0 {
            self.keys = std::array::from_fn(|_| self.random.next_u64());
        }
        let mut place = self.next;
        self.next = (self.next + 1) % limit;
        let bits = (u64::BITS - limit.saturating_sub(1).leading_zeros()).div_ceil(2).max(1);
        loop {
            place = self.walk(place, bits);
            if place < limit {
                return place;
            }
        }
    }

    fn walk(&self, place: u64, bits: u32) -> u64 {
        let mask = (1 << bits) - 1;
        let (mut left, mut right) = (place >> bits, place & mask);
        for key in self.keys {
            let mixed = (right ^ key).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            (left, right) = (right, left ^ (mixed & mask));
        }
        left << bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_gives_each_block_once_in_each_round() {
        for limit in [4, 5, 1_000, 1_024] {
            let mut shuffle = Shuffle { random: Random::new(limit), keys: [0; 4], next: 0 };
            let mut rounds: Vec<Vec<u64>> = Vec::new();
            for _ in 0..2 {
                let round: Vec<u64> = (0..limit).map(|_| shuffle.next(limit)).collect();
                let mut sorted = round.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..limit).collect::<Vec<_>>());
                rounds.push(round);
            }
            assert!(limit < 100 || rounds[0] != rounds[1]);
        }
    }
}
