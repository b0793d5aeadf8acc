//! The cache device: its superblock read, a new one formatted, volumes attached.

pub(crate) mod found;
mod made;
pub(crate) mod marks;
pub(crate) mod signature;

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use kickcache_engine::error::Error;
use kickcache_engine::format::mark::ServiceMark;
use kickcache_engine::format::superblock::{
    SUPERBLOCK_MAGIC, SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock,
};
use kickcache_engine::format::version::FORMAT_VERSION;
use kickcache_engine::units::{VolumeId, VolumeSet};

use crate::driver::device::{Access, BlockFile, Emptiness};
use crate::driver::memory::{Allocator, Chunk};
use crate::serve::cache_device::found::Found;
pub(crate) use crate::serve::cache_device::made::Made;
use crate::serve::config::{OriginGrowth, OriginMove};
use crate::serve::error::ServeError;

/// An open cache device with its superblock.
pub struct CacheDevice {
    /// The device.
    pub file: BlockFile,
    /// What its superblock says; [`CacheDevice::store`] writes changes.
    pub superblock: Superblock,
    /// Whether it was formatted just now.
    pub is_new: bool,
    /// The uuid of the cache that was there before it was formatted.
    pub replaced: Option<[u8; 16]>,
    is_changed: bool,
}

/// Whether the old content of a device may be overwritten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overwrite {
    /// The device must be blank.
    Refuse,
    /// Whatever is there is lost.
    Allow,
}

/// An origin, as it is compared with what the superblock knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OriginFacts<'a> {
    /// The volume's name.
    pub name: &'a str,
    /// Bytes.
    pub size: u64,
    /// What it is recognised by.
    pub identity: &'a str,
    /// Whether another identity is accepted.
    pub origin_move: OriginMove,
    /// Whether a larger size is accepted.
    pub origin_growth: OriginGrowth,
}

impl CacheDevice {
    /// Opens a cache device for serving. A file that does not exist, or is empty or blank, is formatted; nothing
    /// else ever is.
    ///
    /// # Errors
    /// If it cannot be opened, is in use, is no cache device, or is a new file and no size was given.
    pub fn open(path: &Path, size: Option<u64>) -> Result<CacheDevice, ServeError> {
        let mut made = Made::default();
        let device = Found::look(path, size)?.make(&mut made)?;
        made.keep();
        Ok(device)
    }

    fn of(file: BlockFile, superblock: Superblock) -> CacheDevice {
        let is_changed = superblock.version < FORMAT_VERSION;
        CacheDevice { file, superblock, is_new: false, replaced: None, is_changed }
    }

    /// Whether it is in service, as its marks say.
    pub fn service(&self) -> ServiceMark {
        marks::read_marks(&self.file, &self.superblock)
    }

    /// Opens a cache device that exists, formatting nothing.
    ///
    /// # Errors
    /// If it cannot be opened, is in use, or is no cache device.
    pub fn existing(path: &Path) -> Result<CacheDevice, ServeError> {
        let file = BlockFile::open(path, Access::ReadWrite, Emptiness::Refused)?;
        let copies = read_copies(&file)?;
        let superblock =
            decode(&copies, &file).map_err(|source| ServeError::Engine { path: path.into(), source })?;
        Ok(CacheDevice::of(file, superblock))
    }

    /// Formats a device.
    ///
    /// # Errors
    /// If it cannot be opened, is in use, has no usable size, or holds something that may not be overwritten.
    pub fn format(path: &Path, size: Option<u64>, overwrite: Overwrite) -> Result<CacheDevice, ServeError> {
        CacheDevice::format_noted(path, size, overwrite, &|_| None)
    }

    /// The same, where somebody may have noted that the device is out of service.
    ///
    /// # Errors
    /// As [`CacheDevice::format`].
    pub fn format_noted(
        path: &Path,
        size: Option<u64>,
        overwrite: Overwrite,
        noted: &dyn Fn(&Superblock) -> Option<VolumeSet>,
    ) -> Result<CacheDevice, ServeError> {
        let mut made = Made::default();
        let device = found::format(path, (size, overwrite), noted, &mut made)?;
        made.keep();
        Ok(device)
    }

    /// The volume of an origin, added if the superblock does not know it.
    ///
    /// # Errors
    /// If the volume is known with another size, or another origin that was not said to have moved, or the origin
    /// belongs to another volume.
    pub fn attach(&mut self, origin: OriginFacts<'_>) -> Result<VolumeId, ServeError> {
        let before = self.superblock.volumes.clone();
        let id = attach(&mut self.superblock, self.file.path(), origin)?;
        self.is_changed |= before != self.superblock.volumes;
        Ok(id)
    }

    /// Gives the start that is about to come its number: above that of the last one here, and of the last one that is noted
    /// elsewhere.
    pub(crate) fn count_start(&mut self, noted: u64) {
        self.superblock.starts = self.superblock.starts.max(noted) + 1;
        self.is_changed = true;
    }

    /// Writes the superblock if it was changed: over the older copy first, so that a power cut leaves one good copy.
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

/// The volume of an origin in a superblock, added if it is not known; `path` is the cache device's.
pub(crate) fn attach(
    superblock: &mut Superblock,
    path: &Path,
    origin: OriginFacts<'_>,
) -> Result<VolumeId, ServeError> {
    check_owner(superblock, origin)?;
    let refuse = |source| ServeError::Engine { path: path.into(), source };
    let Some(known) = superblock.volume(origin.name).cloned() else {
        return superblock.add_volume(origin.name, origin.size, origin.identity).map_err(refuse);
    };
    if is_grown(known.origin_size, origin)? {
        superblock.grow_volume(origin.name, origin.size).map_err(refuse)?;
    }
    if known.origin_identity != origin.identity {
        if origin.origin_move == OriginMove::Refuse {
            let what = format!(
                "its origin is {}, but the cache belongs to {}; give that one, or say --origin-moved if it is the same \
                 disk under a new name",
                origin.identity, known.origin_identity
            );
            return Err(ServeError::Volume { name: origin.name.into(), what });
        }
        let records = superblock.volumes.iter_mut();
        for record in records.filter(|record| record.id == known.id) {
            record.origin_identity = origin.identity.into();
        }
    }
    Ok(known.id)
}

/// Whether an origin was extended; one of another size is refused unless the user says that it was.
fn is_grown(known: u64, origin: OriginFacts<'_>) -> Result<bool, ServeError> {
    let is_larger = origin.size > known;
    if origin.size == known {
        return Ok(false);
    }
    if is_larger && origin.origin_growth == OriginGrowth::Accept {
        return Ok(true);
    }
    let hint = if is_larger { ", say --origin-grown if it was extended" } else { "" };
    let what = format!(
        "its origin has {} bytes, but had {known} when the cache was attached; give the right origin{hint}, or serve it \
         under a new name",
        origin.size
    );
    Err(ServeError::Volume { name: origin.name.into(), what })
}

fn check_owner(superblock: &Superblock, origin: OriginFacts<'_>) -> Result<(), ServeError> {
    let is_other = |name: &str, identity: &str| identity == origin.identity && name != origin.name;
    let other = superblock.volumes.iter().find(|volume| is_other(&volume.name, &volume.origin_identity));
    let Some(other) = other else { return Ok(()) };
    let what = format!(
        "its origin {} belongs to the volume {} of this cache device; serve it under that name",
        origin.identity, other.name
    );
    Err(ServeError::Volume { name: origin.name.into(), what })
}

/// Writes both copies of a superblock with a new epoch: over the older copy first, so that a power cut leaves one good
/// copy.
pub(crate) fn store_superblock(file: &BlockFile, superblock: &mut Superblock) -> Result<(), ServeError> {
    marks::upgrade(file, superblock)?;
    let copies = read_copies(file)?;
    let epoch = |copy: usize| {
        let twice = [&copies[copy], &copies[copy]];
        Superblock::decode(twice.map(Vec::as_slice), file.size()).map_or(0, |found| found.epoch)
    };
    let epochs = [epoch(0), epoch(1)];
    let order = if epochs[0] <= epochs[1] { [0, 1] } else { [1, 0] };
    superblock.epoch = epochs[0].max(epochs[1]) + 1;
    let bytes = superblock.encode();
    for copy in order {
        write(file, SUPERBLOCK_OFFSETS[copy], &bytes)
            .and_then(|()| file.file().sync_data())
            .map_err(|source| cache_io(file.path(), "write the superblock", source))?;
    }
    Ok(())
}

fn decode(copies: &[Vec<u8>; 2], file: &BlockFile) -> Result<Superblock, Error> {
    Superblock::decode([&copies[0], &copies[1]], file.size())
}

/// Whether a device carries a superblock of ours, of any version, whole or damaged.
pub(crate) fn carries_superblock(file: &BlockFile) -> Result<bool, ServeError> {
    Ok(read_copies(file)?.iter().any(|copy| copy.starts_with(&SUPERBLOCK_MAGIC)))
}

/// The bytes where the copies are; short at the end of a small device.
fn read_copies(file: &BlockFile) -> Result<[Vec<u8>; 2], ServeError> {
    let read = |offset| {
        read(file, offset, SUPERBLOCK_SIZE)
            .map_err(|source| cache_io(file.path(), "read the superblock", source))
    };
    Ok([read(SUPERBLOCK_OFFSETS[0])?, read(SUPERBLOCK_OFFSETS[1])?])
}

fn read(file: &BlockFile, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    with_memory(length, |chunk| {
        let mut filled = 0;
        while filled < length {
            let position = offset + u64::try_from(filled).expect("usize has at most 64 bits");
            match file.file().read_at(&mut chunk.bytes_mut(length)[filled..], position) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Direct reads from an odd place at the end of a file.
                Err(error) if filled > 0 && error.raw_os_error() == Some(libc::EINVAL) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(chunk.bytes_mut(length)[..filled].to_vec())
    })
}

fn write(file: &BlockFile, offset: u64, bytes: &[u8]) -> io::Result<()> {
    with_memory(bytes.len(), |chunk| {
        chunk.bytes_mut(bytes.len()).copy_from_slice(bytes);
        file.file().write_all_at(chunk.bytes_mut(bytes.len()), offset)
    })
}

fn with_memory<T>(length: usize, work: impl FnOnce(&mut Chunk) -> io::Result<T>) -> io::Result<T> {
    let mut allocator = Allocator::default();
    let mut chunk = allocator.allocate(length)?;
    let result = work(&mut chunk);
    allocator.release(chunk);
    result
}

fn cache_io(path: &Path, action: &'static str, source: io::Error) -> ServeError {
    ServeError::CacheIo { path: path.into(), action, source }
}

#[cfg(test)]
mod tests;
