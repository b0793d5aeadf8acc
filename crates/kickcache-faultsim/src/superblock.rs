//! The superblock of a simulated cache device, as a daemon would find it.

use kickcache_engine::error::Error;
use kickcache_engine::format::superblock::{SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock};
use kickcache_engine::units::ByteExtent;

use crate::device::SimulatedDevice;

pub(crate) fn superblock(cache: &SimulatedDevice) -> Result<Superblock, Error> {
    let [first, second] = copies(cache);
    Superblock::decode([&first, &second], cache.size())
}

/// The superblock, decoded from both copies, even if the device must not be served.
pub(crate) fn any_superblock(cache: &SimulatedDevice) -> Result<Superblock, Error> {
    let [first, second] = copies(cache);
    Superblock::decode_any([&first, &second], cache.size())
}

/// Each copy alone, also of a device with a successor.
pub(crate) fn each_superblock(cache: &SimulatedDevice) -> [Result<Superblock, Error>; 2] {
    copies(cache).map(|copy| Superblock::decode_any([&copy, &copy], cache.size()))
}

fn copies(cache: &SimulatedDevice) -> [Vec<u8>; 2] {
    SUPERBLOCK_OFFSETS.map(|start| cache.bytes(ByteExtent { start, length: SUPERBLOCK_SIZE as u64 }))
}
