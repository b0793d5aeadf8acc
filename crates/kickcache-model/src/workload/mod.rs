//! The work of clients: jobs that issue accesses one after the other, in virtual time.

pub mod fio;
pub mod mix;
pub mod trace;

use kickcache_engine::time::Instant;
use kickcache_engine::units::ByteExtent;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    Read,
    Write,
    /// Makes all earlier writes durable.
    Flush,
    /// Reports to the volume that the extent's data is no longer needed.
    Discard,
    WriteZeroes,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    pub kind: Kind,
    /// The accessed bytes, within the first [`Workload::volume_bytes`] of the volume, in multiples of 512 bytes.
    pub extent: ByteExtent,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobStep {
    Access(Access),
    /// No access before this time, which is in the future: call [`Workload::next`] again at this time.
    WaitUntil(Instant),
    /// No access until another job has finished and its last access has ended: call [`Workload::next`] again after that.
    WaitForJobs,
    /// No further accesses; accesses in flight still end.
    Finished,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobShape {
    pub name: String,
    /// Accesses in flight at most, from 1.
    pub depth: u32,
}

pub trait Workload {
    /// The jobs; their number and order never change.
    fn jobs(&self) -> &[JobShape];

    /// Bytes of a volume that all accesses fit on, a multiple of 4096.
    fn volume_bytes(&self) -> u64;

    /// Accesses that began before this point do not count (fio's `ramp_time`).
    fn measured_from(&self) -> Instant {
        Instant::ZERO
    }

    /// Returns the next step of a job; called when job `job` has a free place in its queue, with a time that
    /// never runs backwards.
    fn next(&mut self, job: usize, now: Instant) -> JobStep;
}
