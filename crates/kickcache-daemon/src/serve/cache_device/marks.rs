//! The service marks of a cache device, outside of serving.

use kickcache_engine::format::mark::{MARK_BYTES, MARK_OFFSETS, ServiceMark};
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::VolumeSet;

use crate::driver::device::BlockFile;
use crate::serve::cache_device::io::{cache_io, read, write};
use crate::serve::error::ServeError;

/// The first format version that has marks.
const VERSION_WITH_MARKS: u32 = 2;

/// What both marks say. A mark that cannot be read may have said anything; a device of version 1 has none, and counts as in
/// service.
pub(crate) fn read_marks(file: &BlockFile, superblock: &Superblock) -> ServiceMark {
    let copies = MARK_OFFSETS.map(|offset| read(file, offset, MARK_BYTES).unwrap_or_default());
    decode_marks([&copies[0], &copies[1]], superblock)
}

/// The same of bytes that somebody else read.
pub(crate) fn decode_marks(copies: [&[u8]; 2], superblock: &Superblock) -> ServiceMark {
    if superblock.version < VERSION_WITH_MARKS {
        return ServiceMark::InService;
    }
    ServiceMark::decode(copies, superblock.uuid)
}

/// What the marks and a note kept elsewhere say together: the volumes that may need a device out of service, `None` if it is
/// in service. Each record only ever names fewer volumes.
pub(crate) fn together(mark: ServiceMark, noted: Option<VolumeSet>) -> Option<VolumeSet> {
    match (mark, noted) {
        (ServiceMark::InService, noted) => noted,
        (ServiceMark::OutOfService { incomplete }, None) => Some(incomplete),
        (ServiceMark::OutOfService { incomplete }, Some(noted)) => Some(incomplete.intersection(noted)),
    }
}

/// Those of the volumes that the superblock knows.
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

/// Brings a device without marks up to the version that has them: the marks first, so that a power cut leaves it as it was.
pub(super) fn upgrade(file: &BlockFile, superblock: &mut Superblock) -> Result<(), ServeError> {
    if superblock.version < VERSION_WITH_MARKS {
        write_marks(file, ServiceMark::InService, superblock.uuid)?;
        superblock.version = VERSION_WITH_MARKS;
    }
    Ok(())
}
