//! Reads from the origin straight into the request's memory.

use crate::device::{Checksums, Device, DeviceOperation, Piece, Pieces};
use crate::ids::RequestSlot;
use crate::inflight::origin::OriginAccess;
use crate::inflight::purpose::{OriginRead, Purpose};
use crate::path::read::lookup;
use crate::request::ReadFrom;
use crate::state::State;
use crate::units::{BLOCK_SIZE, ByteExtent};

pub(super) fn read_directly(state: &mut State, slot: RequestSlot, part: ByteExtent) {
    read_into_request(state, slot, part, |part| Purpose::Direct { request: slot, part });
}

/// Reads blocks from the origin that the cache has too.
#[inline(never)]
pub(super) fn read_shared(state: &mut State, slot: RequestSlot, extent: ByteExtent) {
    let volume = state.requests.get(slot).volume;
    state.volumes.get_mut(volume).counters.offloaded_blocks += extent.length / BLOCK_SIZE;
    read_into_request(state, slot, extent, |part| Purpose::Shared { request: slot, part });
}

fn read_into_request(
    state: &mut State,
    slot: RequestSlot,
    extent: ByteExtent,
    purpose: impl FnOnce(OriginRead) -> Purpose,
) {
    state.requests.add_pending(slot);
    state.requests.get_mut(slot).read_from = ReadFrom::Origin;
    let volume = state.requests.get(slot).volume;
    state.begin_metered_read(volume, extent);
    let memory = lookup::payload(state, slot, extent.start);
    let length = u32::try_from(extent.length).expect("requests have at most 32 MiB");
    let ticket = state.volumes.get_mut(volume).enqueue(extent, OriginAccess::Read);
    let operation = DeviceOperation::Read {
        device: Device::Origin(volume),
        offset: extent.start,
        pieces: Pieces::One(Piece { memory, length }),
        checksums: Checksums::Skip,
    };
    state.volumes.get_mut(volume).queue.set_ready(ticket, operation, purpose(OriginRead { ticket, extent }));
}
