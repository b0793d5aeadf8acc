//! Messages about a cache device that may hold blocks which an origin lacks.

use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use kickcache_engine::format::superblock::{SUPERBLOCK_SIZE, Superblock};

use crate::devices::bypassed_device::HeldVolume;
use crate::devices::cache_device::copies_by;
use crate::devices::state::{OriginRecord, uuid_text};
use crate::driver::rights::access;
use crate::serve::config::StatePlace;
use crate::shell_command::{Flag, ShellCommand};
use crate::whole_path::whole_path;

/// Why a cache device is not accepted for an origin, and the remedies, as a sentence.
///
/// `chosen` is the cache device that is about to be used, `go_on` the flag that accepts the loss.
pub fn sentence(record: &OriginRecord, chosen: &str, go_on: &Flag, place: &StatePlace) -> String {
    let (before, origin) = (record.cache_path.display(), &record.identity);
    let noted = format!(
        "its cache device {before} (uuid {}) may hold blocks that the origin {origin} lacks, and {chosen}",
        record.cache_uuid
    );
    match standing(record) {
        DevicePresence::There => {
            let held = HeldVolume {
                cache: &record.cache_path,
                uuid: &record.cache_uuid,
                name: &record.volume,
                identity: &record.identity,
            };
            let drain = held.drain(place);
            format!(
                "{noted}; write its blocks back ({drain}), serve the volume with that device, or use \
                 {go_on} to serve it without them"
            )
        }
        DevicePresence::Replaced(found) => format!(
            "{noted}; the cache device at {before} is now a different one (uuid {found}); if the first \
             one is elsewhere, serve the volume with it, or use {go_on} to serve it without its blocks"
        ),
        DevicePresence::Absent => format!(
            "{noted}; it cannot be read there: restore it (is its file system mounted? was it moved?) \
             and serve the volume with it, or use {go_on} to serve it without its blocks"
        ),
    }
}

/// The command that writes back a volume's dirty blocks from a cache device.
pub fn drain_from(cache: &Path, name: &str, place: &StatePlace) -> ShellCommand {
    let held = superblock_at(cache).and_then(|found| {
        let record = found.volume(name)?;
        let (uuid, identity) = (&uuid_text(found.uuid), &record.origin_identity);
        Some(HeldVolume { cache, uuid, name, identity }.drain(place))
    });
    held.unwrap_or_else(|| ShellCommand::drain_offline(name, cache).state(place))
}

/// Whether a recorded cache device is at its path.
enum DevicePresence {
    There,
    Replaced(String),
    /// No cache device can be read there.
    Absent,
}

fn standing(record: &OriginRecord) -> DevicePresence {
    match uuid_at(&record.cache_path) {
        Some(uuid) if uuid == record.cache_uuid => DevicePresence::There,
        Some(uuid) => DevicePresence::Replaced(uuid),
        None => DevicePresence::Absent,
    }
}

/// The uuid in the superblock that [`superblock_at`] finds.
pub fn uuid_at(path: &Path) -> Option<String> {
    superblock_at(path).map(|found| uuid_text(found.uuid))
}

/// Whether the cache device at a path must not be served.
pub fn is_barred_at(path: &Path) -> bool {
    any_superblock_at(path).is_some_and(|found| found.takeover.is_barred())
}

/// The superblock of the cache device at a path, if it is readable and the device may be served.
pub(crate) fn superblock_at(path: &Path) -> Option<Superblock> {
    any_superblock_at(path).filter(|found| !found.takeover.is_barred())
}

/// As [`superblock_at`], also if the device must not be served.
pub(crate) fn any_superblock_at(path: &Path) -> Option<Superblock> {
    try_superblock_at(path).ok().flatten()
}

/// As [`any_superblock_at`]; `None` if the file or device is there, and is no cache device.
///
/// # Errors
/// If the path cannot be examined.
pub(crate) fn try_superblock_at(path: &Path) -> io::Result<Option<Superblock>> {
    let kind = access::metadata(path)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Ok(None);
    }
    let file = access::open_to_read(path, 0)?;
    let size = io::Seek::seek(&mut &file, io::SeekFrom::End(0))?;
    let copy = |offset| {
        let mut bytes = vec![0; SUPERBLOCK_SIZE];
        file.read_exact_at(&mut bytes, offset).map(|()| bytes)
    };
    match copies_by(copy) {
        Ok(copies) => Ok(Superblock::decode_any([&copies[0], &copies[1]], size).ok()),
        // It is too short for a superblock.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// The flag of `kickcache serve` that accepts a cache device in place of the recorded one.
pub fn new_cache(device: &Path) -> Flag {
    Flag::new("--new-cache", whole_path(device).as_os_str())
}

/// The flag of `kickcache serve` that accepts the loss of a volume's dirty blocks.
pub fn lose_dirty(volume: &str) -> Flag {
    Flag::new("--lose-dirty", volume.as_ref())
}
