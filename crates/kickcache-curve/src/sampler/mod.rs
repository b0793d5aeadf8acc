//! Samples the accesses of a volume and keeps the data for its curve.
//!
//! Invariants:
//! * H-1: the sample holds all accessed blocks with a hash below the threshold, at most as many as it has
//!   room for.
//! * H-2: a counted access of a sampled block counts as `n` accesses if, at that time, one hash in `n` is below the
//!   threshold.

use crate::curve::HitRatioCurve;
use crate::hash;
use crate::histogram::{GROUPS, Histogram};
use crate::number::float;
use crate::recency::Recency;
use crate::samples::Samples;

/// When the sample exceeds its size, the threshold falls by one part in this many until the sample fits.
const STEP: u64 = 48;
pub const SAMPLES_MAX: u32 = 1 << 27;

/// Estimates the hit-ratio curve of an LRU cache from the blocks with the smallest hashes.
#[derive(Clone, Debug)]
pub struct LruSampler {
    /// Blocks with a hash below the threshold are sampled.
    threshold: u64,
    /// The number of accesses that a sampled one represents.
    weight: f64,
    accesses: u64,
    most: usize,
    samples: Samples,
    recency: Recency,
    histogram: Histogram,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    /// The hit or miss counts, and the block becomes the most recently used.
    Count,
    /// The block becomes the most recently used; no hit or miss counts.
    Touch,
}

impl LruSampler {
    /// A sampler of at most this many blocks.
    ///
    /// # Panics
    /// If `samples` is 0 or more than [`SAMPLES_MAX`].
    pub fn new(samples: u32) -> LruSampler {
        assert!((1..=SAMPLES_MAX).contains(&samples), "a sample has from 1 to {SAMPLES_MAX} blocks");
        LruSampler {
            threshold: u64::MAX,
            weight: 1.0,
            accesses: 0,
            most: samples as usize,
            samples: Samples::new(samples + 1),
            recency: Recency::new(samples + 1),
            histogram: Histogram::new(),
        }
    }

    /// Counts an access that can hit.
    #[inline]
    pub fn count(&mut self, block: u64) {
        self.accesses += 1;
        let hash = hash::hash(block);
        if hash < self.threshold {
            self.sample(hash, Effect::Count);
        }
    }

    /// Makes a block the most recently used, without a hit or miss.
    #[inline]
    pub fn touch(&mut self, block: u64) {
        let hash = hash::hash(block);
        if hash < self.threshold {
            self.sample(hash, Effect::Touch);
        }
    }

    pub fn curve(&self) -> HitRatioCurve {
        HitRatioCurve {
            histogram: self.histogram.clone(),
            accesses: self.accesses,
            footprint: float(self.samples.len() as u64) * self.weight,
            rate: 1.0 / self.weight,
        }
    }

    /// Bytes of the sampler's tables.
    pub fn memory_bytes(&self) -> usize {
        self.samples.memory_bytes() + self.recency.memory_bytes() + self.histogram.memory_bytes()
    }

    #[inline(never)]
    fn sample(&mut self, hash: u64, effect: Effect) {
        if self.recency.is_full() {
            self.samples.slots_mut().for_each(|slot| *slot = self.recency.rank(*slot));
            self.recency.renumber();
        }
        let group = group_of(hash);
        let Some(slot) = self.samples.slot_mut(hash) else {
            if effect == Effect::Count {
                self.histogram.add_first(group, self.weight);
            }
            self.insert(hash);
            return;
        };
        if effect == Effect::Count {
            let depth = f64::from(self.recency.above(*slot)) * self.weight + 1.0;
            self.histogram.add(group, self.weight, depth);
        }
        self.recency.remove(*slot);
        *slot = self.recency.push();
    }

    fn insert(&mut self, hash: u64) {
        let slot = self.recency.push();
        self.samples.insert(hash, slot);
        while self.samples.len() > self.most {
            self.threshold -= self.threshold / STEP + 1;
            self.weight = float(u64::MAX) / float(self.threshold.max(1));
            self.samples.remove_from(self.threshold, |slot| self.recency.remove(slot));
        }
    }
}

/// The group of a block, by bits of its hash.
fn group_of(hash: u64) -> usize {
    (hash >> 24) as usize % GROUPS
}

#[cfg(test)]
mod tests;
