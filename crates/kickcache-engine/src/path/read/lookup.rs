//! Where the blocks of a read are, and where its bytes go.

use crate::cache::slots::SlotState;
use crate::device::Memory;
use crate::ids::RequestSlot;
use crate::state::State;
use crate::units::{BlockIndex, BlockKey, ByteExtent, Location, SECTOR_SIZE};

/// Most whole blocks of one read.
pub(super) const RUN_MAX: u32 = 256;

/// Where a request's bytes for a place on its volume lie.
pub(super) fn payload(state: &State, slot: RequestSlot, at: u64) -> Memory {
    let pending = state.requests.get(slot);
    let offset = u32::try_from(at - pending.extent.start).expect("requests have at most 32 MiB");
    Memory::Request { id: pending.id, offset }
}

/// Fetches the places in memory that reads will look at first.
pub(crate) fn warm(state: &State, reads: &[RequestSlot]) {
    state.cache.warm(reads.iter().map(|slot| {
        let pending = state.requests.get(*slot);
        BlockKey::new(pending.volume, BlockIndex::containing(pending.extent.start))
    }));
}

/// Where a block stands, if it may be served from there.
#[inline]
pub(super) fn find(state: &State, key: BlockKey) -> Option<Location> {
    let location = state.cache.find(key)?;
    let is_clean = state.cache.slots().state(location) == SlotState::Clean;
    let is_left = is_clean && state.device.is_out_of_service();
    if is_left || state.may_be_refused(key, location) { None } else { Some(location) }
}

pub(super) const fn is_sector_aligned(extent: ByteExtent) -> bool {
    extent.start.is_multiple_of(SECTOR_SIZE) && extent.end().is_multiple_of(SECTOR_SIZE)
}
