//! Where a volume is served.

use crate::plan::ublk_id::UblkId;
use crate::plan::volume_spec::VolumeSpec;

/// Which device a volume is.
pub(crate) struct UblkPlace {
    /// The volume's index.
    pub(crate) volume: usize,
    pub(crate) id: UblkId,
    /// Queues of a device that is new.
    pub(crate) queues: u16,
    /// Requests of each.
    pub(crate) depth: u16,
    /// Bytes of a logical block: 512 or 4096.
    pub(crate) block_bytes: u32,
}

impl UblkPlace {
    /// That of the volume of an index, if it is to be a block device.
    pub(crate) fn of(spec: &VolumeSpec, volume: usize) -> Option<UblkPlace> {
        let (queues, depth, block_bytes) = (spec.ublk_queues, spec.ublk_depth, spec.guest_block_bytes());
        spec.ublk.map(|id| UblkPlace { volume, id, queues, depth, block_bytes })
    }
}
