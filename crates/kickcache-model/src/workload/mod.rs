//! What clients do: jobs that ask for accesses one after the other, in virtual time.
//!
//! A bench calls [`Workload::next`] whenever a job has a free place in its queue, and never draws anything at random
//! itself: the workload's seed decides.

pub mod fio;
pub mod mix;
pub mod trace;

use kickcache_engine::time::Instant;
use kickcache_engine::units::ByteExtent;

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Reads the extent.
    Read,
    /// Writes the extent.
    Write,
    /// Makes what was written before durable; the extent is empty.
    Flush,
    /// Gives the extent's space back.
    Discard,
    /// Stores zeroes.
    WriteZeroes,
}

/// One access to the volume.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// What it does.
    pub kind: Kind,
    /// Where; within the first [`Workload::volume_bytes`] of the volume, in multiples of 512 bytes.
    pub extent: ByteExtent,
}

/// What one job does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Begins an access at once.
    Access(Access),
    /// Nothing before this time, which lies in the future; ask again then.
    WaitUntil(Instant),
    /// Nothing before another job has finished and its last access has ended; ask again then.
    WaitForJobs,
    /// Nothing any more. What is in flight still ends.
    Finished,
}

/// One job's name and how much it keeps in flight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobShape {
    /// Its name.
    pub name: String,
    /// Accesses in flight at most, from 1.
    pub depth: u32,
}

/// The jobs of a run.
pub trait Workload {
    /// The jobs; their number and order never change.
    fn jobs(&self) -> &[JobShape];

    /// Bytes of the smallest volume that all accesses fit on, a multiple of 4096.
    fn volume_bytes(&self) -> u64;

    /// Accesses that began before this point count for nothing (fio's `ramp_time`).
    fn measured_from(&self) -> Instant {
        Instant::ZERO
    }

    /// Says what a job does next; called when job `job` has a free place in its queue, with a time that never runs
    /// backwards.
    fn next(&mut self, job: usize, now: Instant) -> Next;
}
