//! The progress of log messages about a cache device out of service.

use kickcache_engine::stats::Record;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutOfService {
    Untold,
    /// The log has that the device is out of service, and this state of the record; or it needs no
    /// message.
    Told(Record),
}
