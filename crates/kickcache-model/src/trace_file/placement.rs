//! The accesses of a trace on the volume that its devices lie on.

use std::path::Path;

use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::ByteExtent;

use crate::trace_file::survey::Survey;
use crate::trace_file::{TraceError, TraceFile};
use crate::workload::Kind;

/// Time between two records of a trace without times.
const STEP: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacedAccess {
    /// Its time from the first record on; a trace without times has a record each millisecond.
    pub at: Instant,
    pub kind: Kind,
    pub extent: ByteExtent,
}

/// Bad lines, and records without a place on the volume, are left out.
///
/// # Errors
/// If the trace cannot be read.
pub fn accesses<'a>(
    path: &Path,
    survey: &'a Survey,
) -> Result<impl Iterator<Item = Result<PlacedAccess, TraceError>> + use<'a>, TraceError> {
    let (mut first, mut step) = (None, 0);
    let records = TraceFile::open(path, Some(survey.format))?;
    Ok(records.filter_map(move |record| {
        let record = match record {
            Ok(record) => record,
            Err(error) if error.is_local() => return None,
            Err(error) => return Some(Err(error)),
        };
        let since = match record.at {
            Some(at) => at.as_nanos().saturating_sub(first.get_or_insert(at).as_nanos()),
            None => step,
        };
        step += STEP.as_nanos();
        let extent = survey.placement.place(&record)?;
        Some(Ok(PlacedAccess { at: Instant::from_nanos(since), kind: record.kind, extent }))
    }))
}
