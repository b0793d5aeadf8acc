//! The progress of log messages about a cache device out of service.

use kickcache_engine::stats::Record;

/// The messages logged so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutOfService {
    /// None.
    Untold,
    /// That the device is out of service, and where that is recorded.
    Told(Record),
}
