//! The results for a trace.

use std::path::PathBuf;

use kickcache_model::reference_policy::{self, Misses};
use kickcache_model::trace_file::survey::Survey;
use kickcache_model::untimed::Outcome;

use crate::cli::simulate::cache_size::CacheSize;

/// A trace that was surveyed.
#[derive(Debug)]
pub(crate) struct SurveyedTrace {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) survey: Survey,
    /// The number of its first run, among all runs of the command.
    pub(crate) first_run: usize,
}

/// The results for one trace and one cache size.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) trace: usize,
    pub(crate) size: CacheSize,
    pub(crate) cache_blocks: u64,
    /// The misses of the policies, in the order of [`reference_policy::NAMES`].
    pub(crate) reference_policies: [Misses; reference_policy::NAMES.len()],
    pub(crate) exact: Outcome,
    pub(crate) adaptive: Outcome,
}

impl Finding {
    /// Bytes read from the origin with the adaptive window, divided by the bytes without that window.
    #[expect(clippy::cast_precision_loss, reason = "bytes of a trace are far below 2^53")]
    pub(crate) fn origin_factor(&self) -> f64 {
        self.adaptive.origin_read_bytes as f64 / self.exact.origin_read_bytes.max(1) as f64
    }
}
