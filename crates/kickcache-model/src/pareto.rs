//! Skewed random blocks as fio's `random_distribution=pareto:H` draws them, scattered in the same way as in
//! [`crate::zipf`].

use kickcache_random::Random;

use crate::ratio::float;
use crate::zipf::SCATTER;

#[derive(Clone, Debug)]
pub struct Pareto {
    blocks: u64,
    power: f64,
    offset: u64,
    random: Random,
}

impl Pareto {
    /// The stream of a file of `blocks` blocks, `h` between 0 and 1; the most popular block is at `centre`, a
    /// position in the file from 0 to 1, or at a position that the seed decides.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the block count"
    )]
    pub fn new(blocks: u64, h: f64, centre: Option<f64>, seed: u64) -> Pareto {
        let mut random = Random::new(seed);
        let drawn = random.next_u64() & u64::from(u32::MAX);
        let offset = centre.map_or(drawn, |centre| (float(blocks) * centre.clamp(0.0, 1.0)) as u64);
        Pareto { blocks: blocks.max(1), power: h.ln() / (1.0 - h).ln(), offset, random }
    }

    #[expect(clippy::should_implement_trait, reason = "an endless stream has no end to report")]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the block count"
    )]
    pub fn next(&mut self) -> u64 {
        let rank = (float(self.blocks - 1) * self.random.unit().powf(self.power)) as u64;
        self.block_of_rank(rank)
    }

    /// The block with a rank of popularity, the most popular one at rank 0.
    pub fn block_of_rank(&self, rank: u64) -> u64 {
        rank.wrapping_mul(SCATTER).wrapping_add(self.offset) % self.blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_blocks_gets_four_fifths_of_accesses() {
        let mut pareto = Pareto::new(1 << 16, 0.2, None, 1);
        let popular: std::collections::HashSet<u64> =
            (0..(1_u64 << 16) / 5).map(|rank| pareto.block_of_rank(rank)).collect();
        let hits = (0..100_000).filter(|_| popular.contains(&pareto.next())).count();
        assert!((79_000..81_000).contains(&hits), "{hits}");
    }
}
