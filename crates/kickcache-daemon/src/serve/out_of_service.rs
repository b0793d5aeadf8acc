//! How far the log has told of a cache device that is out of service.

use kickcache_engine::stats::Record;

/// What the log was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutOfService {
    /// Nothing.
    Untold,
    /// That it is, and that this is on record there.
    Told(Record),
}
