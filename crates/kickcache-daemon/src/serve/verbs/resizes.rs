//! The resizes of volumes, as the event loop keeps them and gives them away.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::VolumeId;

use crate::driver::device::BlockFile;
use crate::serve::error::ServeError;

/// The origin of a volume whose resize has begun.
pub(crate) struct OriginToResize {
    pub(crate) volume: VolumeId,
    pub(crate) file: Arc<BlockFile>,
    /// The present superblock, which may change until the lease.
    pub(crate) superblock: Superblock,
}

/// The exclusive right to write the superblock.
pub(crate) struct SizeLease {
    /// The superblock as on the cache device.
    pub(crate) superblock: Superblock,
    /// `None` while volumes are served without a cache device.
    pub(crate) cache: Option<Arc<BlockFile>>,
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
    pub(crate) answer: Sender<Result<SizeLease, ServeError>>,
}
