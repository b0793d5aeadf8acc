//! Skewed random blocks as fio's `random_distribution=zipf:THETA` draws them.
//!
//! A rank is drawn by the quick inversion of Gray et al. ("Quickly generating billion-record synthetic
//! databases", 1994), which fio uses, and scattered over the file by a multiplication, so that neighbouring
//! ranks are not neighbouring blocks. The scattering maps different ranks to different blocks only if the
//! number of blocks is a power of two; otherwise some blocks have two ranks and some have none, as with fio.

use kickcache_random::Random;

use crate::ratio::float;

/// fio's multiplier for 64-bit hashes.
pub(crate) const SCATTER: u64 = 0x61C8_8646_80B5_83EB;
/// fio sums at most this many terms of the zeta function.
const TERMS_MAX: u64 = 10_000_000;

#[derive(Clone, Debug)]
pub struct Zipf {
    blocks: u64,
    shape: Shape,
    offset: u64,
    random: Random,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    count: f64,
    theta: f64,
    zeta: f64,
    eta: f64,
    top_two: f64,
    power: f64,
}

impl Shape {
    fn new(blocks: u64, theta: f64) -> Shape {
        let zeta: f64 = (1..=blocks.min(TERMS_MAX)).map(|rank| float(rank).powf(-theta)).sum();
        let count = float(blocks);
        let top_two = 1.0 + 0.5_f64.powf(theta);
        let eta = (1.0 - (2.0 / count).powf(1.0 - theta)) / (1.0 - top_two / zeta);
        Shape { count, theta, zeta, eta, top_two, power: 1.0 / (1.0 - theta) }
    }

    /// The rank, from 0, at the point `unit` of the cumulated distribution.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the count")]
    fn rank(&self, unit: f64) -> u64 {
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.top_two {
            return 1;
        }
        let base = self.eta * unit - self.eta + 1.0;
        (self.count * base.powf(self.power)) as u64
    }

    /// The probability that the rank is below `rank`: the inverse of [`Shape::rank`].
    fn mass(&self, rank: u64) -> f64 {
        match rank {
            0 => 0.0,
            1 => 1.0 / self.zeta,
            2 => self.top_two / self.zeta,
            _ => (((float(rank) / self.count).powf(1.0 - self.theta) - 1.0) / self.eta + 1.0).clamp(0.0, 1.0),
        }
    }
}

impl Zipf {
    /// The stream of a file of `blocks` blocks; the seed decides the order and, as in fio, which blocks are the
    /// popular ones.
    ///
    /// # Panics
    /// If `blocks` is below 3, or `theta` is not above 0 or is exactly 1 (fio refuses these too).
    pub fn new(blocks: u64, theta: f64, seed: u64) -> Zipf {
        assert!(blocks > 2, "a skew needs some blocks");
        assert!(theta > 0.0 && (theta - 1.0).abs() > 1e-9, "theta must be above 0 and not 1");
        let mut random = Random::new(seed);
        let offset = random.next_u64() & u64::from(u32::MAX);
        Zipf { blocks, shape: Shape::new(blocks, theta), offset, random }
    }

    /// The same stream with the popular blocks scattered from `centre`, a place in the file from 0 to 1
    /// (fio's `zipf:THETA:CENTRE`).
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the block count"
    )]
    pub fn with_centre(mut self, centre: f64) -> Zipf {
        self.offset = (float(self.blocks) * centre.clamp(0.0, 1.0)) as u64;
        self
    }

    #[expect(clippy::should_implement_trait, reason = "an endless stream has no end to report")]
    pub fn next(&mut self) -> u64 {
        let rank = self.shape.rank(self.random.unit());
        self.block_of_rank(rank)
    }

    /// The block with a rank of popularity, the most popular one at rank 0.
    pub fn block_of_rank(&self, rank: u64) -> u64 {
        rank.wrapping_mul(SCATTER).wrapping_add(self.offset) % self.blocks
    }

    /// The share of requests that go to the `count` most popular blocks. Exact if the number of blocks is a
    /// power of two.
    pub fn best_static_hit_ratio(&self, count: u64) -> f64 {
        self.shape.mass(count.min(self.blocks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share_of_most_popular(zipf: &mut Zipf, draws: usize, count: usize) -> f64 {
        let mut counts = vec![0_u64; usize::try_from(zipf.blocks).unwrap()];
        for _ in 0..draws {
            counts[usize::try_from(zipf.next()).unwrap()] += 1;
        }
        let popular: u64 =
            (0..count).map(|rank| counts[usize::try_from(zipf.block_of_rank(rank as u64)).unwrap()]).sum();
        float(popular) / draws as f64
    }

    #[test]
    fn an_eighth_of_a_zipf_file_gets_its_known_share() {
        // 256 MiB in blocks of 4 KiB: computed for the measurement against other caches.
        let zipf = Zipf::new(65_536, 1.2, 1);
        let ratio = zipf.best_static_hit_ratio(8_192);
        assert!((ratio - 0.947).abs() < 0.002, "{ratio}");
    }

    #[test]
    fn closed_form_agrees_with_the_stream() {
        let mut zipf = Zipf::new(65_536, 1.2, 3);
        for count in [1_usize, 2, 3, 10, 1_000, 8_192] {
            let expected = zipf.best_static_hit_ratio(count as u64);
            let drawn = share_of_most_popular(&mut zipf, 400_000, count);
            assert!((drawn - expected).abs() < 0.004, "{count}: drawn {drawn}, expected {expected}");
        }
        assert!((zipf.best_static_hit_ratio(65_536) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn flat_skews_work_too() {
        let mut zipf = Zipf::new(4_096, 0.8, 3);
        let expected = zipf.best_static_hit_ratio(512);
        let drawn = share_of_most_popular(&mut zipf, 400_000, 512);
        assert!((drawn - expected).abs() < 0.004, "drawn {drawn}, expected {expected}");
    }

    #[test]
    fn ranks_are_scattered_and_a_centre_fixes_them() {
        let (one, two) =
            (Zipf::new(1 << 16, 1.2, 1).with_centre(0.5), Zipf::new(1 << 16, 1.2, 2).with_centre(0.5));
        assert_eq!(one.block_of_rank(0), 1 << 15);
        assert!((0..100).all(|rank| one.block_of_rank(rank) == two.block_of_rank(rank)));
        let blocks: std::collections::BTreeSet<u64> =
            (0..1 << 16).map(|rank| one.block_of_rank(rank)).collect();
        assert_eq!(blocks.len(), 1 << 16);
        assert!(one.block_of_rank(0).abs_diff(one.block_of_rank(1)) > 100);
    }

    #[test]
    fn odd_sizes_stay_inside_the_file() {
        let mut zipf = Zipf::new(10_007, 1.2, 9);
        assert!((0..100_000).all(|_| zipf.next() < 10_007));
    }
}
