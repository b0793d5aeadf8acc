//! The devices as they are before a run.

use kickcache_engine::units::{BLOCK_SIZE, VolumeId};
use kickcache_random::Random;

use crate::content::Block;
use crate::device::SimulatedDevice;
use crate::index::index;
use crate::oracle::book::INITIAL;
use crate::oracle::cells::CHUNK;
use crate::plan::Plan;

pub(crate) fn draw_filled(size: u64, plan: &Plan, random: &mut Random) -> Vec<bool> {
    (0..size.div_ceil(CHUNK)).map(|_| random.chance(plan.filled_permille)).collect()
}

pub(crate) fn origin(volume: VolumeId, size: u64, filled: &[bool]) -> SimulatedDevice {
    let mut device = SimulatedDevice::new(size);
    let blocks = CHUNK / BLOCK_SIZE;
    for block in (0..size / BLOCK_SIZE).filter(|block| filled[index(block / blocks)]) {
        device.prepare(block, &Block::stamp(volume, block, INITIAL));
    }
    device
}

pub(crate) fn cache_device(plan: &Plan, random: &mut Random) -> SimulatedDevice {
    let mut device = SimulatedDevice::new(plan.cache_size);
    if plan.cache_stale {
        for block in 0..plan.cache_size.div_ceil(BLOCK_SIZE) {
            device.prepare(block, &Block::Noise(random.next_u64()));
        }
    }
    device
}
