//! The places of the blocks of a read, and the destination of its bytes.

use crate::cache::slots::SlotState;
use crate::device::Memory;
use crate::ids::RequestSlot;
use crate::state::State;
use crate::units::{BlockIndex, BlockKey, ByteExtent, Location, SECTOR_SIZE};

/// Most blocks of one hit or miss.
pub(super) const RUN_MAX: u32 = 256;

/// The place in a request's memory for a byte of its volume.
pub(super) fn payload(state: &State, slot: RequestSlot, at: u64) -> Memory {
    let pending = state.requests.get(slot);
    let offset = u32::try_from(at - pending.extent.start).expect("requests have at most 32 MiB");
    Memory::Request { id: pending.id, offset }
}

/// Prefetches the index entries of the first blocks of reads.
pub(crate) fn warm(state: &State, reads: &[RequestSlot]) {
    state.cache.warm(reads.iter().map(|slot| {
        let pending = state.requests.get(*slot);
        BlockKey::new(pending.volume, BlockIndex::containing(pending.extent.start))
    }));
}

/// The location of a block, if it may be served from there.
#[inline]
pub(super) fn find(state: &State, key: BlockKey) -> Option<Location> {
    let location = state.cache.find(key)?;
    let is_clean = state.cache.slots().state(location) == SlotState::Clean;
    let is_left = is_clean && state.device.is_out_of_service();
    if is_left || state.may_vanish(key, location) { None } else { Some(location) }
}

pub(super) const fn is_sector_aligned(extent: ByteExtent) -> bool {
    extent.start.is_multiple_of(SECTOR_SIZE) && extent.end().is_multiple_of(SECTOR_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;
    use crate::device::DeviceError;
    use crate::scene::Scene;

    #[test]
    fn out_of_service_only_blocks_the_origin_lacks_are_found() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.read(0, 4096).0.unwrap();
        scene.write(1 << 20, 4096).0.unwrap();
        scene.fail("origin", DeviceError::Io);
        scene.engine.state.take_out_of_service();
        let found = |offset| {
            let key = BlockKey::new(crate::units::VolumeId::new(0), BlockIndex::containing(offset));
            (scene.is_cached(offset), find(&scene.engine.state, key).is_some())
        };
        assert_eq!((found(0), found(1 << 20)), ((true, false), (true, true)));
    }

    #[test]
    fn an_extent_is_aligned_if_both_of_its_ends_are() {
        let aligned = |start, length| is_sector_aligned(ByteExtent { start, length });
        assert_eq!([aligned(512, 1024), aligned(511, 513), aligned(512, 100)], [true, false, false]);
    }
}
