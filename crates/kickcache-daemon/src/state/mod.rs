//! The state directory: what must be known when a cache device is missing or cannot be read.
//!
//! One file an origin says which cache device it was served with, and whether that may hold blocks which the origin lacks.
//! One file a cache device says whether it is out of service. Files are JSON, replaced whole and synced.

mod record;
mod store;

use std::path::PathBuf;

pub use self::record::{CacheRecord, CompleteCache, OriginRecord, OutOfService, uuid_text};
pub use self::store::{Origins, StateError, StateStore};

/// Names another state directory.
pub const STATE_VARIABLE: &str = "KICKCACHE_STATE";
/// The state directory of a daemon that the system started.
const SYSTEM_STATE: &str = "/var/lib/kickcache";

/// The state directory when nobody names one: `$KICKCACHE_STATE`, /var/lib/kickcache for root, or
/// `$XDG_STATE_HOME/kickcache`, or `~/.local/state/kickcache`. `None` if there is no home.
pub fn default_directory() -> Option<PathBuf> {
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(named) = from(STATE_VARIABLE) {
        return Some(named);
    }
    if rustix::process::geteuid().is_root() {
        return Some(SYSTEM_STATE.into());
    }
    let home = || from("HOME").map(|home| home.join(".local/state"));
    from("XDG_STATE_HOME").or_else(home).map(|state| state.join("kickcache"))
}

#[cfg(test)]
mod tests;
