//! Reference policies: they keep single blocks.

pub mod arc;
pub mod fifo;
pub mod lirs;
pub mod lru;
pub mod policy;
mod queues;
pub mod s3_fifo;
pub mod sieve;

use std::path::Path;

use crate::ratio::share;
use crate::reference_policy::arc::Arc;
use crate::reference_policy::fifo::Fifo;
use crate::reference_policy::lirs::Lirs;
use crate::reference_policy::lru::Lru;
use crate::reference_policy::policy::Policy;
use crate::reference_policy::s3_fifo::S3Fifo;
use crate::reference_policy::sieve::Sieve;
use crate::trace_file::TraceError;
use crate::trace_file::placement::{PlacedAccess, accesses};
use crate::trace_file::survey::{Survey, blocks};
use crate::workload::Kind;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Misses {
    pub touched_blocks: u64,
    pub missed_blocks: u64,
}

/// The names of the policies, in the order of [`all`].
pub const NAMES: [&str; 6] = ["FIFO", "LRU", "SIEVE", "ARC", "LIRS", "S3-FIFO"];

pub fn all(capacity: u64) -> [Box<dyn Policy>; NAMES.len()] {
    [
        Box::new(Fifo::new(capacity)),
        Box::new(Lru::new(capacity)),
        Box::new(Sieve::new(capacity)),
        Box::new(Arc::new(capacity)),
        Box::new(Lirs::new(capacity)),
        Box::new(S3Fifo::new(capacity)),
    ]
}

/// Runs a whole trace through a policy that is empty at first.
///
/// # Errors
/// If the trace cannot be read.
pub fn run(path: &Path, survey: &Survey, policy: &mut dyn Policy) -> Result<Misses, TraceError> {
    let mut misses = Misses::default();
    each(path, survey, |kind, block| misses.count(policy, kind, block))?;
    Ok(misses)
}

/// As [`run`], with every policy, in the order of [`NAMES`]; the trace is read once.
///
/// # Errors
/// If the trace cannot be read.
pub fn run_all(path: &Path, survey: &Survey, capacity: u64) -> Result<[Misses; NAMES.len()], TraceError> {
    let mut misses = [Misses::default(); NAMES.len()];
    let mut policies = all(capacity);
    each(path, survey, |kind, block| {
        let both = misses.iter_mut().zip(&mut policies);
        both.for_each(|(misses, policy)| misses.count(policy.as_mut(), kind, block));
    })?;
    Ok(misses)
}

impl Misses {
    pub fn miss_ratio(&self) -> f64 {
        share(self.missed_blocks, self.touched_blocks)
    }

    pub(crate) fn count(&mut self, policy: &mut dyn Policy, kind: Kind, block: u64) {
        match kind {
            Kind::Read | Kind::Write => {
                self.touched_blocks += 1;
                self.missed_blocks += u64::from(!policy.touch(block));
            }
            Kind::Discard | Kind::WriteZeroes => policy.discard(block),
            Kind::Flush => {}
        }
    }
}

fn each(path: &Path, survey: &Survey, mut touch: impl FnMut(Kind, u64)) -> Result<(), TraceError> {
    for access in accesses(path, survey)? {
        let PlacedAccess { kind, extent, .. } = access?;
        blocks(extent).for_each(|block| touch(kind, block.get()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
