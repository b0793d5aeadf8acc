//! The content of a cache device, as a daemon would find it.

use std::path::Path;

use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::stats::Status;
use kickcache_engine::units::{ByteExtent, VolumeId};

use crate::devices::offline::error::OfflineError;
use crate::devices::offline::metadata::Metadata;
use crate::devices::offline::offline_device::OfflineDevice;
use crate::extents::extents;

#[derive(Debug)]
pub struct Contents {
    pub device_size: u64,
    pub superblock: Superblock,
    /// The state that a daemon would start with.
    pub status: Status,
    /// The dirty extents of each volume, ascending.
    pub dirty: Vec<(VolumeId, Vec<ByteExtent>)>,
}

/// Reads a cache device.
///
/// # Errors
/// If it cannot be read, is in use, or is no cache device.
pub fn read(path: &Path) -> Result<Contents, OfflineError> {
    let metadata = Metadata::read(OfflineDevice::open(path)?)?;
    let engine = metadata.engine();
    let superblock = metadata.superblock().clone();
    let volumes = superblock.volumes.iter().map(|volume| volume.id);
    let dirty = volumes.map(|id| (id, extents(&engine.dirty_blocks(id)))).collect();
    Ok(Contents { device_size: metadata.source().size(), superblock, status: engine.status(), dirty })
}
