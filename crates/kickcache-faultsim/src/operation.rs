//! Properties of submissions, in forms that the simulation needs.

use kickcache_engine::device::{Device, DeviceOperation, Memory, Piece, Pieces};
use kickcache_engine::format::geometry::Geometry;
use kickcache_engine::format::journal::{JournalBlock, JournalBody};
use kickcache_engine::format::mark::MARK_OFFSETS;
use kickcache_engine::request::Durability;
use kickcache_engine::units::ByteExtent;

use crate::memory::MemoryAccess;
use crate::plan::aim::Aim;

pub(crate) fn kind(operation: &DeviceOperation) -> u64 {
    match operation {
        DeviceOperation::Read { .. } => 1,
        DeviceOperation::Write { .. } => 2,
        DeviceOperation::WriteMetadata { .. } => 3,
        DeviceOperation::ReadMetadata { .. } => 4,
        DeviceOperation::Flush { .. } => 5,
        DeviceOperation::Discard { .. } => 6,
        DeviceOperation::WriteZeroes { .. } => 7,
        DeviceOperation::Copy { .. } => 8,
        DeviceOperation::Zero { .. } => 9,
        DeviceOperation::NoteOutOfService { .. } => 10,
    }
}

/// Whether an operation changes a device.
pub(crate) fn is_write(operation: &DeviceOperation) -> bool {
    matches!(kind(operation), 2 | 3 | 6 | 7)
}

pub(crate) fn durability_of(operation: &DeviceOperation) -> Durability {
    match operation {
        DeviceOperation::Write { durability, .. }
        | DeviceOperation::WriteMetadata { durability, .. }
        | DeviceOperation::WriteZeroes { durability, .. } => *durability,
        DeviceOperation::Read { .. }
        | DeviceOperation::ReadMetadata { .. }
        | DeviceOperation::Flush { .. }
        | DeviceOperation::Discard { .. }
        | DeviceOperation::NoteOutOfService { .. }
        | DeviceOperation::Copy { .. }
        | DeviceOperation::Zero { .. } => Durability::Volatile,
    }
}

/// The kind of crash-relevant metadata that an operation writes, if any; the host's record counts as a mark.
pub(crate) fn metadata_part(operation: &DeviceOperation, geometry: &Geometry) -> Option<Aim> {
    if matches!(operation, DeviceOperation::NoteOutOfService { .. }) {
        return Some(Aim::Marks);
    }
    let DeviceOperation::WriteMetadata { device: Device::Cache, offset, bytes, .. } = operation else {
        return None;
    };
    if MARK_OFFSETS.contains(offset) {
        return Some(Aim::Marks);
    }
    Some(match JournalBlock::decode(bytes, geometry)?.body {
        JournalBody::Records(_) => Aim::Records,
        JournalBody::Chunk(_) => Aim::Checkpoint,
    })
}

/// The device of an operation, and whether it is a flush; operations without a device count as operations of the cache
/// device.
pub(crate) fn device_and_flush(operation: &DeviceOperation) -> (Device, bool) {
    match operation {
        DeviceOperation::Read { device, .. }
        | DeviceOperation::Write { device, .. }
        | DeviceOperation::WriteMetadata { device, .. }
        | DeviceOperation::Discard { device, .. }
        | DeviceOperation::WriteZeroes { device, .. } => (*device, false),
        DeviceOperation::Flush { device } => (*device, true),
        DeviceOperation::ReadMetadata { .. }
        | DeviceOperation::NoteOutOfService { .. }
        | DeviceOperation::Copy { .. }
        | DeviceOperation::Zero { .. } => (Device::Cache, false),
    }
}

/// The memory that an operation uses while it is in flight, and how.
pub(crate) fn memory_of(operation: &DeviceOperation) -> Option<(&[Piece], MemoryAccess)> {
    match operation {
        DeviceOperation::Read { pieces, .. } => Some((pieces.as_slice(), MemoryAccess::Target)),
        DeviceOperation::Write { pieces, .. } => Some((pieces.as_slice(), MemoryAccess::Source)),
        DeviceOperation::WriteMetadata { pieces, .. } => Some((pieces, MemoryAccess::Source)),
        DeviceOperation::ReadMetadata { .. }
        | DeviceOperation::Flush { .. }
        | DeviceOperation::Discard { .. }
        | DeviceOperation::WriteZeroes { .. }
        | DeviceOperation::NoteOutOfService { .. }
        | DeviceOperation::Copy { .. }
        | DeviceOperation::Zero { .. } => None,
    }
}

/// The extent of an operation on its device; of operations on memory only the length is meant.
pub(crate) fn extent_of(operation: &DeviceOperation) -> ByteExtent {
    let of = |offset: u64, length: u64| ByteExtent { start: offset, length };
    let all = |pieces: &Pieces| pieces.length();
    match operation {
        DeviceOperation::Read { offset, pieces, .. } | DeviceOperation::Write { offset, pieces, .. } => {
            of(*offset, all(pieces))
        }
        DeviceOperation::WriteMetadata { offset, bytes, pieces, .. } => {
            let payload: u64 = pieces.iter().map(|piece| u64::from(piece.length)).sum();
            of(*offset, bytes.len() as u64 + payload)
        }
        DeviceOperation::ReadMetadata { extent }
        | DeviceOperation::Discard { extent, .. }
        | DeviceOperation::WriteZeroes { extent, .. } => *extent,
        DeviceOperation::Flush { .. } | DeviceOperation::NoteOutOfService { .. } => of(0, 0),
        DeviceOperation::Copy { length, .. } | DeviceOperation::Zero { length, .. } => {
            of(0, u64::from(*length))
        }
    }
}

pub(crate) fn describe(operation: &DeviceOperation) -> String {
    let extent = extent_of(operation);
    let place = format!("{:?} {:#x}+{:#x}", device_and_flush(operation).0, extent.start, extent.length);
    let durable = if durability_of(operation) == Durability::Durable { " durable" } else { "" };
    match operation {
        DeviceOperation::Read { .. } => format!("read {place}"),
        DeviceOperation::Write { pieces, .. } => {
            format!("write {place}{durable} from {}", list(pieces.as_slice()))
        }
        DeviceOperation::WriteMetadata { bytes, pieces, .. } => {
            format!("write metadata {place}{durable}: {} bytes and {}", bytes.len(), list(pieces))
        }
        DeviceOperation::ReadMetadata { .. } => format!("read metadata {place}"),
        DeviceOperation::Flush { device } => format!("flush {device:?}"),
        DeviceOperation::Discard { .. } => format!("discard {place}"),
        DeviceOperation::WriteZeroes { .. } => format!("write zeroes {place}{durable}"),
        DeviceOperation::NoteOutOfService { incomplete } => format!("note: out of service, {incomplete:?}"),
        DeviceOperation::Copy { from, to, length, .. } => {
            format!("copy {length:#x} from {} to {}", place_of(*from), place_of(*to))
        }
        DeviceOperation::Zero { to, length, .. } => format!("zero {length:#x} at {}", place_of(*to)),
    }
}

fn place_of(memory: Memory) -> String {
    match memory {
        Memory::Request { id, offset } => format!("request {} {offset:#x}", id.get()),
        Memory::Pool { page, offset } => format!("page {} {offset:#x}", page.get()),
    }
}

fn list(pieces: &[Piece]) -> String {
    let texts: Vec<String> =
        pieces.iter().map(|piece| format!("{}+{:#x}", place_of(piece.memory), piece.length)).collect();
    texts.join(", ")
}
