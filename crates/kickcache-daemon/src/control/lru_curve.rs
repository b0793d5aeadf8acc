//! The hit-ratio curve of a volume in a report.

use kickcache_curve::curve::{CurvePoint, HitRatioCurve};
use kickcache_engine::units::BLOCK_SIZE;
use serde::{Deserialize, Serialize};

/// The smallest cache of a curve: 16 MiB.
const BLOCKS_MIN: u64 = (16 << 20) / BLOCK_SIZE;

/// The hit ratios of LRU caches of other sizes since the volume was added, an estimate.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LruCurve {
    pub read_blocks: u64,
    /// Bytes of the blocks that were read or written.
    pub footprint_bytes: u64,
    /// Each cache is twice as large as the previous one.
    pub points: Vec<LruPoint>,
}

/// A point of a curve.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LruPoint {
    pub cache_bytes: u64,
    /// The part of the blocks read that this cache would have hit, from 0 to 1.
    pub hit_ratio: f64,
    /// The error bound of the hit ratio: 95 of 100 estimates are closer.
    pub error: f64,
}

impl LruCurve {
    /// The curve; `None` before the first read.
    pub fn new(curve: &HitRatioCurve) -> Option<LruCurve> {
        let point = |point: CurvePoint| LruPoint {
            cache_bytes: point.blocks * BLOCK_SIZE,
            hit_ratio: point.hit_ratio,
            error: point.error,
        };
        (curve.accesses() > 0).then(|| LruCurve {
            read_blocks: curve.accesses(),
            footprint_bytes: curve.footprint_blocks() * BLOCK_SIZE,
            points: curve.doubling(BLOCKS_MIN).into_iter().map(point).collect(),
        })
    }
}
