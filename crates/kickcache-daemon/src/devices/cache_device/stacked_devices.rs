//! Devices on top of a file that is to be a cache device.

use std::path::Path;

use crate::devices::cache_device::io::cache_io;
use crate::driver::device::BlockFile;
use crate::driver::device::sysfs::{BLOCK_DEVICES, loop_device_on};
use crate::serve::error::ServeError;

/// Refuses a file below a loop device, even if its data may be lost: a file system on the loop device may be
/// mounted.
pub(super) fn check_nothing_above(file: &BlockFile) -> Result<(), ServeError> {
    let metadata = file.file().metadata().map_err(|source| cache_io(file.path(), "look at", source))?;
    match loop_device_on(&metadata, Path::new(BLOCK_DEVICES)).filter(|_| metadata.is_file()) {
        None => Ok(()),
        Some(above) => {
            let what = format!(
                "the device /dev/{above} is on top of it; detach that first (losetup -d /dev/{above}), or choose another device"
            );
            Err(ServeError::Cache { path: file.path().into(), what })
        }
    }
}
