//! A submission of the engine that has not ended.

use kickcache_engine::device::{Device, DeviceError, DeviceOperation};
use kickcache_engine::units::{ByteExtent, Checksum, VolumeId};

use crate::device::{FlushTicket, WriteTicket};
use crate::operation::{device_and_flush, extent_of, is_write};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    Submitted,
    Wrote(WriteTicket),
    Flushing(FlushTicket),
    Done,
    Failed(DeviceError),
}

#[derive(Clone, Debug)]
pub(super) struct InFlight {
    pub(super) id: u64,
    pub(super) operation: DeviceOperation,
    pub(super) device: Device,
    pub(super) extent: ByteExtent,
    pub(super) is_flush: bool,
    pub(super) writes: bool,
    pub(super) progress: Progress,
    /// A second server received the submission as well.
    pub(super) is_repeated: bool,
    pub(super) checksums: Vec<Checksum>,
    pub(super) bytes: Vec<u8>,
}

impl InFlight {
    pub(super) fn new(id: u64, operation: DeviceOperation) -> InFlight {
        let (device, is_flush) = device_and_flush(&operation);
        let (extent, writes) = (extent_of(&operation), is_write(&operation));
        let (progress, checksums, bytes) = (Progress::Submitted, Vec::new(), Vec::new());
        InFlight {
            id,
            operation,
            device,
            extent,
            is_flush,
            writes,
            progress,
            is_repeated: false,
            checksums,
            bytes,
        }
    }

    /// Whether the host must make a record.
    pub(super) fn is_note(&self) -> bool {
        matches!(self.operation, DeviceOperation::NoteOutOfService { .. })
    }

    /// The volume of the origin, if this is a flush that failed.
    pub(super) fn forgetful_origin(&self) -> Option<VolumeId> {
        match (self.device, &self.progress) {
            (Device::Origin(volume), Progress::Failed(_)) if self.is_flush => Some(volume),
            _ => None,
        }
    }
}
