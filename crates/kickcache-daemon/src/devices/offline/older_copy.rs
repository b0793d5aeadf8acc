//! Whether a cache device that no daemon serves is an older copy.

use std::path::Path;

use crate::devices::offline::metadata::superblock;
use crate::devices::offline::offline_device::OfflineDevice;
use crate::devices::older_copy::{OlderCopy, older_copy};
use crate::serve::config::StatePlace;

/// Checks whether a cache device is older than its record. `None` also if the device cannot be read.
pub fn older_copy_at(path: &Path, state: &StatePlace) -> Option<OlderCopy> {
    let superblock = superblock(&OfflineDevice::open(path).ok()?).ok()?;
    older_copy(state, &superblock, path)
}
