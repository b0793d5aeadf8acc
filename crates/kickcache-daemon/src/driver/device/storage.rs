//! The storage below a device, through loop devices.

use std::fs::{File, Metadata, TryLockError};
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::driver::device::error::{OpenError, open_error};
use crate::driver::device::kind::AccessMode;
use crate::driver::device::sysfs;
use crate::driver::rights::access;

/// The most loop devices on top of each other that are followed.
const DEPTH_MAX: usize = 8;
const SECTOR: u64 = 512;

/// A part of a file, or of a block device without a known file below.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Storage {
    medium: Medium,
    bytes: Range<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Medium {
    Inode { device: u64, inode: u64 },
    Block(u64),
}

impl Storage {
    pub(crate) fn of(metadata: &Metadata) -> Storage {
        let layers = layers(metadata);
        let (start, length) = layers.iter().fold((0, None), |(start, length), layer| {
            (start + layer.bytes.start, length.or(Some(layer.bytes.end - layer.bytes.start)))
        });
        let bottom = layers.last().map_or(metadata, |layer| &layer.metadata);
        let medium = match bottom.file_type().is_block_device() {
            true => Medium::Block(bottom.rdev()),
            false => Medium::Inode { device: bottom.dev(), inode: bottom.ino() },
        };
        Storage { medium, bytes: start..length.map_or(u64::MAX, |length| start + length) }
    }

    pub(crate) fn overlaps(&self, other: &Storage) -> bool {
        self.medium == other.medium
            && self.bytes.start < other.bytes.end
            && other.bytes.start < self.bytes.end
    }
}

/// The file below a loop device, or below a partition of one.
struct Layer {
    path: PathBuf,
    metadata: Metadata,
    bytes: Range<u64>,
    is_whole: bool,
}

/// The layers below a device, from above, [`DEPTH_MAX`] at most. The list ends at a file that cannot be found.
fn layers(metadata: &Metadata) -> Vec<Layer> {
    let mut found: Vec<Layer> = Vec::new();
    while found.len() < DEPTH_MAX {
        let above = found.last().map_or(metadata, |layer| &layer.metadata);
        match below(above) {
            Some(layer) => found.push(layer),
            None => break,
        }
    }
    found
}

pub(super) fn paths_below(metadata: &Metadata) -> Vec<PathBuf> {
    layers(metadata).into_iter().map(|layer| layer.path).collect()
}

/// The path of the file below a loop device, or below a partition of one, as the system reports it.
pub(crate) fn path_below(metadata: &Metadata) -> Option<PathBuf> {
    sysfs::loop_file(&Disk::of(metadata)?.whole)
}

struct Disk {
    place: PathBuf,
    is_partition: bool,
    /// The place of the device in /sys, or for a partition that of the whole disk.
    whole: PathBuf,
}

impl Disk {
    fn of(metadata: &Metadata) -> Option<Disk> {
        if !metadata.file_type().is_block_device() {
            return None;
        }
        let place = sysfs::folder(metadata.rdev());
        let is_partition = place.join("partition").exists();
        // The link leads into the folder of the whole disk.
        let whole =
            if is_partition { std::fs::canonicalize(&place).ok()?.parent()?.into() } else { place.clone() };
        Some(Disk { place, is_partition, whole })
    }
}

fn below(metadata: &Metadata) -> Option<Layer> {
    let Disk { place, is_partition, whole: disk } = Disk::of(metadata)?;
    let text =
        |path: PathBuf| std::fs::read_to_string(path).ok().map(|text| text.trim_end_matches('\n').to_owned());
    let number = |path: PathBuf| text(path)?.parse::<u64>().ok();
    let path = sysfs::loop_file(&disk)?;
    let (offset, limit) = (number(disk.join("loop/offset"))?, number(disk.join("loop/sizelimit"))?);
    let first = if is_partition { number(place.join("start"))?.checked_mul(SECTOR)? } else { 0 };
    let length = number(place.join("size"))?.checked_mul(SECTOR)?;
    let start = offset.checked_add(first)?;
    let metadata = access::metadata(&path).ok()?;
    let is_whole = !is_partition && offset == 0 && limit == 0;
    Some(Layer { path, metadata, bytes: start..start.checked_add(length)?, is_whole })
}

/// Locks the layers below a device along with it: exclusively if the device is written and the layer above has the whole of this
/// layer, otherwise shared. At a layer that cannot be opened, this ends with a warning.
///
/// # Errors
/// [`OpenError::Busy`] if another process has a lock, and another [`OpenError`] if the device cannot be examined.
pub(super) fn lock_below(file: &File, path: &Path, access: AccessMode) -> Result<Vec<File>, OpenError> {
    let metadata = file.metadata().map_err(|source| open_error(path, source))?;
    let mut locks = Vec::new();
    for layer in layers(&metadata) {
        let opened = access::open_to_read(&layer.path, libc::O_NONBLOCK);
        let Ok(below) = opened else {
            tracing::warn!(
                event = "lock_unavailable",
                "{}, the file below {}, cannot be locked: make sure that it is used once only",
                layer.path.display(),
                path.display()
            );
            break;
        };
        let locked = match access {
            AccessMode::ReadWrite if layer.is_whole => below.try_lock(),
            AccessMode::ReadWrite | AccessMode::ReadOnly => below.try_lock_shared(),
        };
        if matches!(locked, Err(TryLockError::WouldBlock)) {
            return Err(OpenError::busy(path, "it holds a lock on its backing file"));
        }
        locks.push(below);
    }
    Ok(locks)
}

/// As [`lock_below`], for a device that is only read.
pub(crate) fn lock_below_shared(file: &File, path: &Path) -> Result<Vec<File>, OpenError> {
    lock_below(file, path, AccessMode::ReadOnly)
}

/// Refuses two names of devices with bytes in common, before any is opened. A partition of another disk
/// counts as a device of its own.
///
/// # Errors
/// [`OpenError::Same`].
pub fn check_distinct<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), OpenError> {
    let mut seen: Vec<(&Path, Storage)> = Vec::new();
    for path in paths {
        let Ok(metadata) = access::metadata(path) else { continue };
        let storage = Storage::of(&metadata);
        if let Some((first, _)) = seen.iter().find(|(_, other)| storage.overlaps(other)) {
            return Err(OpenError::Same { first: (*first).into(), second: path.into() });
        }
        seen.push((path, storage));
    }
    Ok(())
}
