//! The resizes of volumes, as the event loop keeps them.

use std::sync::Arc;

use kickcache_engine::device::Device;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::VolumeId;

use crate::driver::device::BlockFile;
use crate::serve::verbs::growth::Growth;
use crate::serve::verbs::superblock_lease::ResizeId;

pub(crate) struct OriginToResize {
    pub(crate) resize: ResizeId,
    pub(crate) file: Arc<BlockFile>,
    /// The present superblock, which may change until the lease.
    pub(crate) superblock: Superblock,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Resized {
    /// The resulting size of the volume in bytes.
    pub(crate) size: u64,
    pub(crate) growth: Growth,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AwaitedDevice {
    Origin(VolumeId),
    Cache,
}

impl AwaitedDevice {
    pub(crate) fn device(self) -> Device {
        match self {
            AwaitedDevice::Origin(volume) => Device::Origin(volume),
            AwaitedDevice::Cache => Device::Cache,
        }
    }
}

#[derive(Default)]
pub(crate) struct RunningResizes {
    pub(crate) running: Vec<ResizeId>,
    pub(crate) count: u64,
}

impl RunningResizes {
    pub(crate) fn begin(&mut self, volume: VolumeId) -> ResizeId {
        let resize = ResizeId { volume, number: self.count };
        self.count += 1;
        self.running.push(resize);
        resize
    }

    pub(crate) fn has(&self, volume: VolumeId) -> bool {
        self.running.iter().any(|resize| resize.volume == volume)
    }

    /// Abandons the resize of a volume that is to be removed: its script gets no lease.
    pub(crate) fn abandon(&mut self, volume: VolumeId) {
        self.running.retain(|resize| resize.volume != volume);
    }
}
