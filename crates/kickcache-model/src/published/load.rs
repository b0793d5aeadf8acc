//! The loads of the published runs.

use kickcache_engine::time::Instant;
use kickcache_engine::units::ByteExtent;

use crate::workload::{Access, JobShape, JobStep, Kind, Workload};
use crate::zipf::Zipf;

/// Accesses of a job in flight, in the table of hard disks.
const DEPTH: u32 = 8;
const THETA: f64 = 1.2;
const BLOCK: u64 = 4096;
/// Odd, so that its multiples visit every place of a power of two once.
const SCATTER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Random reads of 4 KiB, skewed by zipf 1.2, of jobs with a file each.
#[derive(Debug)]
pub struct ZipfReads {
    shapes: Vec<JobShape>,
    places: Vec<Zipf>,
    start: u64,
    file_bytes: u64,
    left: u64,
}

impl ZipfReads {
    /// `count` reads of `jobs` files that lie one behind the other from `start` on.
    pub fn new(jobs: usize, start: u64, file_bytes: u64, seed: u64, count: u64) -> ZipfReads {
        let shape = |job: usize| JobShape { name: format!("job {}", job + 1), depth: DEPTH };
        let place =
            |job: u64| Zipf::new(file_bytes / BLOCK, THETA, seed.wrapping_mul(1_000).wrapping_add(job));
        let places = (0..).map(place).take(jobs).collect();
        ZipfReads { shapes: (0..jobs).map(shape).collect(), places, start, file_bytes, left: count }
    }

    pub fn go_on(&mut self, count: u64) {
        self.left += count;
    }
}

impl Workload for ZipfReads {
    fn jobs(&self) -> &[JobShape] {
        &self.shapes
    }

    fn volume_bytes(&self) -> u64 {
        self.start + self.file_bytes * self.shapes.len() as u64
    }

    fn next(&mut self, job: usize, _: Instant) -> JobStep {
        let Some(left) = self.left.checked_sub(1) else { return JobStep::Finished };
        self.left = left;
        let place = self.places[job].next() * BLOCK;
        let start = self.start + job as u64 * self.file_bytes + place;
        JobStep::Access(Access { kind: Kind::Read, extent: ByteExtent { start, length: BLOCK } })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Order {
    Sequential,
    /// Scattered, each once.
    Scattered,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SweepShape {
    pub kind: Kind,
    pub order: Order,
    /// Bytes of an access, a power of two.
    pub block_bytes: u64,
    pub start: u64,
    /// Bytes of the stretch; a power of two if the order is scattered.
    pub bytes: u64,
    /// Jobs, which share the stretch.
    pub jobs: usize,
    pub depth: u32,
}

#[derive(Debug)]
pub struct Sweep {
    shape: SweepShape,
    shapes: Vec<JobShape>,
    done: u64,
}

impl Sweep {
    pub fn new(shape: SweepShape) -> Sweep {
        let job = |job: usize| JobShape { name: format!("job {}", job + 1), depth: shape.depth };
        Sweep { shape, shapes: (0..shape.jobs).map(job).collect(), done: 0 }
    }
}

impl Workload for Sweep {
    fn jobs(&self) -> &[JobShape] {
        &self.shapes
    }

    fn volume_bytes(&self) -> u64 {
        self.shape.start + self.shape.bytes
    }

    fn next(&mut self, _: usize, _: Instant) -> JobStep {
        let count = self.shape.bytes / self.shape.block_bytes;
        if self.done == count {
            return JobStep::Finished;
        }
        let place = match self.shape.order {
            Order::Sequential => self.done,
            Order::Scattered => self.done.wrapping_mul(SCATTER) % count,
        };
        self.done += 1;
        let start = self.shape.start + place * self.shape.block_bytes;
        JobStep::Access(Access {
            kind: self.shape.kind,
            extent: ByteExtent { start, length: self.shape.block_bytes },
        })
    }
}
