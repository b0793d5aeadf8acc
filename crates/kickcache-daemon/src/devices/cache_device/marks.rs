//! The service marks of a cache device, read and written without the engine.

use std::io;

use kickcache_engine::format::mark::{MARK_BYTES, MARK_OFFSETS, ServiceMark};
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::VolumeSet;

use crate::devices::cache_device::io::{cache_io, read, write};
use crate::driver::device::BlockFile;
use crate::serve::error::ServeError;

/// The first format version that has marks.
const VERSION_WITH_MARKS: u32 = 2;

/// The meaning of both marks. A device of version 1 has no marks, and counts as in service.
///
/// # Errors
/// If a mark of a device of a later version cannot be read, unless the other one means out of service.
pub(crate) fn read_marks(file: &BlockFile, superblock: &Superblock) -> Result<ServiceMark, ServeError> {
    let copies = MARK_OFFSETS.map(|offset| read(file, offset, MARK_BYTES));
    of_reads(copies, superblock)
        .map_err(|source| ServeError::Cache { path: file.path().into(), what: unreadable(&source) })
}

pub(crate) fn of_reads(copies: [io::Result<Vec<u8>>; 2], superblock: &Superblock) -> io::Result<ServiceMark> {
    match copies {
        [Ok(first), Ok(second)] => Ok(decode_marks([&first, &second], superblock)),
        [Ok(only), Err(error)] | [Err(error), Ok(only)] => match decode_marks([&only, &only], superblock) {
            ServiceMark::InService if superblock.version >= VERSION_WITH_MARKS => Err(error),
            mark => Ok(mark),
        },
        [Err(_), Err(_)] if superblock.version < VERSION_WITH_MARKS => Ok(ServiceMark::InService),
        [Err(error), Err(_)] => Err(error),
    }
}

fn unreadable(source: &io::Error) -> String {
    format!(
        "one of its service marks cannot be read ({source}), so that it is unknown whether it is out of \
         service; the device is unchanged: try again, as the error may be temporary, or serve without it \
         (serve --without-cache)"
    )
}

fn decode_marks(copies: [&[u8]; 2], superblock: &Superblock) -> ServiceMark {
    if superblock.version < VERSION_WITH_MARKS {
        return ServiceMark::InService;
    }
    ServiceMark::decode(copies, superblock.uuid)
}

/// Combines the marks with a record kept elsewhere: the volumes that may need a device out of service, `None` if it
/// is in service. If both have it out of service, a volume needs the device only if both name it, as either record
/// only drops volumes with time.
pub(crate) fn together(mark: ServiceMark, noted: Option<VolumeSet>) -> Option<VolumeSet> {
    match (mark, noted) {
        (ServiceMark::InService, noted) => noted,
        (ServiceMark::OutOfService { incomplete }, None) => Some(incomplete),
        (ServiceMark::OutOfService { incomplete }, Some(noted)) => Some(incomplete.intersection(noted)),
    }
}

pub(crate) fn of_known(superblock: &Superblock, volumes: VolumeSet) -> VolumeSet {
    superblock.volumes.iter().map(|record| record.id).filter(|id| volumes.contains(*id)).collect()
}

/// Writes both marks, durably.
pub(crate) fn write_marks(file: &BlockFile, mark: ServiceMark, uuid: [u8; 16]) -> Result<(), ServeError> {
    let bytes = mark.encode(uuid);
    MARK_OFFSETS
        .into_iter()
        .try_for_each(|offset| write(file, offset, &bytes))
        .and_then(|()| file.file().sync_data())
        .map_err(|source| cache_io(file.path(), "write the service marks", source))
}

/// Brings a device without marks up to the version that has them: the marks are written first, so that a power cut
/// leaves the old version intact.
pub(super) fn upgrade(file: &BlockFile, superblock: &mut Superblock) -> Result<(), ServeError> {
    if superblock.version < VERSION_WITH_MARKS {
        write_marks(file, ServiceMark::InService, superblock.uuid)?;
        superblock.version = VERSION_WITH_MARKS;
    }
    Ok(())
}
