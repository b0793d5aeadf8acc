//! The lease of the superblock, for a script that writes it.

use std::sync::Arc;

use kickcache_engine::format::superblock::Superblock;

use crate::driver::device::BlockFile;

/// The exclusive right to write the superblock.
pub(crate) struct SuperblockLease {
    /// The superblock as on the cache device.
    pub(crate) superblock: Superblock,
    /// `None` while volumes are served without a cache device.
    pub(crate) cache: Option<Arc<BlockFile>>,
}
