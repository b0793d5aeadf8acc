//! The devices as they are before a run.

use kickcache_engine::units::VolumeId;

use crate::random::Random;
use crate::world::content::stamp;
use crate::world::device::SimulatedDevice;
use crate::world::oracle::CHUNK;
use crate::world::oracle::book::INITIAL;
use crate::world::plan::Plan;

/// Which chunks of an origin hold data before the run.
pub(crate) fn draw_filled(size: u64, plan: &Plan, random: &mut Random) -> Vec<bool> {
    (0..size.div_ceil(CHUNK)).map(|_| random.chance(plan.filled_permille)).collect()
}

/// An origin with its first content.
pub(crate) fn origin(volume: VolumeId, size: u64, filled: &[bool]) -> SimulatedDevice {
    let mut device = SimulatedDevice::new(size);
    let mut bytes = vec![0; usize::try_from(CHUNK).expect("small")];
    for (start, _) in
        (0..size).step_by(usize::try_from(CHUNK).expect("small")).zip(filled).filter(|chunk| *chunk.1)
    {
        let length = usize::try_from(CHUNK.min(size - start)).expect("small");
        stamp(volume, INITIAL, start, &mut bytes[..length]);
        device.prepare(start, &bytes[..length]);
    }
    device
}

/// The cache device as it is before it is formatted.
pub(crate) fn cache_device(plan: &Plan, random: &mut Random) -> SimulatedDevice {
    let mut device = SimulatedDevice::new(plan.cache_size);
    if plan.cache_junk {
        let words = plan.cache_size / 8;
        let junk: Vec<u8> = (0..words).flat_map(|_| random.next_u64().to_le_bytes()).collect();
        device.prepare(0, &junk);
    }
    device
}
