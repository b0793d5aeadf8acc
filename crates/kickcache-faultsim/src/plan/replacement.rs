//! How a cache device is replaced in a run.

use kickcache_engine::time::Duration;

/// Replacement of the cache device while it is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replacement {
    /// Lives in which it is replaced, in 1/1000.
    pub permille: u64,
    /// Longest time into a life until it begins.
    pub within: Duration,
    /// How long each step may take: to read, write or flush.
    pub step_max: Duration,
    /// By this many bytes at most the other device is larger.
    pub larger_max: u64,
}
