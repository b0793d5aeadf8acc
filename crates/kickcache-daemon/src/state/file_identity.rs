//! What tells a file from another one that took its path.

use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

/// A file: no other one that was ever at its path has both of these. Numbers of file systems are left out, as they change when
/// the machine starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Its number in its file system.
    pub inode: u64,
    /// When it was made, in nanoseconds since 1970.
    pub born_ns: u64,
}

impl FileIdentity {
    /// The file that is an origin with this identity; `None` for block devices, and where the file system does not keep when a
    /// file was made.
    pub fn of_origin(identity: &str) -> Option<FileIdentity> {
        let found = std::fs::metadata(identity.strip_prefix("file:")?).ok()?;
        let born = found.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(FileIdentity { inode: found.ino(), born_ns: u64::try_from(born.as_nanos()).ok()? })
    }
}
