//! The device side of the boundary: submissions out, completions in.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::request::{Durability, RequestId, Unmap};
use crate::units::{ByteExtent, Checksum, PageIndex, VolumeId, VolumeSet};

/// Names a submission until its completion was handled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubmissionId(pub(crate) u64);

impl SubmissionId {
    /// The number of the submission.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The submission with this number.
    pub const fn from_u64(raw: u64) -> SubmissionId {
        SubmissionId(raw)
    }
}

/// A device below the cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Device {
    /// The cache device.
    Cache,
    /// The origin of a volume.
    Origin(VolumeId),
    /// The successor of the cache device, if there is one.
    Successor,
    /// The redo journal of the volumes that are written back in cuts.
    RedoJournal,
}

/// A place in the driver's memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Memory {
    /// Bytes of a request's payload, from `offset` on.
    Request {
        /// The request.
        id: RequestId,
        /// Byte offset in the request's payload.
        offset: u32,
    },
    /// A page of the engine's pool, from its byte `offset` on. Longer pieces run on into the pages that follow.
    Pool {
        /// First page.
        page: PageIndex,
        /// Byte offset in that page.
        offset: u32,
    },
}

/// One stretch of memory of a submission.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Piece {
    /// Where the stretch starts.
    pub memory: Memory,
    /// The length of the stretch in bytes.
    pub length: u32,
}

/// The memory of a read or write, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pieces {
    /// A single stretch.
    One(Piece),
    /// Several stretches.
    Many(Vec<Piece>),
}

impl Pieces {
    /// The stretches as a slice.
    pub fn as_slice(&self) -> &[Piece] {
        match self {
            Pieces::One(piece) => core::slice::from_ref(piece),
            Pieces::Many(pieces) => pieces,
        }
    }

    /// Bytes in all.
    pub fn length(&self) -> u64 {
        self.as_slice().iter().map(|piece| u64::from(piece.length)).sum()
    }
}

/// Whether the completion carries checksums.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Checksums {
    /// For a read, one CRC32C for each 4096 bytes of the pieces taken together, in order; for a copy or zeroing in
    /// memory, one for the changed page.
    Compute,
    /// None.
    Skip,
}

/// An operation of a device, or of the driver's memory.
///
/// Offsets and lengths on devices are multiples of 512 bytes; on the cache device of 4096.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceOperation {
    /// Reads into the pieces.
    Read {
        /// From which device.
        device: Device,
        /// Byte offset on the device.
        offset: u64,
        /// Into which memory.
        pieces: Pieces,
        /// Whether the engine needs checksums of the bytes.
        checksums: Checksums,
    },
    /// Writes the pieces.
    Write {
        /// To which device.
        device: Device,
        /// Byte offset on the device.
        offset: u64,
        /// From which memory.
        pieces: Pieces,
        /// If durable, the data survives a power cut after the write has completed.
        durability: Durability,
    },
    /// Writes `bytes`, and the pieces right behind them, in one write.
    WriteMetadata {
        /// The cache device, or the redo journal.
        device: Device,
        /// Byte offset on the device.
        offset: u64,
        /// The first bytes, a multiple of 4096.
        bytes: Box<[u8]>,
        /// The blocks behind them, for a batch or a chunk.
        pieces: Vec<Piece>,
        /// If durable, the data survives a power cut after the operation has completed.
        durability: Durability,
    },
    /// Reads bytes of the cache device for the engine itself; the completion carries them.
    ReadMetadata {
        /// Extent on the cache device, in multiples of 4096.
        extent: ByteExtent,
    },
    /// Makes all writes of the device durable that completed before this submission.
    Flush {
        /// On which device.
        device: Device,
    },
    /// Gives space back.
    Discard {
        /// On which device.
        device: Device,
        /// Where.
        extent: ByteExtent,
    },
    /// Stores zeroes.
    WriteZeroes {
        /// On which device.
        device: Device,
        /// Where.
        extent: ByteExtent,
        /// Whether the device may punch a hole.
        unmap: Unmap,
        /// If durable, the data survives a power cut after the operation has completed.
        durability: Durability,
    },
    /// Records durably, on the host, that the cache device is out of service.
    NoteOutOfService {
        /// Volumes with origins that may lack data of the cache device.
        incomplete: VolumeSet,
    },
    /// Copies memory at once, in the order of polling. There is a completion only if `checksums` is
    /// [`Checksums::Compute`].
    Copy {
        /// Source.
        from: Memory,
        /// Destination.
        to: Memory,
        /// Bytes.
        length: u32,
        /// Whether the checksum of the destination page is wanted.
        checksums: Checksums,
    },
    /// Zeroes memory at once, in the order of polling; completions as for [`DeviceOperation::Copy`].
    Zero {
        /// Destination.
        to: Memory,
        /// Bytes.
        length: u32,
        /// Whether the checksum of the destination page is wanted.
        checksums: Checksums,
    },
}

impl DeviceOperation {
    /// The device of the operation; `None` for operations in memory.
    pub fn device(&self) -> Option<Device> {
        match self {
            DeviceOperation::Read { device, .. }
            | DeviceOperation::Write { device, .. }
            | DeviceOperation::WriteMetadata { device, .. }
            | DeviceOperation::Flush { device }
            | DeviceOperation::Discard { device, .. }
            | DeviceOperation::WriteZeroes { device, .. } => Some(*device),
            DeviceOperation::ReadMetadata { .. } | DeviceOperation::NoteOutOfService { .. } => {
                Some(Device::Cache)
            }
            DeviceOperation::Copy { .. } | DeviceOperation::Zero { .. } => None,
        }
    }
}

/// An operation for the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Submission {
    /// Returned in the completion.
    pub id: SubmissionId,
    /// The operation.
    pub operation: DeviceOperation,
}

/// How a device failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DeviceError {
    /// An I/O error, or another error without a name here.
    Io,
    /// The device is missing.
    Gone,
    /// No space is left.
    NoSpace,
    /// The device does not support the operation.
    Unsupported,
}

/// The data of a successful completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Data<'a> {
    /// The requested checksums.
    pub checksums: &'a [Checksum],
    /// The bytes of a [`DeviceOperation::ReadMetadata`].
    pub bytes: &'a [u8],
}

/// The end of a submission: if it failed, any part may have taken effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion<'a> {
    /// Which submission.
    pub id: SubmissionId,
    /// How the operation ended.
    pub result: Result<Data<'a>, DeviceError>,
}
