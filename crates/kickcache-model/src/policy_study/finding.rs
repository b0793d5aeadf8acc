//! The result of a case of the study.

use kickcache_engine::units::BLOCK_SIZE;

use crate::ratio::{float, share};
use crate::reference_policy::{Misses, NAMES};
use crate::untimed::Outcome;

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Finding {
    /// The engine, in blocks of its volume.
    pub engine: Outcome,
    /// The reference policies, in blocks of the load.
    pub references: Option<[Misses; NAMES.len()]>,
    /// For a shift: the engine with a cache that was empty at the change.
    pub fresh: Option<Outcome>,
    /// For a loop: hits of the best set of blocks, in blocks of the load.
    pub best_static: Option<u64>,
}

impl Finding {
    /// Misses of the engine beyond the misses of the best reference policy, in points; `None` if no policy was run.
    pub fn behind_best(&self) -> Option<f64> {
        let misses = self.references?.map(|misses| misses.miss_ratio());
        let best = misses.into_iter().fold(f64::INFINITY, f64::min);
        Some((self.engine.miss_ratio() - best) * 100.0)
    }

    /// For a loop: the part of the best set's hits that the engine has; each block of the load is `scale` blocks of the volume.
    pub fn part_of_best(&self, scale: u64) -> Option<f64> {
        let hits = self.engine.touched_blocks - self.engine.missed_blocks;
        self.best_static.map(|best| float(hits) / float((best * scale).max(1)))
    }

    /// Blocks written to the cache device for each block that missed.
    pub fn written_per_miss(&self) -> f64 {
        share(self.engine.cache_write_bytes / BLOCK_SIZE, self.engine.missed_blocks)
    }

    /// For a shift: the hit ratio of an empty cache minus that of the engine, in points.
    pub fn behind_fresh(&self) -> Option<f64> {
        self.fresh.map(|fresh| (self.engine.miss_ratio() - fresh.miss_ratio()) * 100.0)
    }
}
