//! Checks before a cache device is created.

use std::path::Path;

use anyhow::Context;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::VolumeSet;

use crate::devices::cache_device::{CacheDevice, DeviceRecords, Overwrite};
use crate::devices::device_opening::noted;
use crate::devices::known_origin::check_no_origin;
use crate::devices::offline::foreign_device::refuse_dirty;
use crate::devices::offline::older_copy::older_copy_at;
use crate::devices::offline::out_of_service::out_of_service;
use crate::devices::state::uuid_text;
use crate::driver::rights::access;
use crate::serve::config::StatePlace;

/// A file or block device that is to become a cache device.
#[derive(Clone, Copy)]
pub struct FormatCheck<'a> {
    pub path: &'a Path,
    /// Bytes of a file that does not exist yet or is empty.
    pub size: Option<u64>,
    pub overwrite: Overwrite,
    pub state: &'a StatePlace,
}

impl FormatCheck<'_> {
    /// Checks for obstacles without changing the device. Returns the size that the cache device would have.
    ///
    /// # Errors
    /// If the path holds data that may be needed, or cannot become a cache device.
    pub(crate) fn check(&self) -> anyhow::Result<u64> {
        self.check_contents()?;
        let incomplete = |old: &Superblock| noted_incomplete(self.state, old);
        let noted = DeviceRecords { state: self.state, incomplete: &incomplete };
        Ok(CacheDevice::check_format(self.path, self.size, self.overwrite, noted)?)
    }

    /// Makes the path a cache device.
    ///
    /// # Errors
    /// As [`FormatCheck::check`], or the write fails.
    pub fn format(&self) -> anyhow::Result<CacheDevice> {
        self.check_contents()?;
        let is_copy = older_copy_at(self.path, self.state).is_some();
        let incomplete = |old: &Superblock| noted_incomplete(self.state, old);
        let noted = DeviceRecords { state: self.state, incomplete: &incomplete };
        let made = CacheDevice::format_noted(self.path, self.size, self.overwrite, noted)?;
        // The record of the newer device stays when its older copy is formatted.
        let replaced = made.replaced.filter(|_| !is_copy);
        if let (Some(store), Some(old)) = (self.state.store(), replaced) {
            let forgotten = store.forget_cache(&uuid_text(old));
            forgotten.context(
                "the cache device was formatted, but its record in the state directory is still the old one",
            )?;
        }
        Ok(made)
    }

    /// Refuses to overwrite data that may be needed, unless the user accepts the loss.
    ///
    /// # Errors
    /// If there is such data.
    pub(crate) fn check_contents(&self) -> anyhow::Result<()> {
        if self.overwrite == Overwrite::Allow {
            return Ok(());
        }
        check_no_origin(self.state, self.path)?;
        let is_used = out_of_service(self.path, self.state, &[])?.is_none();
        if is_used && access::exists(self.path) {
            refuse_dirty(self.path, self.state)?;
        }
        Ok(())
    }
}

/// The volumes that may need a cache device recorded as out of service; if the record is unreadable, all
/// volumes.
fn noted_incomplete(state: &StatePlace, superblock: &Superblock) -> Option<VolumeSet> {
    let all = || superblock.volumes.iter().map(|record| record.id).collect();
    noted(state, superblock).map_or_else(|_| Some(all()), |noted| noted.incomplete)
}
