//! The cache device: its superblock read, a new one formatted, volumes attached.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use kickcache_engine::error::Error;
use kickcache_engine::format::geometry::SUPERBLOCK_AREA;
use kickcache_engine::format::superblock::{SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock};
use kickcache_engine::units::VolumeId;

use crate::driver::device::{Access, BlockFile, Emptiness, Kind};
use crate::driver::memory::{Allocator, Chunk};
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
        create(path, size)?;
        let file = BlockFile::open(path, Access::ReadWrite, Emptiness::Refused)?;
        let copies = read_copies(&file)?;
        match decode(&copies, &file) {
            Ok(superblock) => Ok(CacheDevice { file, superblock, is_new: false, is_changed: false }),
            Err(Error::NoSuperblock { .. }) if file.kind() == Kind::File && is_blank(&file)? => {
                format_open(file)
            }
            Err(Error::NoSuperblock { found }) if file.kind() == Kind::Block && is_blank(&file)? => {
                let what = format!(
                    "this block device is blank ({found}); format it first: kickcache format {}",
                    path.display()
                );
                Err(ServeError::Cache { path: path.into(), what })
            }
            Err(source) => Err(ServeError::Engine { path: path.into(), source }),
        }
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
        Ok(CacheDevice { file, superblock, is_new: false, is_changed: false })
    }

    /// Formats a device.
    ///
    /// # Errors
    /// If it cannot be opened, is in use, has no usable size, or holds something that may not be overwritten.
    pub fn format(path: &Path, size: Option<u64>, overwrite: Overwrite) -> Result<CacheDevice, ServeError> {
        create(path, size)?;
        let file = BlockFile::open(path, Access::ReadWrite, Emptiness::Refused)?;
        if overwrite == Overwrite::Refuse && !is_blank(&file)? {
            let found = match decode(&read_copies(&file)?, &file) {
                Ok(_) => "it is a kickcache cache device already",
                Err(_) => "it holds data: its first or last MiB is not all zeroes",
            };
            let what =
                format!("{found}; choose another one, or force the format, which destroys what is there");
            return Err(ServeError::Cache { path: path.into(), what });
        }
        format_open(file)
    }

    /// The volume of an origin, added if the superblock does not know it.
    ///
    /// # Errors
    /// If the volume is known with another size, or another origin that was not said to have moved, or the origin
    /// belongs to another volume.
    pub fn attach(&mut self, origin: OriginFacts<'_>) -> Result<VolumeId, ServeError> {
        self.check_owner(origin)?;
        let Some(position) = self.superblock.volumes.iter().position(|volume| volume.name == origin.name)
        else {
            self.is_changed = true;
            let added = self.superblock.add_volume(origin.name, origin.size, origin.identity);
            let path = self.file.path().into();
            return added.map_err(|source| ServeError::Engine { path, source });
        };
        self.follow_size(position, origin)?;
        let record = &mut self.superblock.volumes[position];
        if record.origin_identity != origin.identity {
            if origin.origin_move == OriginMove::Refuse {
                let what = format!(
                    "its origin is {}, but the cache belongs to {}; give that one, or say --origin-moved if it is \
                     the same disk under a new name",
                    origin.identity, record.origin_identity
                );
                return Err(ServeError::Volume { name: origin.name.into(), what });
            }
            record.origin_identity = origin.identity.into();
            self.is_changed = true;
        }
        Ok(self.superblock.volumes[position].id)
    }

    /// Refuses an origin of another size, unless it was extended and the user says so.
    fn follow_size(&mut self, position: usize, origin: OriginFacts<'_>) -> Result<(), ServeError> {
        let known = self.superblock.volumes[position].origin_size;
        let is_larger = origin.size > known;
        if origin.size == known {
            return Ok(());
        }
        if is_larger && origin.origin_growth == OriginGrowth::Accept {
            self.is_changed = true;
            let grown = self.superblock.grow_volume(origin.name, origin.size);
            return grown.map_err(|source| ServeError::Engine { path: self.file.path().into(), source });
        }
        let hint = if is_larger { ", say --origin-grown if it was extended" } else { "" };
        let what = format!(
            "its origin has {} bytes, but had {known} when the cache was attached; give the right origin{hint}, or \
             serve it under a new name",
            origin.size
        );
        Err(ServeError::Volume { name: origin.name.into(), what })
    }

    fn check_owner(&self, origin: OriginFacts<'_>) -> Result<(), ServeError> {
        let other = self
            .superblock
            .volumes
            .iter()
            .find(|volume| volume.origin_identity == origin.identity && volume.name != origin.name);
        let Some(other) = other else { return Ok(()) };
        let what = format!(
            "its origin {} belongs to the volume {} of this cache device; serve it under that name",
            origin.identity, other.name
        );
        Err(ServeError::Volume { name: origin.name.into(), what })
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

/// Writes both copies of a superblock with a new epoch: over the older copy first, so that a power cut leaves one good
/// copy.
pub(crate) fn store_superblock(file: &BlockFile, superblock: &mut Superblock) -> Result<(), ServeError> {
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

/// Makes a cache file of the wanted size if there is none, or an empty one.
fn create(path: &Path, size: Option<u64>) -> Result<(), ServeError> {
    let length = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Some(metadata.len()),
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(cache_io(path, "look at the cache device", source)),
    };
    if length.is_some_and(|length| length > 0) {
        return Ok(());
    }
    let Some(size) = size else {
        let found = if length.is_none() { "it does not exist" } else { "it is an empty file" };
        let what = format!("{found}; say how large the cache file shall be (--size), or give another path");
        return Err(ServeError::Cache { path: path.into(), what });
    };
    // Sizes that the engine refuses are refused before anything is made.
    Superblock::new([0; 16], size).map_err(|source| ServeError::Engine { path: path.into(), source })?;
    let made = extend(path, size);
    if made.is_err() && length.is_none() {
        let _ = std::fs::remove_file(path);
    }
    made.map_err(|source| cache_io(path, "make a cache file of the wanted size", source))
}

fn extend(path: &Path, size: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    if file.metadata()?.len() > 0 {
        return Ok(());
    }
    let allocated = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size);
    match allocated {
        Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(size),
        Err(error) => {
            file.set_len(0)?;
            Err(error.into())
        }
        Ok(()) => Ok(()),
    }
}

fn format_open(file: BlockFile) -> Result<CacheDevice, ServeError> {
    let path: PathBuf = file.path().into();
    let mut uuid = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut uuid))
        .map_err(ServeError::system("read random bytes"))?;
    let superblock = Superblock::new(uuid, file.size())
        .map_err(|source| ServeError::Engine { path: path.clone(), source })?;
    let mut device = CacheDevice { file, superblock, is_new: true, is_changed: true };
    device.store()?;
    tracing::info!("{} was formatted as a cache device of {} bytes", path.display(), device.file.size());
    Ok(device)
}

fn decode(copies: &[Vec<u8>; 2], file: &BlockFile) -> Result<Superblock, Error> {
    Superblock::decode([&copies[0], &copies[1]], file.size())
}

/// The bytes where the copies are; short at the end of a small device.
fn read_copies(file: &BlockFile) -> Result<[Vec<u8>; 2], ServeError> {
    let read = |offset| {
        read(file, offset, SUPERBLOCK_SIZE)
            .map_err(|source| cache_io(file.path(), "read the superblock", source))
    };
    Ok([read(SUPERBLOCK_OFFSETS[0])?, read(SUPERBLOCK_OFFSETS[1])?])
}

/// Whether a device holds nothing: a file nowhere, a block device in its first and its last MiB, where signatures of
/// others are.
fn is_blank(file: &BlockFile) -> Result<bool, ServeError> {
    let area = usize::try_from(SUPERBLOCK_AREA).expect("1 MiB");
    let mut next = Some(0);
    while let Some(offset) = next {
        let bytes = read(file, offset, area + 4096)
            .map_err(|source| cache_io(file.path(), "look for old data", source))?;
        if bytes.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        next = next_to_look_at(file, offset + SUPERBLOCK_AREA);
    }
    Ok(true)
}

/// Where data may stand from `offset` on; holes of a file are left out.
fn next_to_look_at(file: &BlockFile, offset: u64) -> Option<u64> {
    let last = file.size().saturating_sub(SUPERBLOCK_AREA) / 4096 * 4096;
    if file.kind() == Kind::Block {
        return (offset <= last).then_some(last);
    }
    if offset >= file.size() {
        return None;
    }
    match rustix::fs::seek(file.file(), rustix::fs::SeekFrom::Data(offset)) {
        Ok(data) => Some(data / 4096 * 4096),
        Err(rustix::io::Errno::NXIO) => None,
        Err(_) => Some(offset),
    }
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
