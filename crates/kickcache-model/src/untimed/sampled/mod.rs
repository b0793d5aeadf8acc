//! The hit ratios of the real engine from a sample of a trace: caches and volume are scaled down by the same factor.
//!
//! The sample consists of whole extents, because the engine fills more than the requested blocks. Requests of
//! long streams bypass the cache, and a stream is visible in the whole trace only: streams are detected
//! before the sample is drawn. The estimated quantity is the difference between the hits of the engine and of
//! LRU on the same sample. The hits of LRU on the whole trace are estimated from a sample of single blocks.

mod extents;
mod read_streams;
mod sized_cache;

use std::path::Path;

use kickcache_curve::sampler::LruSampler;
use kickcache_engine::config::SequentialCutoff;
use kickcache_engine::time::Instant;
use kickcache_engine::units::ByteExtent;

use crate::ratio::float;
use crate::trace_file::TraceError;
use crate::trace_file::placement::{PlacedAccess, accesses};
use crate::trace_file::survey::{Survey, blocks};
use crate::untimed::sampled::extents::ExtentSample;
use crate::untimed::sampled::sized_cache::SizedCache;
use crate::untimed::{Fill, InstantCache, Scale, Trial, blocks_min, scaled_cutoff};
use crate::workload::Kind;

/// The least number of blocks that a sample is expected to have.
pub const SAMPLED_BLOCKS_MIN: u64 = 8_192;
/// The least number of extents that a sample is expected to have.
const SAMPLED_EXTENTS_MIN: u64 = 2_048;
/// The least number of reads that a sample is expected to have.
const SAMPLED_READS_MIN: u64 = 100_000;
const LRU_SAMPLES: u32 = 32_768;
/// How many standard deviations the error is: with 32 groups, 95 results of 100 are as close as that.
const DEVIATIONS: f64 = 2.04;

#[derive(Clone, PartialEq, Debug)]
pub struct SampledTrial {
    pub cache_blocks: Vec<u64>,
    pub scale: Scale,
    pub fill: Fill,
    /// The sample is one part in this many; 1 is the whole.
    pub one_in: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SampledOutcome {
    /// The share of the blocks read and written that the cache hits.
    pub hit_ratio: f64,
    /// In 95 of 100 cases a run of the whole trace differs by at most this much; 0 if the sample is the whole.
    pub error: f64,
    /// The hit ratio of an LRU cache of single blocks.
    pub lru_hit_ratio: f64,
    /// In 95 of 100 cases the exact `lru_hit_ratio` differs by at most this much.
    pub lru_error: f64,
    pub written_per_byte: f64,
    /// Bytes read from the origin for each byte that was read.
    pub origin_read_per_byte: f64,
}

/// The largest `one_in` for a smallest cache of this many blocks. Unless the result is 1, the sample is
/// expected to have at least [`SAMPLED_BLOCKS_MIN`] blocks.
pub fn one_in_max(survey: &Survey, smallest: u64, scale: Scale) -> u64 {
    let of_blocks = survey.footprint / SAMPLED_BLOCKS_MIN;
    let of_extents = survey.footprint * scale.0 / 256 / SAMPLED_EXTENTS_MIN;
    let of_cache = smallest / blocks_min(scale).max(1);
    let of_reads = survey.reads / SAMPLED_READS_MIN;
    of_blocks.min(of_extents).min(of_cache).min(of_reads).max(1)
}

/// # Errors
/// If the trace cannot be read, or a cache or its volume would be larger than any can be.
pub fn run(path: &Path, survey: &Survey, trial: &SampledTrial) -> Result<Vec<SampledOutcome>, TraceError> {
    let mut run = SampledRun::new(survey, trial).map_err(std::io::Error::other)?;
    for access in accesses(path, survey)? {
        let PlacedAccess { at, kind, extent } = access?;
        run.access(at, kind, extent);
    }
    Ok(run.outcomes(trial))
}

struct SampledRun {
    sample: ExtentSample,
    lru: LruSampler,
    caches: Vec<SizedCache>,
}

impl SampledRun {
    fn new(survey: &Survey, trial: &SampledTrial) -> Result<SampledRun, kickcache_engine::error::Error> {
        let sample = ExtentSample::new(survey.placement.volume_bytes(), trial.scale, trial.one_in);
        let volume_bytes = sample.volume_bytes().saturating_mul(trial.scale.0);
        let (fill, cutoff) = match trial.fill {
            Fill::Exact => (Fill::Exact, SequentialCutoff::Off),
            Fill::Adaptive { sequential_cutoff } => {
                (Fill::Adaptive { sequential_cutoff: SequentialCutoff::Off }, sequential_cutoff)
            }
        };
        let open = |cache_blocks: &u64| {
            let cache_blocks = cache_blocks / trial.one_in;
            let engine = InstantCache::open(
                volume_bytes,
                Trial { cache_blocks, scale: trial.scale, fill, write_budget: None },
            )?;
            Ok(SizedCache::new(engine, cache_blocks, scaled_cutoff(cutoff, trial.scale)))
        };
        Ok(SampledRun {
            sample,
            lru: LruSampler::new(LRU_SAMPLES),
            caches: trial.cache_blocks.iter().map(open).collect::<Result<_, _>>()?,
        })
    }

    fn access(&mut self, at: Instant, kind: Kind, extent: ByteExtent) {
        if kind == Kind::Flush {
            return self.caches.iter_mut().for_each(|cache| cache.flush(at));
        }
        if matches!(kind, Kind::Read | Kind::Write) {
            blocks(extent).for_each(|block| self.lru.count(block.get()));
        }
        for part in self.sample.parts(extent) {
            self.caches.iter_mut().for_each(|cache| cache.access(at, kind, part));
        }
    }

    fn outcomes(&self, trial: &SampledTrial) -> Vec<SampledOutcome> {
        let curve = self.lru.curve();
        let outcome = |(cache, blocks): (&SizedCache, &u64)| {
            let lru = curve.at(*blocks);
            let more = cache.advantage();
            let found = cache.outcome();
            let (hit_ratio, error) = match trial.one_in {
                1 => (1.0 - found.miss_ratio(), 0.0),
                _ => (lru.hit_ratio + more.ratio, (DEVIATIONS * more.deviation).hypot(lru.error)),
            };
            SampledOutcome {
                hit_ratio: hit_ratio.clamp(0.0, 1.0),
                error,
                lru_hit_ratio: lru.hit_ratio,
                lru_error: lru.error,
                written_per_byte: found.written_per_byte(),
                origin_read_per_byte: float(found.origin_read_bytes) / float(found.read_bytes.max(1)),
            }
        };
        self.caches.iter().zip(&trial.cache_blocks).map(outcome).collect()
    }
}

#[cfg(test)]
mod tests;
