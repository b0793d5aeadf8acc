//! The growth of the cache device.

use std::sync::Arc;

use kickcache_engine::format::superblock::Superblock;

use crate::driver::device::BlockFile;
use crate::serve::verbs::superblock_lease::{LeaseAnswer, LeaseNumber};

/// The result of an order to grow the cache device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CacheGrown {
    /// The bytes that the cache device uses before the growth.
    pub(crate) before: u64,
    /// The bytes that the cache device will use; the same as before if it does not grow.
    pub(crate) size: u64,
    pub(crate) growth: Growth,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Growth {
    Grown,
    Unchanged,
}

pub(crate) enum GrowthStart {
    /// The growth has begun: the caller extends and examines the device.
    Begun(DeviceToGrow),
    /// The device grows to the wanted size already.
    Running(CacheGrown),
}

/// The cache device, without an obstacle to its growth.
pub(crate) struct DeviceToGrow {
    pub(crate) superblock: Superblock,
    pub(crate) cache: Arc<BlockFile>,
}

#[derive(Default)]
pub(crate) struct RunningGrowth {
    /// Bytes that the device is to use; `None` until they were examined.
    pub(crate) size: Option<u64>,
    /// The script that waits for the engine and for the superblock.
    pub(crate) waiting: Option<(LeaseNumber, LeaseAnswer)>,
}
