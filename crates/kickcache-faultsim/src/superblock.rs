//! The superblock of a simulated cache device, as a daemon would find it.

use kickcache_engine::error::Error;
use kickcache_engine::format::superblock::{SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock};
use kickcache_engine::units::ByteExtent;

use crate::device::SimulatedDevice;

/// What both copies say together.
pub(crate) fn superblock(cache: &SimulatedDevice) -> Result<Superblock, Error> {
    let copy = |start: u64| cache.bytes(ByteExtent { start, length: SUPERBLOCK_SIZE as u64 });
    let [first, second] = SUPERBLOCK_OFFSETS.map(copy);
    Superblock::decode([&first, &second], cache.size())
}
