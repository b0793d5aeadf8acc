//! Whether a cache device that nobody serves is an older copy.

use std::path::Path;

use crate::offline::metadata::superblock;
use crate::offline::offline_device::OfflineDevice;
use crate::serve::config::StatePlace;
use crate::serve::older_copy::{OlderCopy, older_copy};

/// Finds whether a cache device is older than what is noted of it. What cannot be read, or is in use, is refused by those
/// who open it.
pub fn older_copy_at(path: &Path, state: &StatePlace) -> Option<OlderCopy> {
    let superblock = superblock(&OfflineDevice::open(path).ok()?).ok()?;
    older_copy(state, &superblock, path)
}
