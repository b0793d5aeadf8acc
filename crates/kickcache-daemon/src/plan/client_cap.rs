//! What the clients of a volume may ask for.

use kickcache_engine::rate::RateCap;
use kickcache_engine::time::Duration;

/// What the clients of a volume may ask for together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientCap {
    /// In a second.
    pub rate: RateCap,
    /// What was not used for so long may be used at once.
    pub burst: Duration,
}
