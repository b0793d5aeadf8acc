//! The resizes of volumes, as the event loop keeps them and gives them away.

use std::sync::Arc;

use kickcache_engine::device::Device;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::VolumeId;

use crate::driver::device::BlockFile;
use crate::serve::verbs::growth::Growth;
use crate::serve::verbs::superblock_lease::ResizeId;

/// The origin of a volume whose resize has begun.
pub(crate) struct OriginToResize {
    pub(crate) resize: ResizeId,
    pub(crate) file: Arc<BlockFile>,
    /// The present superblock, which may change until the lease.
    pub(crate) superblock: Superblock,
}

/// The result of a check of an origin's size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Resized {
    /// The size of the volume in bytes after the check.
    pub(crate) size: u64,
    /// Whether this size differs from the size before.
    pub(crate) growth: Growth,
}

/// The device that a resize waits for.
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

/// The resizes of a server, as its event loop keeps them.
#[derive(Default)]
pub(crate) struct RunningResizes {
    pub(crate) running: Vec<ResizeId>,
    /// The number of all resizes so far.
    pub(crate) count: u64,
}

impl RunningResizes {
    /// Notes a resize that begins.
    pub(crate) fn begin(&mut self, volume: VolumeId) -> ResizeId {
        let resize = ResizeId { volume, number: self.count };
        self.count += 1;
        self.running.push(resize);
        resize
    }

    /// Whether a resize of the volume is in progress.
    pub(crate) fn has(&self, volume: VolumeId) -> bool {
        self.running.iter().any(|resize| resize.volume == volume)
    }

    /// Abandons the resize of a volume that is to be removed: its script gets no lease.
    pub(crate) fn abandon(&mut self, volume: VolumeId) {
        self.running.retain(|resize| resize.volume != volume);
    }
}
