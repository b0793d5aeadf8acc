//! The place of a volume as a block device.

use crate::plan::frontends::ublk::id::UblkId;
use crate::plan::volume_spec::VolumeSpec;

/// The index of no volume: of a device that is not served yet, or not any more.
pub(crate) const NOBODY: usize = usize::MAX;

pub(crate) struct UblkPlace {
    pub(crate) volume: usize,
    pub(crate) id: UblkId,
    /// Queues to request for a new device.
    pub(crate) queues: u16,
    /// Requests of each queue of a new device.
    pub(crate) depth: u16,
    /// Bytes of a logical block of a new device: 512 or 4096.
    pub(crate) block_bytes: u32,
}

impl UblkPlace {
    pub(crate) fn of(spec: &VolumeSpec, volume: usize) -> Option<UblkPlace> {
        let ublk = spec.frontends.ublk;
        let (queues, depth) = (ublk.queues.unwrap_or_default().get(), ublk.depth.unwrap_or_default().get());
        let block_bytes = spec.frontends.guest_block_bytes();
        ublk.id.map(|id| UblkPlace { volume, id, queues, depth, block_bytes })
    }
}
