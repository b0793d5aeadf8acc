//! How a cache device grows in a run.

use kickcache_engine::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Growth {
    /// Probability in 1/1000 that a growth is scheduled when the clients begin to work.
    pub permille: u64,
    /// Longest time from the start of the clients' work to the growth.
    pub within: Duration,
    /// Each write or flush of its superblock takes less than this.
    pub step_max: Duration,
    /// The growth exceeds the smallest possible growth by less than this, in bytes.
    pub most: u64,
    /// Whether the new part of the device contains structures of its own, from a time when it was larger.
    pub is_stale: bool,
    /// Whether the next growth follows soon, until a run has 200 growths.
    pub is_repeated: bool,
}
