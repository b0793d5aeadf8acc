//! Reads and writes of one size at random places: the load of a volume when only its counters are known.

use kickcache_engine::time::Instant;
use kickcache_engine::units::ByteExtent;
use kickcache_random::Random;

use crate::workload::{Access, JobShape, JobStep, Kind, Workload};

/// The properties of the accesses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MixShape {
    /// Bytes of the volume, at least the size of an access.
    pub volume_bytes: u64,
    /// Bytes of an access.
    pub bytes: u64,
    /// The part of the accesses that write.
    pub write_share: f64,
    /// Accesses in flight.
    pub depth: u32,
}

/// An endless stream of accesses.
#[derive(Debug)]
pub struct Mix {
    shape: MixShape,
    jobs: [JobShape; 1],
    random: Random,
}

impl Mix {
    /// The accesses that a seed decides.
    pub fn new(shape: MixShape, seed: u64) -> Mix {
        let jobs = [JobShape { name: "clients".into(), depth: shape.depth }];
        Mix { shape, jobs, random: Random::new(seed) }
    }
}

impl Workload for Mix {
    fn jobs(&self) -> &[JobShape] {
        &self.jobs
    }

    fn volume_bytes(&self) -> u64 {
        self.shape.volume_bytes
    }

    fn next(&mut self, _: usize, _: Instant) -> JobStep {
        let MixShape { volume_bytes, bytes, write_share, .. } = self.shape;
        let kind = if self.random.unit() < write_share { Kind::Write } else { Kind::Read };
        let start = self.random.below((volume_bytes / bytes).max(1)) * bytes;
        JobStep::Access(Access { kind, extent: ByteExtent { start, length: bytes } })
    }
}
