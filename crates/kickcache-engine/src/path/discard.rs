//! A discard: what the cache holds of the extent becomes *gone*, then the origin discards it, part by part.

use crate::config::FILL_WINDOW_MAX;
use crate::device::{Device, DeviceError, DeviceOperation};
use crate::inflight::origin::{Access, Ticket};
use crate::inflight::requests::{RequestSlot, Stage, blocks_of};
use crate::inflight::submissions::Purpose;
use crate::order::DurableWaiter;
use crate::request::Errno;
use crate::state::State;
use crate::units::{BLOCK_SIZE, BlockKey, ByteExtent};

/// Bytes that one part covers while blocks of the volume are cached.
const PART_BYTES: u64 = 16 * FILL_WINDOW_MAX;

fn cursor(state: &mut State, slot: RequestSlot) -> (&mut u64, &mut Option<Ticket>) {
    match &mut state.requests.get_mut(slot).stage {
        Stage::Cursor { next, ticket } => (next, ticket),
        Stage::Simple | Stage::Write(_) => panic!("a discard has a cursor"),
    }
}

/// Begins the next part of a discard, or ends it. Partial blocks at the ends keep their data.
pub(crate) fn go_on(state: &mut State, slot: RequestSlot) {
    let pending = state.requests.get(slot);
    let (volume, extent, has_failed) = (pending.volume, pending.extent, pending.error.is_some());
    let end = extent.end() / BLOCK_SIZE * BLOCK_SIZE;
    let start = cursor(state, slot).0.div_ceil(BLOCK_SIZE) * BLOCK_SIZE;
    if start >= end || has_failed {
        state.end_request(slot);
        return;
    }
    if state.must_stall(volume, extent) {
        state.stall(slot);
        return;
    }
    let is_empty = state.cache.volume(volume).cached == 0;
    let length = if is_empty { end - start } else { (end - start).min(PART_BYTES) };
    let part = ByteExtent { start, length };
    if !is_empty {
        blocks_of(part).for_each(|block| state.forget(BlockKey::new(volume, block)));
    }
    state.fills.spoil(volume, part);
    let access = state.enqueue(volume, part, Access::Write);
    let (next, ticket) = cursor(state, slot);
    *next = part.end();
    *ticket = Some(access);
    state.hold(slot);
    let operation = DeviceOperation::Discard { device: Device::Origin(volume), extent: part };
    state.discards.push((slot, operation));
    state.wait_durable(DurableWaiter::Around(slot));
}

/// The *gone* records of a part are durable, or never will be.
pub(crate) fn on_gone_durable(state: &mut State, slot: RequestSlot, is_durable: bool) {
    let at = state.discards.iter().position(|(waiting, _)| *waiting == slot).expect("the part is waiting");
    let (_, operation) = state.discards.swap_remove(at);
    let volume = state.requests.get(slot).volume;
    let ticket = cursor(state, slot).1.expect("the part holds its place");
    if is_durable || state.is_out_of_service() {
        state.volume_mut(volume).queue.set_ready(ticket, operation, Purpose::Discard { request: slot });
        return;
    }
    *cursor(state, slot).1 = None;
    state.release_ticket(volume, ticket);
    state.release_with(slot, Err(Errno::Io));
}

/// The origin's part came back; an origin that cannot discard keeps its data, which is allowed.
pub(crate) fn on_origin(state: &mut State, slot: RequestSlot, result: Result<(), DeviceError>) {
    let volume = state.requests.get(slot).volume;
    let ticket = cursor(state, slot).1.take().expect("the part holds its place");
    state.release_ticket(volume, ticket);
    let now = state.now;
    state.volume_mut(volume).flush.on_client_write(now);
    let result = match result {
        Ok(()) | Err(DeviceError::Unsupported) => Ok(()),
        Err(DeviceError::Io | DeviceError::Gone | DeviceError::NoSpace) => Err(Errno::Io),
    };
    state.release_with(slot, result);
}
