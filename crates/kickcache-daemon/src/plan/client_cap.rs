//! The caps of a volume's clients.

use kickcache_engine::rate::RateCap;
use kickcache_engine::time::Duration;

/// The caps that the clients of a volume share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientCap {
    pub rate: RateCap,
    /// Unused quota of this time can be used at once.
    pub burst: Duration,
}
