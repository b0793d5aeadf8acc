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

/// The origin of a volume whose resize has begun.
pub(crate) struct OriginToResize {
    pub(crate) volume: VolumeId,
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
    pub(crate) volumes: Vec<VolumeId>,
    /// Resizes that wait for the superblock, in the order of their requests.
    pub(crate) waiting: VecDeque<WaitingResize>,
    /// The volume whose resize has the lease of the superblock.
    pub(crate) leased: Option<VolumeId>,
}

/// A resize that waits for the superblock.
pub(crate) struct WaitingResize {
    pub(crate) volume: VolumeId,
    pub(crate) answer: Sender<Result<SuperblockLease, ServeError>>,
}
