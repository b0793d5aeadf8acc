//! A device that is to take over from a cache device.

use std::io;
use std::path::Path;

use kickcache_engine::format::mark::ServiceMark;
use kickcache_engine::format::superblock::{SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock};
use kickcache_engine::format::takeover::{OTHER_PATH_MAX, OtherDevice, Takeover};
use kickcache_engine::units::ByteExtent;

use crate::devices::cache_device::device::random_uuid;
use crate::devices::cache_device::examination::check_format;
use crate::devices::cache_device::io::{cache_io, read, write};
use crate::devices::cache_device::marks::write_marks;
use crate::devices::cache_device::{CacheDevice, DeviceRecords, Overwrite, store_superblock};
use crate::devices::known_origin::check_no_origin;
use crate::devices::missed_device::any_superblock_at;
use crate::driver::device::{AccessMode, BlockFile, Emptiness, check_different};
use crate::driver::rights::access;
use crate::driver::rights::trusted_path::Identity;
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;
use crate::whole_path::whole_path;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SuccessorSpec {
    pub path: std::path::PathBuf,
    /// The size in bytes of a file to be made, by default the size of the present cache device.
    pub size: Option<u64>,
    pub overwrite: Overwrite,
}

pub(crate) struct Successor {
    pub(crate) file: BlockFile,
    /// The uuid and the user's path of the device, for other records.
    pub(crate) called: OtherDevice,
}

impl Successor {
    /// Prepares a device as a successor, and marks it as incomplete.
    pub(crate) fn prepare(
        spec: &SuccessorSpec,
        old: &BlockFile,
        superblock: &Superblock,
        state: &StatePlace,
    ) -> Result<Successor, ServeError> {
        let old_path = utf8(old.path())?;
        let noted = DeviceRecords { state, incomplete: &|_| None };
        let file = match spec.look(superblock, state)? {
            Candidate::Its(file) => *file,
            Candidate::ToFormat { size } => {
                CacheDevice::format_noted(&spec.path, size, spec.overwrite, noted)?.file
            }
        };
        check_different(old, &file)?;
        let path = utf8(&whole_path(&spec.path))?;
        check_size(file.path(), file.size(), superblock)?;
        let uuid = random_uuid()?;
        let takeover = Takeover::Incomplete(OtherDevice { uuid, path: old_path });
        mark_incomplete(&file, &superblock.with_takeover(takeover))
            .map_err(|source| cache_io(file.path(), "write the superblock", source))?;
        write_marks(&file, ServiceMark::InService, superblock.uuid)?;
        Ok(Successor { file, called: OtherDevice { uuid, path } })
    }
}

enum Candidate {
    /// The device was already prepared as the successor of this cache device.
    Its(Box<BlockFile>),
    /// The device is to be formatted; a missing file is made with this size.
    ToFormat { size: Option<u64> },
}

impl SuccessorSpec {
    pub(crate) fn check(
        &self,
        old: &BlockFile,
        superblock: &Superblock,
        state: &StatePlace,
    ) -> Result<(), ServeError> {
        utf8(old.path())?;
        utf8(&whole_path(&self.path))?;
        let noted = DeviceRecords { state, incomplete: &|_| None };
        let size = match self.look(superblock, state)? {
            Candidate::Its(file) => {
                check_different(old, &file)?;
                file.size()
            }
            Candidate::ToFormat { size } => check_format(&self.path, size, self.overwrite, noted)?,
        };
        check_size(&self.path, size, superblock)
    }

    fn look(&self, superblock: &Superblock, state: &StatePlace) -> Result<Candidate, ServeError> {
        let used = superblock.geometry.device_size;
        let wanted = self.size.unwrap_or(used);
        check_size(&self.path, wanted, superblock)?;
        if any_superblock_at(&self.path).is_some_and(|found| is_its_own(&found, superblock)) {
            let file = BlockFile::open(&self.path, AccessMode::ReadWrite, Emptiness::Refused)?;
            return Ok(Candidate::Its(Box::new(file)));
        }
        check_apart(&self.path, used)?;
        if self.overwrite == Overwrite::Refuse {
            check_no_origin(state, &self.path)?;
        }
        let is_there = access::metadata(&self.path).is_ok_and(|found| found.len() > 0 || !found.is_file());
        Ok(Candidate::ToFormat { size: if is_there { self.size } else { Some(wanted) } })
    }
}

fn check_size(path: &Path, size: u64, superblock: &Superblock) -> Result<(), ServeError> {
    let used = superblock.geometry.device_size;
    if size < used {
        return Err(ServeError::Cache { path: path.into(), what: too_small(size, used) });
    }
    Ok(())
}

/// Whether a device is an incomplete successor of this cache device.
fn is_its_own(found: &Superblock, superblock: &Superblock) -> bool {
    found.uuid == superblock.uuid && matches!(found.takeover, Takeover::Incomplete(_))
}

/// Refuses a device that is too small, before it is emptied.
fn check_apart(path: &Path, size: u64) -> Result<(), ServeError> {
    let Ok(found) = access::metadata(path) else { return Ok(()) };
    if found.is_file() && (1..size).contains(&found.len()) {
        return Err(ServeError::Cache { path: path.into(), what: too_small(found.len(), size) });
    }
    if found.is_file() {
        return Ok(());
    }
    let file = BlockFile::open(path, AccessMode::ReadWrite, Emptiness::Refused)?;
    if file.size() < size {
        return Err(ServeError::Cache { path: path.into(), what: too_small(file.size(), size) });
    }
    Ok(())
}

fn too_small(found: u64, size: u64) -> String {
    format!(
        "it has {found} bytes, and the cache device to be replaced uses {size}; give one with at least \
         this size, or use `kickcache leave-out` and then `kickcache replace`: the smaller one begins empty"
    )
}

fn utf8(path: &Path) -> Result<String, ServeError> {
    let text = path.to_str().filter(|text| text.len() <= OTHER_PATH_MAX);
    let what = "its path is not UTF-8, or has more than 4000 bytes; give one that fits a superblock";
    text.map(Into::into).ok_or_else(|| ServeError::Cache { path: path.into(), what: what.into() })
}

/// Writes both copies of the superblock over any content; until the first copy is whole, the device is no
/// cache device.
fn mark_incomplete(file: &BlockFile, superblock: &Superblock) -> io::Result<()> {
    let zeroes = vec![0; SUPERBLOCK_SIZE];
    for bytes in [zeroes, superblock.encode()] {
        SUPERBLOCK_OFFSETS.into_iter().try_for_each(|offset| write(file, offset, &bytes))?;
        file.file().sync_data()?;
    }
    Ok(())
}

pub(crate) fn read_part(old: &BlockFile, part: ByteExtent) -> Result<Vec<u8>, ServeError> {
    let length = usize::try_from(part.length).expect("a part fits into memory");
    let bytes = read(old, part.start, length).and_then(|bytes| match bytes.len() == length {
        true => Ok(bytes),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    });
    bytes.map_err(|source| cache_io(old.path(), "read a part to be copied of", source))
}

pub(crate) fn write_part(new: &BlockFile, part: ByteExtent, bytes: &[u8]) -> Result<(), ServeError> {
    write(new, part.start, bytes).map_err(|source| cache_io(new.path(), "copy to", source))
}

pub(crate) fn flush(file: &BlockFile) -> Result<(), ServeError> {
    file.file().sync_data().map_err(|source| cache_io(file.path(), "flush", source))
}

/// Refuses a device that was cut short, or is no longer found both at its path and at its recorded name.
pub(crate) fn check_place(new: &BlockFile, called: &Path) -> Result<(), ServeError> {
    let refuse = |path: &Path, what: &str| {
        let what = format!("{what} during the copy, and it does not take over; replace it again");
        ServeError::Cache { path: path.into(), what }
    };
    let look = |source| cache_io(new.path(), "look at", source);
    let opened = new.file().metadata().map_err(look)?;
    if new.size_today().map_err(look)? < new.size() {
        return Err(refuse(new.path(), "it was cut short"));
    }
    for path in [new.path(), called] {
        match access::metadata(path) {
            Ok(found) if Identity::of(&found) == Identity::of(&opened) => {}
            Ok(_) => return Err(refuse(path, "another file is now at this path")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(refuse(path, "it was removed from this path"));
            }
            Err(source) => return Err(cache_io(path, "look at", source)),
        }
    }
    Ok(())
}

/// Marks the old device as replaced, durably; then the new one as the cache. `superblock` is the old one's.
pub(crate) fn note_replaced(
    old: &BlockFile,
    new: &BlockFile,
    superblock: &Superblock,
    by: OtherDevice,
) -> Result<Superblock, ServeError> {
    store_superblock(old, &mut superblock.with_takeover(Takeover::Replaced(by)))?;
    let mut complete = superblock.succeeded();
    store_superblock(new, &mut complete)?;
    Ok(complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_takes_over_only_if_both_names_are_complete() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let (path, link) = (folder.path().join("new"), folder.path().join("link"));
        std::fs::write(&path, vec![0; 8192]).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let new = BlockFile::open(&link, AccessMode::ReadWrite, Emptiness::Refused).unwrap();
        let refused = || check_place(&new, &link).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(refused(), "");
        new.file().set_len(4096).unwrap();
        assert!(refused().contains("it was cut short during the copy"), "{}", refused());
        new.file().set_len(8192).unwrap();
        std::fs::remove_file(&link).unwrap();
        assert!(refused().contains("link: it was removed from this path"), "{}", refused());
        std::fs::write(&link, vec![0; 8192]).unwrap();
        assert!(refused().contains("another file is now at this path"), "{}", refused());
    }

    #[test]
    fn the_new_device_is_complete_after_the_replacement() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let paths = ["old", "new"].map(|name| folder.path().join(name));
        let superblock = Superblock::new([7; 16], 8 << 20).unwrap();
        let by = OtherDevice { uuid: [3; 16], path: "/new".into() };
        let note = |access: [AccessMode; 2]| {
            for path in &paths {
                std::fs::write(path, vec![0; 8 << 20]).unwrap();
            }
            let open = |index: usize| BlockFile::open(&paths[index], access[index], Emptiness::Refused);
            let noted = note_replaced(&open(0).unwrap(), &open(1).unwrap(), &superblock, by.clone());
            (noted.is_ok(), paths.each_ref().map(|path| any_superblock_at(path).map(|found| found.takeover)))
        };
        let (replaced, complete) = (Some(Takeover::Replaced(by.clone())), Some(Takeover::None));
        let (writable, unwritable) = (AccessMode::ReadWrite, AccessMode::ReadOnly);
        assert_eq!(note([writable, writable]), (true, [replaced.clone(), complete]));
        assert_eq!(note([writable, unwritable]), (false, [replaced, None]));
        assert_eq!(note([unwritable, writable]), (false, [None, None]));
    }
}
