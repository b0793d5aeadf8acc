//! The number of accesses by the depth in the LRU stack at which they found their block.
//!
//! Each depth below 64 has a bin; greater depths have 32 bins for each doubling. An access is counted in one of 32
//! groups, chosen by its block.

use crate::number::{float, floor};

pub(crate) const GROUPS: usize = 32;
/// Bins for each doubling, a power of two.
const BINS_PER_OCTAVE: u64 = 32;
/// Greater depths are counted as this one.
const DEPTH_MAX: u64 = (1 << 40) - 1;

/// Accesses of each group, as weights.
pub(crate) type Weights = [f64; GROUPS];

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Histogram {
    bins: Vec<Weights>,
    total: Weights,
}

fn bin_of(depth: u64) -> usize {
    let depth = depth.min(DEPTH_MAX);
    let octave = u64::from((depth / BINS_PER_OCTAVE).checked_ilog2().unwrap_or(0));
    let bin = octave * BINS_PER_OCTAVE + (depth >> octave);
    usize::try_from(bin).expect("a few thousand bins")
}

/// The smallest depth of a bin.
fn start_of(bin: usize) -> u64 {
    let bin = bin as u64;
    let octave = (bin / BINS_PER_OCTAVE).saturating_sub(1);
    (bin - octave * BINS_PER_OCTAVE) << octave
}

impl Histogram {
    pub(crate) fn new() -> Histogram {
        Histogram { bins: vec![[0.0; GROUPS]; bin_of(DEPTH_MAX) + 1], total: [0.0; GROUPS] }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.bins.capacity() * size_of::<Weights>()
    }

    /// Counts an access that represents `weight` accesses and is the first of its block.
    pub(crate) fn add_first(&mut self, group: usize, weight: f64) {
        self.total[group] += weight;
    }

    /// Counts an access that represents `weight` accesses and hits in caches of `depth` blocks and more.
    pub(crate) fn add(&mut self, group: usize, weight: f64, depth: f64) {
        self.total[group] += weight;
        self.bins[bin_of(floor(depth.ceil()))][group] += weight;
    }

    pub(crate) fn total(&self) -> &Weights {
        &self.total
    }

    /// The accesses of each group that a cache of this many blocks misses; the hits in a bin are spread evenly over its
    /// depths.
    pub(crate) fn misses(&self, blocks: f64) -> Weights {
        let whole = floor(blocks);
        let last = bin_of(whole);
        let mut misses = self.total;
        for bin in &self.bins[..last] {
            misses.iter_mut().zip(bin).for_each(|(misses, hits)| *misses -= hits);
        }
        let (start, end) = (float(start_of(last)), float(start_of(last + 1)));
        let part = ((blocks.floor() + 1.0 - start) / (end - start)).min(1.0);
        misses.iter_mut().zip(&self.bins[last]).for_each(|(misses, hits)| *misses -= hits * part);
        misses.map(|misses| misses.max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_follow_each_other_and_hold_their_depths() {
        for bin in 0..=bin_of(DEPTH_MAX) {
            let (start, end) = (start_of(bin), start_of(bin + 1));
            assert!(start < end, "{bin}: {start} to {end}");
            assert_eq!((bin_of(start), bin_of(end - 1)), (bin, bin), "{start} to {end}");
            assert!(end - start <= (start / 32).max(1), "{start} to {end}");
        }
    }

    #[test]
    fn a_cache_hits_accesses_of_smaller_depth() {
        let mut histogram = Histogram::new();
        histogram.add_first(0, 1.0);
        for depth in [1, 5, 5, 1000] {
            histogram.add(0, 1.0, float(depth));
        }
        let misses = |blocks: u64| histogram.misses(float(blocks))[0];
        let close = |one: f64, other: f64| (one - other).abs() < 1e-9;
        for (blocks, expected) in [(0, 5.0), (1, 4.0), (4, 4.0), (5, 2.0), (900, 2.0), (1100, 1.0)] {
            assert!(close(misses(blocks), expected), "{blocks}: {}", misses(blocks));
        }
    }
}
