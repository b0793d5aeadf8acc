//! The cache device.

mod attach;
mod created_files;
mod device;
pub(crate) mod examination;
mod extend;
mod io;
pub(crate) mod marks;
mod overwrite;
mod stacked_devices;
pub(crate) mod successor;
mod superblocks;

use std::path::Path;

pub use self::attach::OriginFacts;
pub(crate) use self::attach::attach;
pub(crate) use self::created_files::CreatedFiles;
pub use self::device::CacheDevice;
pub(crate) use self::device::random_uuid;
pub use self::examination::DeviceRecords;
use self::examination::Examination;
pub(crate) use self::extend::{Extended, check_extension, extend};
pub use self::overwrite::Overwrite;
pub(crate) use self::superblocks::{carries_superblock, copies_by, store_superblock};
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;

impl CacheDevice {
    /// Opens a cache device for serving. A file that does not exist, or is empty or blank, is formatted; any
    /// other device never is.
    ///
    /// # Errors
    /// If it cannot be opened, is in use, is no cache device, or is a new file without a given size.
    pub fn open(path: &Path, size: Option<u64>) -> Result<CacheDevice, ServeError> {
        let mut made = CreatedFiles::default();
        let device = Examination::look(path, size, &StatePlace::NotKept)?.make(&mut made)?;
        made.keep();
        Ok(device)
    }

    /// Formats a device.
    ///
    /// # Errors
    /// If it cannot be opened, is in use, has no usable size, or holds data that may not be overwritten.
    pub fn format(path: &Path, size: Option<u64>, overwrite: Overwrite) -> Result<CacheDevice, ServeError> {
        let noted = DeviceRecords { state: &StatePlace::NotKept, incomplete: &|_| None };
        CacheDevice::format_noted(path, size, overwrite, noted)
    }

    /// Checks for obstacles, without a change. Returns the size that the device would have.
    ///
    /// # Errors
    /// As [`CacheDevice::format_noted`], as far as it can be checked in advance.
    pub fn check_format(
        path: &Path,
        size: Option<u64>,
        overwrite: Overwrite,
        noted: DeviceRecords<'_>,
    ) -> Result<u64, ServeError> {
        examination::check_format(path, size, overwrite, noted)
    }

    /// Formats a device that may be recorded as out of service.
    ///
    /// # Errors
    /// As [`CacheDevice::format`].
    pub fn format_noted(
        path: &Path,
        size: Option<u64>,
        overwrite: Overwrite,
        noted: DeviceRecords<'_>,
    ) -> Result<CacheDevice, ServeError> {
        let mut made = CreatedFiles::default();
        let device = examination::format(path, size, overwrite, noted, &mut made)?;
        made.keep();
        Ok(device)
    }
}

#[cfg(test)]
mod tests;
