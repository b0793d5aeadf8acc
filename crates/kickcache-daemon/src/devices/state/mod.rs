//! The state directory: records of origins and cache devices.
//!
//! One file for each origin records the origin's last cache device, and whether that device may hold blocks
//! which the origin lacks. One file for each cache device records its last start and whether it is out of
//! service, and another one its recent writes. These files are JSON, replaced whole and synced.

mod file_identity;
mod file_stamp;
mod origin_lock;
mod owner;
mod record;
mod state_file;
mod store;
mod wear_record;

use std::path::PathBuf;

pub use self::file_identity::FileIdentity;
pub use self::file_stamp::FileStamp;
pub use self::origin_lock::OriginLock;
pub use self::record::{
    CacheRecord, CompleteCache, Completeness, NewestBlocks, OriginRecord, OutOfService, uuid_text,
};
pub use self::state_file::StateFile;
pub use self::store::{Origins, StateError, StateStore};
pub use self::wear_record::WearRecord;

/// The environment variable that names another state directory.
pub const STATE_VARIABLE: &str = "KICKCACHE_STATE";
const SYSTEM_STATE: &str = "/var/lib/kickcache";

/// The default state directory: `$KICKCACHE_STATE`, /var/lib/kickcache for root, or `$XDG_STATE_HOME/kickcache`, or
/// `~/.local/state/kickcache`. Variables that are not set to an absolute path are ignored; `None` if no place is
/// left.
pub fn default_directory() -> Option<PathBuf> {
    from_environment(STATE_VARIABLE).or_else(usual_directory)
}

/// The default state directory if `$KICKCACHE_STATE` is not set.
pub(crate) fn usual_directory() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(SYSTEM_STATE.into());
    }
    let home = || from_environment("HOME").map(|home| home.join(".local/state"));
    from_environment("XDG_STATE_HOME").or_else(home).map(|state| state.join("kickcache"))
}

fn from_environment(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests;
