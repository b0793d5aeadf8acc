//! The redo journal of a run in which all volumes are written back in cuts.

use kickcache_engine::time::Duration;

/// The redo journal of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PointInTime {
    pub journal_size: u64,
    pub cut_every: Duration,
    /// Steps after which the origins are examined without the cache device, in 1/10000.
    pub examined_permyriad: u64,
}

/// Probability in 1/1000 of plans of this kind.
pub(super) const PERMILLE: u64 = 30;
