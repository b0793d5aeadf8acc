//! An open cache device.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use kickcache_engine::format::mark::ServiceMark;
use kickcache_engine::format::superblock::{Superblock, VolumeRecord};
use kickcache_engine::format::version::FORMAT_VERSION;
use kickcache_engine::units::VolumeId;

use crate::devices::cache_device::attach::{OriginFacts, attach};
use crate::devices::cache_device::marks::read_marks;
use crate::devices::cache_device::superblocks::{decode, read_copies, store_superblock};
use crate::driver::device::{AccessMode, BlockFile, Emptiness};
use crate::serve::error::ServeError;

pub struct CacheDevice {
    pub file: BlockFile,
    /// The content of the superblock; [`CacheDevice::store`] writes changes.
    pub superblock: Superblock,
    pub is_new: bool,
    /// The uuid of the cache that the device had before this process formatted it; `None` without such a
    /// cache or format.
    pub replaced: Option<[u8; 16]>,
    pub(super) is_changed: bool,
}

impl CacheDevice {
    pub(super) fn of(file: BlockFile, superblock: Superblock) -> CacheDevice {
        let is_changed = superblock.version < FORMAT_VERSION;
        CacheDevice { file, superblock, is_new: false, replaced: None, is_changed }
    }

    /// Whether the device is in service, by its marks.
    ///
    /// # Errors
    /// If a mark cannot be read, and the other one does not mean out of service.
    pub fn service(&self) -> Result<ServiceMark, ServeError> {
        read_marks(&self.file, &self.superblock)
    }

    /// Opens an existing cache device, without formatting.
    ///
    /// # Errors
    /// If it cannot be opened, is in use, or is no cache device.
    pub fn existing(path: &Path) -> Result<CacheDevice, ServeError> {
        let file = BlockFile::open(path, AccessMode::ReadWrite, Emptiness::Refused)?;
        let copies = read_copies(&file)?;
        let superblock =
            decode(&copies, &file).map_err(|source| ServeError::Engine { path: path.into(), source })?;
        Ok(CacheDevice::of(file, superblock))
    }

    /// The volume of an origin, added if the superblock does not have it.
    ///
    /// # Errors
    /// If the superblock records another size or origin that the user does not claim, the origin belongs to
    /// another volume, or the superblock can have no further volume.
    pub fn attach(&mut self, origin: OriginFacts<'_>) -> Result<VolumeId, ServeError> {
        let before = self.superblock.volumes.clone();
        let id = attach(&mut self.superblock, self.file.path(), origin)?;
        self.is_changed |= before != self.superblock.volumes;
        Ok(id)
    }

    pub(crate) fn set_volumes(&mut self, volumes: Vec<VolumeRecord>) {
        self.superblock.volumes = volumes;
        self.is_changed = true;
    }

    /// Stores the number of the coming start, durably: above the last number in this superblock and above
    /// `noted`. If the device accepts no writes, its number stays, and the start goes on.
    pub(crate) fn count_start(&mut self, noted: u64) {
        let mut counted = self.superblock.clone();
        counted.starts = counted.starts.max(noted) + 1;
        match store_superblock(&self.file, &mut counted) {
            Ok(()) => self.superblock = counted,
            Err(error) => tracing::warn!(
                event = "superblock_not_updated",
                "a start is counted, so that an older copy is noticed, but its number cannot be written: {error}"
            ),
        }
    }

    /// Writes the superblock if it was changed.
    ///
    /// # Errors
    /// If the device cannot be written.
    pub fn store(&mut self) -> Result<(), ServeError> {
        if !self.is_changed {
            return Ok(());
        }
        store_superblock(&self.file, &mut self.superblock)?;
        self.is_changed = false;
        Ok(())
    }
}

pub(crate) fn random_uuid() -> Result<[u8; 16], ServeError> {
    let mut uuid = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut uuid))
        .map_err(ServeError::system("read random bytes"))?;
    Ok(uuid)
}
