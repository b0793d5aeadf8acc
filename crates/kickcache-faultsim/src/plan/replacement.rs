//! How a cache device is replaced in a run.

use kickcache_engine::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replacement {
    /// Probability in 1/1000 that a replacement is scheduled when the clients begin to work.
    pub permille: u64,
    /// Longest time from the start of the clients' work to the replacement.
    pub within: Duration,
    /// Longest time of one read, write or flush.
    pub step_max: Duration,
    /// The other device is larger by at most this many bytes.
    pub larger_max: u64,
}
