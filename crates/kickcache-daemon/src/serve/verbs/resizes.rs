//! The resizes of volumes, as the event loop keeps them and gives them away.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use kickcache_engine::device::Device;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::VolumeId;

use crate::driver::device::BlockFile;
use crate::serve::error::ServeError;
use crate::serve::verbs::growth::Growth;
use crate::serve::verbs::superblock_lease::SuperblockLease;

/// A resize: if its volume is removed meanwhile, another volume may get the same number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ResizeId {
    pub(crate) volume: VolumeId,
    /// The number of resizes before this one.
    pub(crate) number: u64,
}

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
    /// Resizes that wait for the superblock, in the order of their requests.
    pub(crate) waiting: VecDeque<WaitingResize>,
    /// The resize that has the lease of the superblock.
    pub(crate) leased: Option<ResizeId>,
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

    /// Whether a resize of the volume waits for the superblock, or writes it.
    pub(crate) fn stores(&self, volume: VolumeId) -> bool {
        let is_queued = self.waiting.iter().any(|waiting| waiting.resize.volume == volume);
        is_queued || self.leased.is_some_and(|leased| leased.volume == volume)
    }

    /// Abandons the resize of a volume that is to be removed: its script gets no lease.
    pub(crate) fn abandon(&mut self, volume: VolumeId) {
        self.running.retain(|resize| resize.volume != volume);
    }
}

/// A resize that waits for the superblock.
pub(crate) struct WaitingResize {
    pub(crate) resize: ResizeId,
    pub(crate) answer: Sender<Result<SuperblockLease, ServeError>>,
}
