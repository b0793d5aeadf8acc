//! The hit ratio of an LRU cache by its size.

use crate::histogram::{GROUPS, Histogram};
use crate::number::{float, floor};

/// The error of a point in standard deviations, for 95 cases of 100 with 32 groups.
const DEVIATIONS: f64 = 2.04;

/// The estimated hit ratio of LRU caches of any size, over the counted accesses before the call that made the curve.
#[derive(Clone, PartialEq, Debug)]
pub struct HitRatioCurve {
    pub(crate) histogram: Histogram,
    pub(crate) accesses: u64,
    pub(crate) footprint: f64,
    /// The expected part of the blocks that is in the sample; 1 while all fit.
    pub(crate) rate: f64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CurvePoint {
    pub blocks: u64,
    /// The part of the counted accesses that the cache hits; 0 without accesses.
    pub hit_ratio: f64,
    /// In about 95 of 100 cases the exact ratio differs by at most this much; 0 if all blocks are in the sample, or for
    /// a cache without blocks.
    pub error: f64,
}

impl HitRatioCurve {
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// The number of different blocks accessed; an estimate unless they all fit the sample.
    pub fn footprint_blocks(&self) -> u64 {
        floor(self.footprint.round())
    }

    pub fn at(&self, blocks: u64) -> CurvePoint {
        let Estimate { hit_ratio, deviation } = self.estimate(float(blocks));
        if self.rate >= 1.0 {
            return CurvePoint { blocks, hit_ratio, error: 0.0 };
        }
        // The depth itself is an estimate, by the number of samples that are less deep.
        let depth = float(blocks) * self.rate;
        let off = (depth * (1.0 - self.rate)).sqrt() / self.rate;
        let (low, high) = (self.estimate(float(blocks) - off), self.estimate(float(blocks) + off));
        let of_depth = ((high.hit_ratio - low.hit_ratio) / 2.0).max(0.0);
        CurvePoint { blocks, hit_ratio, error: (DEVIATIONS * deviation.hypot(of_depth)).min(1.0) }
    }

    /// Points from `from` blocks on (at least 1), each twice as large as the previous point, up to the first cache that
    /// holds all accessed blocks.
    pub fn doubling(&self, from: u64) -> Vec<CurvePoint> {
        let mut points = Vec::new();
        let mut blocks = from.max(1);
        loop {
            points.push(self.at(blocks));
            if float(blocks) >= self.footprint {
                return points;
            }
            blocks = blocks.saturating_mul(2);
        }
    }

    /// A regression over the groups corrects the misses for the difference between the number of accesses and
    /// the number that the sample represents.
    fn estimate(&self, blocks: f64) -> Estimate {
        if self.accesses == 0 || blocks < 1.0 {
            return Estimate { hit_ratio: 0.0, deviation: 0.0 };
        }
        let (misses, total) = (self.histogram.misses(blocks), self.histogram.total());
        let (of_misses, of_total) = (Moments::of(&misses), Moments::of(total));
        let pairs =
            || misses.iter().zip(total).map(|(one, other)| (one - of_misses.mean, other - of_total.mean));
        let both: f64 = pairs().map(|(one, other)| one * other).sum();
        let slope = if of_total.squares > 0.0 { (both / of_total.squares).clamp(0.0, 1.0) } else { 0.0 };
        let left: f64 = pairs().map(|(one, other)| (one - slope * other).powi(2)).sum();
        let accesses = float(self.accesses);
        let missed = of_misses.mean * COUNT + slope * (accesses - of_total.mean * COUNT);
        let variance = left * COUNT / (COUNT - 1.0) * (1.0 - self.rate);
        Estimate {
            hit_ratio: (1.0 - missed / accesses).clamp(0.0, 1.0),
            deviation: variance.sqrt() / accesses,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few")]
const COUNT: f64 = GROUPS as f64;

#[derive(Clone, Copy, Debug)]
struct Estimate {
    hit_ratio: f64,
    deviation: f64,
}

/// The mean of the groups, and the sum of the squares of their deviations from it.
#[derive(Clone, Copy, Debug)]
struct Moments {
    mean: f64,
    squares: f64,
}

impl Moments {
    fn of(groups: &[f64; GROUPS]) -> Moments {
        let mean = groups.iter().sum::<f64>() / COUNT;
        Moments { mean, squares: groups.iter().map(|own| (own - mean).powi(2)).sum() }
    }
}
