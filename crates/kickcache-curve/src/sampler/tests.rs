//! The sampler against an LRU cache that keeps all blocks.

use super::*;
use kickcache_random::Random;
use proptest::prelude::*;

/// How often each depth of an LRU stack was hit.
#[derive(Default)]
struct Stack {
    blocks: Vec<u64>,
    hits: Vec<u64>,
    counted: u64,
}

impl Stack {
    fn access(&mut self, block: u64, effect: Effect) {
        let depth = self.blocks.iter().rev().position(|other| *other == block);
        if let Some(depth) = depth {
            self.blocks.remove(self.blocks.len() - 1 - depth);
        }
        self.blocks.push(block);
        if effect == Effect::Count {
            self.counted += 1;
            let Some(depth) = depth else { return };
            self.hits.resize(self.hits.len().max(depth + 1), 0);
            self.hits[depth] += 1;
        }
    }

    fn hit_ratio(&self, blocks: usize) -> f64 {
        let hits: u64 = self.hits.iter().take(blocks).sum();
        float(hits) / float(self.counted.max(1))
    }
}

fn feed(sampler: &mut LruSampler, block: u64, effect: Effect) {
    match effect {
        Effect::Count => sampler.count(block),
        Effect::Touch => sampler.touch(block),
    }
}

fn mixture(length: usize, blocks: u64, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let mut accesses = Vec::new();
    let mut looped = 0;
    while accesses.len() < length {
        match random.below(1000) {
            0 => {
                let start = random.below(blocks);
                accesses.extend((start..start + 300).map(|block| block % blocks));
            }
            1..200 => {
                looped = (looped + 1) % (blocks / 10);
                accesses.push(looped);
            }
            _ => {
                let bound = random.below(blocks) + 1;
                let bound = random.below(bound) + 1;
                accesses.push(random.below(bound).wrapping_mul(0x9E37_79B1) % blocks);
            }
        }
    }
    accesses
}

#[test]
fn a_sample_of_some_blocks_gives_the_curve_of_all() {
    let (blocks, accesses) = (40_000, mixture(300_000, 40_000, 7));
    let mut all = LruSampler::new(50_000);
    let mut sampler = LruSampler::new(4_096);
    for block in accesses {
        all.count(block);
        sampler.count(block);
    }
    let (exact, curve) = (all.curve(), sampler.curve());
    assert!(curve.rate < 0.15, "{}", curve.rate);
    let sizes: Vec<u64> = (1..=50).map(|part| blocks * part / 50).collect();
    let mut error = 0.0;
    let mut outside = 0;
    for size in &sizes {
        let (exact, found) = (exact.at(*size), curve.at(*size));
        assert!(exact.error.abs() < 1e-9, "nothing is estimated");
        error += (exact.hit_ratio - found.hit_ratio).abs() / 50.0;
        outside += usize::from((exact.hit_ratio - found.hit_ratio).abs() > found.error);
    }
    assert!(error < 0.01, "mean absolute error {error}");
    assert!(outside <= 5, "{outside} of 50 points are farther off than they say");
    let footprint = float(curve.footprint_blocks()) / float(exact.footprint_blocks());
    assert!((0.95..1.05).contains(&footprint), "{footprint}");
}

#[test]
fn memory_stays_constant_and_within_its_bound() {
    for (samples, most) in [(8_192, 768 << 10), (32_768, 2 << 20)] {
        let mut sampler = LruSampler::new(samples);
        let before = sampler.memory_bytes();
        (0..200_000).for_each(|block| sampler.count(block));
        assert_eq!(sampler.memory_bytes(), before);
        assert!(before <= most, "{samples} samples take {before} bytes");
    }
}

#[test]
fn without_accesses_there_are_no_hits() {
    let curve = LruSampler::new(10).curve();
    assert_eq!(curve.at(100), crate::curve::CurvePoint { blocks: 100, hit_ratio: 0.0, error: 0.0 });
    assert_eq!(curve.doubling(8).len(), 1);
}

proptest! {
    #[test]
    fn with_room_for_all_blocks_the_curve_is_exact(
        accesses in prop::collection::vec((0_u64..60, prop::bool::weighted(0.8)), 1..700)
    ) {
        let mut stack = Stack::default();
        let mut sampler = LruSampler::new(60);
        for (block, is_counted) in accesses {
            let effect = if is_counted { Effect::Count } else { Effect::Touch };
            stack.access(block, effect);
            feed(&mut sampler, block, effect);
        }
        let curve = sampler.curve();
        prop_assert_eq!(curve.accesses(), stack.counted);
        for blocks in 0..70 {
            let found = curve.at(blocks as u64);
            prop_assert!((found.hit_ratio - stack.hit_ratio(blocks)).abs() < 1e-9, "{:?}", found);
        }
    }
}
