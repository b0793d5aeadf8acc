//! Random numbers from a seed: xoshiro256**. The integers are the same on every machine.

use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

#[derive(Clone, Debug)]
pub struct Random(Xoshiro256StarStar);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(Xoshiro256StarStar::seed_from_u64(seed))
    }

    /// A separate stream, independent of the numbers that this one returns later.
    pub fn split(&mut self) -> Random {
        Random::new(self.next_u64())
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `limit`.
    ///
    /// # Panics
    /// If `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "no number is below 0");
        let wide = u128::from(self.next_u64()) * u128::from(limit);
        (wide >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    ///
    /// # Panics
    /// If `low` is above `high`.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "no number is in an empty range");
        match (high - low).checked_add(1) {
            Some(count) => low + self.below(count),
            None => self.next_u64(),
        }
    }

    /// An index below `count`, which must not be 0.
    pub fn index(&mut self, count: usize) -> usize {
        let limit = u64::try_from(count).expect("a count fits 64 bits");
        usize::try_from(self.below(limit)).expect("smaller than a usize")
    }

    /// Whether an event of this probability in 1000 happens.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double")]
        let numerator = (self.next_u64() >> 11) as f64;
        numerator / 9_007_199_254_740_992.0
    }

    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// A number of the normal distribution around 0 with deviation 1.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// A number of the log-normal distribution with this median; `sigma` is the deviation of its logarithm.
    pub fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        median * (sigma * self.normal()).exp()
    }

    /// A number of the exponential distribution with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_same_numbers() {
        let (mut one, mut two) = (Random::new(7), Random::new(7));
        assert!((0..100).all(|_| one.next_u64() == two.next_u64()));
        assert_ne!(Random::new(7).next_u64(), Random::new(8).next_u64());
    }

    #[test]
    fn numbers_stay_in_their_range_and_reach_its_ends() {
        let mut random = Random::new(1);
        let seen: std::collections::BTreeSet<u64> = (0..1000).map(|_| random.within(3, 9)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), vec![3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(random.clone().within(0, u64::MAX), random.next_u64(), "the range of all numbers");
        assert_eq!(random.within(u64::MAX, u64::MAX), u64::MAX);
        assert!((0..1000).map(|_| random.unit()).all(|unit| (0.0..1.0).contains(&unit)));
    }
}
