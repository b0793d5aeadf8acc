//! Policies to measure against: they keep single blocks, without segments, headers or copies, so that what they need
//! not write and waste is an advantage that no log has.

pub mod lru;
pub mod s3_fifo;

use crate::trace_file::survey::{Survey, blocks};
use crate::trace_file::{TraceError, TraceFile};
use crate::workload::Kind;
use std::path::Path;

/// Keeps a number of blocks and chooses which.
pub trait Policy {
    /// A block is asked for; whether it was there. It is there afterwards.
    fn touch(&mut self, block: u64) -> bool;

    /// A block is no longer needed.
    fn discard(&mut self, block: u64);
}

/// Touches, and those that missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Misses {
    /// Blocks that were read and written.
    pub touched_blocks: u64,
    /// Those of them that were not there.
    pub missed_blocks: u64,
}

/// Runs a whole trace through a policy that holds nothing at first.
///
/// # Errors
/// If the trace cannot be read.
pub fn run(path: &Path, survey: &Survey, policy: &mut dyn Policy) -> Result<Misses, TraceError> {
    let mut misses = Misses::default();
    for record in TraceFile::open(path, Some(survey.format))? {
        let record = match record {
            Ok(record) => record,
            Err(TraceError::Line { .. }) => continue,
            Err(error) => return Err(error),
        };
        let Some(extent) = survey.placement.place(&record) else { continue };
        for block in blocks(extent) {
            match record.kind {
                Kind::Read | Kind::Write => {
                    misses.touched_blocks += 1;
                    misses.missed_blocks += u64::from(!policy.touch(block.get()));
                }
                Kind::Discard | Kind::WriteZeroes => policy.discard(block.get()),
                Kind::Flush => {}
            }
        }
    }
    Ok(misses)
}
