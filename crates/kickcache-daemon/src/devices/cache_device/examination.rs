//! Examines the place of a cache device without a change, and formats it if that is allowed.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use kickcache_engine::error::Error;
use kickcache_engine::format::geometry::{DEVICE_SIZE_MIN, SUPERBLOCK_AREA};
use kickcache_engine::format::mark::{MARK_BYTES, MARK_OFFSETS, ServiceMark, is_in_service_mark};
use kickcache_engine::format::superblock::{Superblock, VolumeRecord};
use kickcache_engine::units::VolumeSet;
use kickcache_units::show_bytes;
use rustix::fs::{FallocateFlags, fallocate};

use crate::devices::cache_device::created_files::CreatedFiles;
use crate::devices::cache_device::device::{CacheDevice, random_uuid};
use crate::devices::cache_device::io::{cache_io, read};
use crate::devices::cache_device::marks::{of_known, read_marks, together, write_marks};
use crate::devices::cache_device::overwrite::Overwrite;
use crate::devices::cache_device::stacked_devices::check_nothing_above;
use crate::devices::cache_device::superblocks::{decode, read_copies};
use crate::devices::lost_superblock::lost_superblock;
use crate::driver::device::{AccessMode, BlockFile, Emptiness, Kind, OpenError};
use crate::driver::rights::access;
use crate::path_text::check_real_path;
use crate::places;
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;
use crate::shell_command::ShellCommand;
use crate::signature;

/// The records about a device in the state directory.
#[derive(Clone, Copy)]
pub struct DeviceRecords<'a> {
    pub state: &'a StatePlace,
    /// The volumes that may need the device, if a record has it out of service.
    pub incomplete: &'a dyn Fn(&Superblock) -> Option<VolumeSet>,
}

pub(crate) enum Examination {
    Ours(Box<CacheDevice>),
    /// A file or device that may be overwritten.
    Free {
        file: BlockFile,
        /// Whether it is a file of zeroes, apart from marks of `in service`.
        is_blank_file: bool,
    },
    /// The file is missing or empty, and becomes a cache device of this many bytes.
    Nothing {
        path: PathBuf,
        size: u64,
        is_there: bool,
    },
}

impl Examination {
    pub(crate) fn look(
        path: &Path,
        size: Option<u64>,
        state: &StatePlace,
    ) -> Result<Examination, ServeError> {
        if let Some(nothing) = look_for_nothing(path, size)? {
            return Ok(nothing);
        }
        let file = open(path)?;
        let refuse = |what| ServeError::Cache { path: path.into(), what };
        let format = || ShellCommand::new("format").path(path);
        match decode(&read_copies(&file)?, &file) {
            Ok(superblock) => {
                tell_size(&file, size);
                Ok(Examination::Ours(Box::new(CacheDevice::of(file, superblock))))
            }
            Err(Error::NoSuperblock { .. }) if file.kind() == Kind::File && is_blank(&file)? => {
                check_nothing_above(&file)?;
                check_size(&file)?;
                tell_size(&file, size);
                Ok(Examination::Free { file, is_blank_file: true })
            }
            Err(Error::NoSuperblock { .. }) if file.kind() == Kind::Block && is_blank(&file)? => {
                Err(refuse(match lost_superblock(path, state) {
                    Some(what) => format!("this block device is blank, and {what}"),
                    None => {
                        format!("this block device is blank; format it first: {}", format().state(state))
                    }
                }))
            }
            Err(Error::NoSuperblock { .. }) => Err(refuse(match lost_superblock(path, state) {
                Some(what) => format!("it holds {}, and {what}", contents(&file)?),
                None => format!(
                    "this is not a kickcache cache device: it holds {}; give the right one, or format it \
                 ({}), which destroys its contents",
                    contents(&file)?,
                    format().word("--force").state(state)
                ),
            })),
            Err(source) => Err(ServeError::Engine { path: path.into(), source }),
        }
    }

    pub(crate) fn file(&self) -> Option<&BlockFile> {
        match self {
            Examination::Ours(device) => Some(&device.file),
            Examination::Free { file, .. } => Some(file),
            Examination::Nothing { .. } => None,
        }
    }

    pub(crate) fn ours(&self) -> Option<&CacheDevice> {
        match self {
            Examination::Ours(device) => Some(device),
            Examination::Free { .. } | Examination::Nothing { .. } => None,
        }
    }

    /// The present superblock, or the result of a format, but with a uuid of zeroes.
    pub(crate) fn superblock(&self) -> Result<Superblock, ServeError> {
        let (path, size) = match self {
            Examination::Ours(device) => return Ok(device.superblock.clone()),
            Examination::Free { file, .. } => (file.path(), file.size()),
            Examination::Nothing { path, size, .. } => (path.as_path(), *size),
        };
        Superblock::new([0; 16], size).map_err(|source| ServeError::Engine { path: path.into(), source })
    }

    pub(crate) fn make(self, made: &mut CreatedFiles) -> Result<CacheDevice, ServeError> {
        match self {
            Examination::Ours(device) => Ok(*device),
            Examination::Free { file, is_blank_file } => {
                if is_blank_file {
                    made.blank_file(file.path(), file.exact_size());
                }
                allocate(&file)?;
                format_open(file)
            }
            Examination::Nothing { path, size, is_there } => {
                let fail = |source| cache_io(&path, "make a cache file of the wanted size", source);
                let file = access::make_file(&path).map_err(fail)?;
                match is_there {
                    true => made.blank_file(&path, 0),
                    false => made.new_file(&path),
                }
                check_room(&file, &path, size)?;
                file.set_len(size).map_err(fail)?;
                drop(file);
                let file = open_device(&path)?;
                allocate(&file)?;
                format_open(file)
            }
        }
    }
}

pub(super) fn format(
    path: &Path,
    size: Option<u64>,
    overwrite: Overwrite,
    noted: DeviceRecords<'_>,
    made: &mut CreatedFiles,
) -> Result<CacheDevice, ServeError> {
    let ToFormat { found, replaced } = look_to_format(path, size, overwrite, noted)?;
    Ok(CacheDevice { replaced, ..found.make(made)? })
}

struct ToFormat {
    found: Examination,
    /// The uuid of the previous cache on the device.
    replaced: Option<[u8; 16]>,
}

pub(super) fn check_format(
    path: &Path,
    size: Option<u64>,
    overwrite: Overwrite,
    noted: DeviceRecords<'_>,
) -> Result<u64, ServeError> {
    match look_to_format(path, size, overwrite, noted)?.found {
        Examination::Nothing { path, size, .. } => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = File::open(folder.unwrap_or_else(|| Path::new(".")));
            if folder.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
                // The free space is checked when the file is made.
                return Ok(size);
            }
            let folder = folder.map_err(|source| cache_io(&path, "look at the folder of", source))?;
            check_free(&folder, &path, size, 0)?;
            Ok(size)
        }
        Examination::Free { file, .. } => {
            if file.kind() == Kind::File {
                check_room(file.file(), file.path(), file.exact_size())?;
            }
            Ok(file.size())
        }
        Examination::Ours(device) => Ok(device.file.size()),
    }
}

fn look_to_format(
    path: &Path,
    size: Option<u64>,
    overwrite: Overwrite,
    noted: DeviceRecords<'_>,
) -> Result<ToFormat, ServeError> {
    if let Some(found) = look_for_nothing(path, size)? {
        return Ok(ToFormat { found, replaced: None });
    }
    let file = open(path)?;
    let refuse = |what| Err(ServeError::Cache { path: path.into(), what });
    check_nothing_above(&file)?;
    let old = decode(&read_copies(&file)?, &file).ok();
    let incomplete = old.as_ref().and_then(|old| out_of_service(&file, old, noted.incomplete));
    let is_worthless = incomplete.is_some_and(|volumes| volumes.is_empty());
    let is_guarded = overwrite == Overwrite::Refuse && !is_worthless;
    let is_blank = (is_guarded || file.kind() == Kind::File) && is_blank(&file)?;
    if is_guarded && !is_blank {
        let found = match super::carries_superblock(&file)? {
            true if incomplete.is_some() => {
                let drains = old.iter().flat_map(|old| drains(path, old, incomplete, noted.state));
                format!(
                    "it is a kickcache cache device out of service, and may hold dirty blocks that are nowhere else, which are \
                     written back by {}",
                    drains.collect::<Vec<_>>().join("; ")
                )
            }
            true => "it is a kickcache cache device already".to_owned(),
            false => format!("it holds {}", contents(&file)?),
        };
        return refuse(format!("{found}; choose another one, or use --force, which destroys its contents"));
    }
    check_size(&file)?;
    if let Some(size) = size.filter(|size| *size != file.exact_size()) {
        return refuse(format!(
            "it has {} bytes, but --size gives {size}; omit --size, which is for new files only",
            file.exact_size()
        ));
    }
    let is_blank_file = is_blank && file.kind() == Kind::File;
    Ok(ToFormat { found: Examination::Free { file, is_blank_file }, replaced: old.map(|old| old.uuid) })
}

fn drains(
    path: &Path,
    superblock: &Superblock,
    incomplete: Option<VolumeSet>,
    state: &StatePlace,
) -> Vec<String> {
    let needed =
        superblock.volumes.iter().filter(|record| incomplete.is_some_and(|it| it.contains(record.id)));
    let drain = |record: &VolumeRecord| ShellCommand::drain_older(&record.name, path, state).to_string();
    needed.map(drain).collect()
}

/// The volumes that may need a device out of service; `None` if the device is in service.
fn out_of_service(
    file: &BlockFile,
    superblock: &Superblock,
    noted: &dyn Fn(&Superblock) -> Option<VolumeSet>,
) -> Option<VolumeSet> {
    // Unreadable marks count as naming every volume.
    let mark =
        read_marks(file, superblock).unwrap_or(ServiceMark::OutOfService { incomplete: VolumeSet::ALL });
    together(mark, noted(superblock)).map(|incomplete| of_known(superblock, incomplete))
}

fn look_for_nothing(path: &Path, size: Option<u64>) -> Result<Option<Examination>, ServeError> {
    let refuse = |what| ServeError::Cache { path: path.into(), what };
    check_real_path(path).map_err(OpenError::from)?;
    let is_there = match access::metadata(path) {
        Ok(metadata) if metadata.is_file() && metadata.len() == 0 => true,
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        // An error without an errno is not the system's.
        Err(source) if source.raw_os_error().is_none() => return Err(refuse(source.to_string())),
        Err(source) => return Err(cache_io(path, "look at the cache device", source)),
    };
    if let Some(fault) = places::fault(path).filter(|_| !is_there) {
        return Err(refuse(fault));
    }
    if let Some(target) = std::fs::read_link(path).ok().filter(|_| !is_there) {
        let target = target.display();
        return Err(refuse(format!(
            "this is a link to {target}, which does not exist, and no file is made behind a link; give the path of the file itself, or remove the link"
        )));
    }
    let Some(size) = size else {
        let found = if is_there { "it is an empty file" } else { "it does not exist" };
        let what = format!("{found}; give the size of the cache file (--size), or another path");
        return Err(refuse(what));
    };
    Superblock::new([0; 16], size).map_err(|source| ServeError::Engine { path: path.into(), source })?;
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let has_folder = match std::fs::metadata(folder) {
        Ok(found) => found.is_dir(),
        // Without permission to look, only making the file shows whether the folder exists.
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    };
    if !has_folder {
        let folder = folder.display();
        return Err(refuse(format!(
            "there is no folder {folder} to make it in; make that first, or correct the path"
        )));
    }
    Ok(Some(Examination::Nothing { path: path.into(), size, is_there }))
}

fn open(path: &Path) -> Result<BlockFile, ServeError> {
    match open_device(path) {
        Err(ServeError::Device(OpenError::Empty { found, .. })) => Err(too_small(path, found)),
        opened => opened,
    }
}

fn open_device(path: &Path) -> Result<BlockFile, ServeError> {
    Ok(BlockFile::open(path, AccessMode::ReadWrite, Emptiness::Refused)?)
}

fn check_size(file: &BlockFile) -> Result<(), ServeError> {
    if file.exact_size() < DEVICE_SIZE_MIN { Err(too_small(file.path(), file.exact_size())) } else { Ok(()) }
}

fn too_small(path: &Path, found: u64) -> ServeError {
    let least = show_bytes(DEVICE_SIZE_MIN);
    let what = format!(
        "it has {found} bytes, and a cache device needs {least} or more; give another one, or remove it \
         and give the size of a new one (--size, or `size` in the configuration file)"
    );
    ServeError::Cache { path: path.into(), what }
}

fn contents(file: &BlockFile) -> Result<&'static str, ServeError> {
    let bytes = read(file, 0, signature::LOOK_BYTES);
    Ok(signature::name(&bytes.map_err(|source| cache_io(file.path(), "look for old data", source))?))
}

fn tell_size(file: &BlockFile, wanted: Option<u64>) {
    let found = file.exact_size();
    if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
        tracing::warn!(
            event = "size_ignored",
            "{} has {found} bytes and keeps them: --size {wanted} (or `size` in the configuration) is \
             for new files only; omit it, or give {found}",
            file.path().display()
        );
    }
}

/// Refuses a file that its file system cannot hold, if that reports its free space.
pub(super) fn check_room(file: &File, path: &Path, size: u64) -> Result<(), ServeError> {
    let has = file.metadata().map_or(0, |metadata| metadata.blocks() * 512);
    check_free(file, path, size, has)
}

/// Refuses a file of `size` bytes, with `has` bytes allocated already, if its file system is known to lack
/// the room.
fn check_free(on: &File, path: &Path, size: u64, has: u64) -> Result<(), ServeError> {
    // Some FUSE file systems do not report their free space.
    let told = rustix::fs::fstatvfs(on).ok().filter(|system| system.f_blocks > 0);
    let Some(system) = told else { return Ok(()) };
    let room = system.f_bavail.saturating_mul(system.f_frsize);
    if size.saturating_sub(has) > room { Err(no_room(path, size, room)) } else { Ok(()) }
}

fn no_room(path: &Path, size: u64, room: u64) -> ServeError {
    let (size, room) = (show_bytes(size), show_bytes(room));
    let what = format!(
        "a cache file needs all of its {size} at once, and its file system has room for {room}; make room, or a smaller \
         cache"
    );
    ServeError::Cache { path: path.into(), what }
}

/// Allocates all blocks of a sparse file, if its file system can.
fn allocate(file: &BlockFile) -> Result<(), ServeError> {
    if file.kind() == Kind::Block {
        return Ok(());
    }
    give_blocks(file, file.exact_size())
}

fn give_blocks(file: &BlockFile, size: u64) -> Result<(), ServeError> {
    check_room(file.file(), file.path(), size)?;
    match fallocate(file.file(), FallocateFlags::empty(), 0, size) {
        Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
        Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT) => Err(no_room(file.path(), size, 0)),
        Err(error) => Err(cache_io(file.path(), "make room for the cache file", error.into())),
    }
}

/// Extends a cache file of `has` bytes to `size`, if that is more, and allocates its blocks if the file
/// system can, durably.
pub(super) fn allocate_to(file: &BlockFile, has: u64, size: u64) -> Result<(), ServeError> {
    let failed = |source| cache_io(file.path(), "extend the cache file", source);
    check_room(file.file(), file.path(), size)?;
    if size > has {
        file.file().set_len(size).map_err(failed)?;
    }
    // The new size is durable before the superblock has it: a superblock for more bytes than the device has
    // is refused.
    let done = give_blocks(file, size).and_then(|()| file.file().sync_all().map_err(failed));
    if done.is_err() && size > has {
        shorten_again(file, has);
    }
    done
}

pub(super) fn shorten_again(file: &BlockFile, has: u64) {
    if let Err(error) = file.file().set_len(has) {
        tracing::warn!(
            event = "file_not_shortened",
            "{} was extended, and cannot be shortened to its {has} bytes again: {error}; the rest is unused, and takes space until the \
             cache device grows",
            file.path().display()
        );
    }
}

fn format_open(file: BlockFile) -> Result<CacheDevice, ServeError> {
    let path: PathBuf = file.path().into();
    let uuid = random_uuid()?;
    let superblock = Superblock::new(uuid, file.size())
        .map_err(|source| ServeError::Engine { path: path.clone(), source })?;
    write_marks(&file, ServiceMark::InService, uuid)?;
    let mut device = CacheDevice { file, superblock, is_new: true, replaced: None, is_changed: true };
    device.store()?;
    tracing::info!(
        event = "cache_formatted",
        "{} was formatted as a cache device of {} bytes",
        path.display(),
        device.file.size()
    );
    Ok(device)
}

/// Whether a device is blank: a file everywhere, a block device in its first and its last MiB. A file with
/// marks of `in service` alone counts as blank: a format writes them first.
fn is_blank(file: &BlockFile) -> Result<bool, ServeError> {
    let area = usize::try_from(SUPERBLOCK_AREA).expect("1 MiB");
    let mut next = Some(0);
    while let Some(offset) = next {
        let mut bytes = read(file, offset, area + 4096)
            .map_err(|source| cache_io(file.path(), "look for old data", source))?;
        if offset == 0 && file.kind() == Kind::File {
            leave_marks_out(&mut bytes);
        }
        if bytes.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        next = next_to_look_at(file, offset + SUPERBLOCK_AREA);
    }
    Ok(true)
}

fn leave_marks_out(bytes: &mut [u8]) {
    for offset in MARK_OFFSETS {
        let start = usize::try_from(offset).expect("in the first MiB");
        if let Some(mark) = bytes.get_mut(start..start + MARK_BYTES)
            && is_in_service_mark(mark)
        {
            mark.fill(0);
        }
    }
}

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
