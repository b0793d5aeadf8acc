//! Skewed reads in steady state: the hit ratio of a trained cache, and the bytes that it still writes.
//!
//! Popularity is zipf 1.2 scattered over 1 GiB of data, as fio draws it; the first reads are only warm-up.
//! Devices take no time. The required figures are those of Open CAS with frequency admission on the same
//! protocol, measured for this project.

use kickcache_engine::config::SequentialCutoff;
use kickcache_engine::error::Error;
use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};

use crate::ratio::share;
use crate::reference_policy::lru::Lru;
use crate::reference_policy::policy::Policy;
use crate::reference_policy::s3_fifo::S3Fifo;
use crate::untimed::{Fill, InstantCache, Outcome, Scale, Trial};
use crate::workload::Kind;
use crate::zipf::Zipf;

const DATA_BLOCKS: u64 = (1 << 30) / BLOCK_SIZE;
const THETA: f64 = 1.2;
/// Reads of the warm-up, and as many that count.
pub const READS: u64 = 10_000_000;
const STEP: Duration = Duration::from_micros(20);

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SteadyRow {
    /// The cache has room for one block in this many.
    pub part: u64,
    /// Required hits, as a share of the reads.
    pub asked_hits: f64,
    /// The upper limit of blocks promoted for each read, if there is a requirement.
    pub asked_fills: Option<f64>,
}

pub const ROWS: [SteadyRow; 3] = [
    SteadyRow { part: 2, asked_hits: 0.984, asked_fills: None },
    SteadyRow { part: 8, asked_hits: 0.954, asked_fills: None },
    SteadyRow { part: 12, asked_hits: 0.944, asked_fills: Some(0.01) },
];

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Steady {
    /// Hits of the best choice that never changes.
    pub ideal: f64,
    /// Hits of LRU, which fills as often as it misses.
    pub lru: f64,
    pub s3_fifo: f64,
    pub hits: f64,
    /// Blocks that kickcache filled, for each read.
    pub fills: f64,
    /// Bytes that kickcache wrote to the cache device, for each byte read.
    pub written: f64,
}

impl SteadyRow {
    /// # Errors
    /// If the engine refuses the sizes.
    pub fn run(&self, seed: u64, reads: u64) -> Result<Steady, Error> {
        let cache_blocks = DATA_BLOCKS / self.part;
        let stream = || Zipf::new(DATA_BLOCKS, THETA, seed);
        let (before, after) = kickcache(cache_blocks, &mut stream(), reads)?;
        let counted = |of: fn(&Outcome) -> u64| of(&after) - of(&before);
        Ok(Steady {
            ideal: stream().best_static_hit_ratio(cache_blocks),
            lru: hits(&mut Lru::new(cache_blocks), &mut stream(), reads),
            s3_fifo: hits(&mut S3Fifo::new(cache_blocks), &mut stream(), reads),
            hits: 1.0 - share(counted(|outcome| outcome.missed_blocks), reads),
            fills: share(counted(|outcome| outcome.admitted_blocks), reads),
            written: share(counted(|outcome| outcome.cache_write_bytes), reads * BLOCK_SIZE),
        })
    }
}

fn kickcache(cache_blocks: u64, stream: &mut Zipf, reads: u64) -> Result<(Outcome, Outcome), Error> {
    let fill = Fill::Adaptive { sequential_cutoff: SequentialCutoff::Off };
    let trial = Trial { cache_blocks, scale: Scale(1), fill, write_budget: None };
    let mut cache = InstantCache::open(DATA_BLOCKS * BLOCK_SIZE, trial)?;
    let mut at = Duration::default();
    let mut read = |cache: &mut InstantCache| {
        at = Duration::from_nanos(at.as_nanos() + STEP.as_nanos());
        let extent = ByteExtent { start: stream.next() * BLOCK_SIZE, length: BLOCK_SIZE };
        cache.access(Instant::ZERO.plus(at), Kind::Read, extent);
    };
    (0..reads).for_each(|_| read(&mut cache));
    let before = cache.outcome();
    (0..reads).for_each(|_| read(&mut cache));
    Ok((before, cache.outcome()))
}

fn hits(policy: &mut dyn Policy, stream: &mut Zipf, reads: u64) -> f64 {
    (0..reads).for_each(|_| {
        policy.touch(stream.next());
    });
    let hits = (0..reads).filter(|_| policy.touch(stream.next())).count();
    share(hits as u64, reads)
}
