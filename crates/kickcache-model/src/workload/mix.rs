//! Reads and writes of one size at random places.

use kickcache_engine::time::Instant;
use kickcache_engine::units::ByteExtent;
use kickcache_random::Random;

use crate::workload::{Access, JobShape, JobStep, Kind, Workload};

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MixShape {
    /// Bytes of the volume, at least the size of an access.
    pub volume_bytes: u64,
    pub bytes: u64,
    pub write_share: f64,
    pub depth: u32,
}

#[derive(Debug)]
pub struct Mix {
    shape: MixShape,
    jobs: [JobShape; 1],
    random: Random,
}

impl Mix {
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
