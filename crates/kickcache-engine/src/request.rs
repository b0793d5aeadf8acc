//! The guest side of the boundary: requests in, replies out.

use crate::units::{ByteExtent, Checksum, VolumeId};

/// Names a request while it is in flight. The driver chooses the number; it must be unique among the requests in
/// flight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(u32);

impl RequestId {
    /// The request with this number.
    pub const fn new(raw: u32) -> RequestId {
        RequestId(raw)
    }

    /// The number of the request.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Whether a write must survive a power cut once it has completed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Durability {
    /// It need not; a flush makes it durable.
    Volatile,
    /// It must (FUA).
    Durable,
}

/// Whether the device may release the space of zeroed data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unmap {
    /// A hole is allowed.
    Allow,
    /// The space stays allocated.
    Forbid,
}

/// The operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// Fill the request's memory from the volume.
    Read,
    /// Store the request's memory to the volume.
    Write(Durability),
    /// Make the acknowledged writes of the volume durable; the extent is ignored.
    Flush,
    /// The data is no longer needed.
    Discard,
    /// Store zeroes.
    WriteZeroes {
        /// Whether the origin may punch a hole.
        unmap: Unmap,
        /// Whether the zeroes must survive a power cut once the request is acknowledged.
        durability: Durability,
    },
    /// Fill the extent into the cache.
    Promote,
}

/// A request of a client.
///
/// The extent may start and end at any byte. The engine names the payload as [`crate::device::Memory::Request`].
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

/// Errors that a guest can see.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Errno {
    /// An I/O error.
    Io,
    /// The request is not valid.
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
    /// How the request ended.
    pub result: Result<(), Errno>,
    /// For a read, the device that had the data.
    pub read_from: ReadFrom,
}

/// The device that had the data of a read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReadFrom {
    /// No part was requested from the origin.
    Cache,
    /// At least a part was requested from the origin.
    Origin,
}
