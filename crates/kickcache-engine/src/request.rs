//! The guest side of the boundary: requests in, replies out.

use crate::units::{ByteExtent, Checksum, VolumeId};

/// Names a request while it is in flight, and the driver's memory that belongs to it. The driver chooses the
/// number; it must be unique among the requests in flight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(u32);

impl RequestId {
    /// Wraps the driver's number.
    pub const fn new(raw: u32) -> RequestId {
        RequestId(raw)
    }

    /// The driver's number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Whether a write must survive a power cut as soon as it is acknowledged, or has completed on a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Durability {
    /// Survives the death of the process; a flush makes it durable.
    Volatile,
    /// FUA: survives a power cut once acknowledged.
    Durable,
}

/// Whether the device may release the space of zeroed data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unmap {
    /// A hole is allowed.
    Allow,
    /// The space stays allocated (NBD's NO_HOLE).
    Forbid,
}

/// The operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// Fill the request's memory from the volume.
    Read,
    /// Store the request's memory to the volume.
    Write(Durability),
    /// Make all writes of the volume that were acknowledged so far durable; the extent is ignored.
    Flush,
    /// The data is no longer needed; it reads as anything stable afterwards.
    Discard,
    /// Store zeroes.
    WriteZeroes {
        /// May the origin punch a hole?
        unmap: Unmap,
        /// Whether the zeroes must survive a power cut before the request is acknowledged.
        durability: Durability,
    },
    /// Fill the extent into the cache; no payload (NBD's CACHE).
    Promote,
}

/// A request of a client.
///
/// The extent must lie within the volume, except that of a flush, and may start and end at any byte. The payload stays
/// in the driver's memory; the engine names it as [`crate::device::Memory::Request`].
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Names the request and its memory.
    pub id: RequestId,
    /// Which volume.
    pub volume: VolumeId,
    /// What to do.
    pub operation: Operation,
    /// Where on the volume.
    pub extent: ByteExtent,
    /// For a write: the checksum of each whole block of the volume that the extent covers, in order. Empty for other
    /// operations.
    pub checksums: &'a [Checksum],
}

/// Errors that a guest can see: an errno only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Errno {
    /// A device failed, data is damaged or cannot be made durable, or memory is short.
    Io,
    /// The request makes no sense.
    Invalid,
    /// A device has no space left.
    NoSpace,
    /// A device does not support the operation.
    NotSupported,
    /// A write to a read-only volume.
    NotPermitted,
    /// The server is stopping.
    Shutdown,
}

/// The end of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Which request.
    pub id: RequestId,
    /// How the request ended; for a read, success means that the request's memory holds the data.
    pub result: Result<(), Errno>,
    /// For a read, the device that had the data.
    pub read_from: ReadFrom,
}

/// The device that had the data of a read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReadFrom {
    /// No part was requested from the origin.
    Cache,
    /// At least a part was requested from the origin, whether or not this part is cached.
    Origin,
}
