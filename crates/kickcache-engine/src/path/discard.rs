//! A discard: what the cache holds of the extent becomes *gone*, then the origin discards it, part by part.

use alloc::vec::Vec;

use crate::cache::CachedBlock;
use crate::config::{FILL_WINDOW_MAX, OriginKind};
use crate::device::{Device, DeviceError, DeviceOperation};
use crate::ids::RequestSlot;
use crate::inflight::blocks::blocks_of;
use crate::inflight::origin::OriginAccess;
use crate::inflight::purpose::Purpose;
use crate::inflight::requests::{Cursor, Stage, WaitingDiscard};
use crate::order::DurableWaiter;
use crate::request::Errno;
use crate::state::State;
use crate::units::{BLOCK_SIZE, BlockKey, ByteExtent, Location, VolumeId};

/// Bytes that one part covers while blocks of the volume are cached.
const PART_BYTES: u64 = 16 * FILL_WINDOW_MAX;

fn cursor(state: &mut State, slot: RequestSlot) -> &mut Cursor {
    match &mut state.requests.get_mut(slot).stage {
        Stage::Cursor(cursor) => cursor,
        Stage::Simple | Stage::Write(_) => panic!("a discard has a cursor"),
    }
}

/// Begins the next part of a discard, or ends it. Partial blocks at the ends keep their data.
pub(crate) fn go_on(state: &mut State, slot: RequestSlot) {
    let pending = state.requests.get(slot);
    let (volume, extent, has_failed) = (pending.volume, pending.extent, pending.error.is_some());
    let end = extent.end() / BLOCK_SIZE * BLOCK_SIZE;
    let start = cursor(state, slot).next.div_ceil(BLOCK_SIZE) * BLOCK_SIZE;
    if start >= end || has_failed {
        state.end_request(slot);
        return;
    }
    if state.must_stall(volume, extent) {
        state.stall(slot);
        return;
    }
    let is_unmarked = state.device.is_out_of_service() && !state.marking.is_recorded();
    if is_unmarked && !mutant!(OutOfServiceUnmarked) {
        // What is forgotten now, a restart must not bring back.
        state.requests.add_pending(slot);
        state.wait_marked(slot);
        return;
    }
    let is_empty = state.cache.volume(volume).cached == 0;
    let length = if is_empty { end - start } else { (end - start).min(PART_BYTES) };
    let part = ByteExtent { start, length };
    let forgotten = if is_empty { Vec::new() } else { forget(state, volume, part) };
    if !mutant!(DiscardJoinsFill) {
        state.fills.invalidate(volume, part);
    }
    let access = state.volumes.get_mut(volume).enqueue(part, OriginAccess::Write);
    *cursor(state, slot) = Cursor { next: part.end(), ticket: Some(access) };
    state.requests.add_pending(slot);
    let operation = DeviceOperation::Discard { device: Device::Origin(volume), extent: part };
    state.requests.wait_discard(WaitingDiscard { slot, operation, forgotten });
    state.wait_durable(DurableWaiter::Around(slot));
}

/// Forgets the blocks of a part; gives those that the origin lacks, each with its place.
fn forget(state: &mut State, volume: VolumeId, part: ByteExtent) -> Vec<CachedBlock> {
    let mut dirty = Vec::new();
    for key in blocks_of(part).map(|block| BlockKey::new(volume, block)) {
        let found = state.cache.find(key);
        let is_dirty = |location: &Location| state.cache.slots().state(*location).is_not_clean();
        dirty.extend(found.filter(is_dirty).map(|location| CachedBlock { key, location }));
        state.forget(key);
    }
    dirty
}

/// What stood in the way of the origin's part is out of it, or cannot be for now.
pub(crate) fn go_past_cache(state: &mut State, slot: RequestSlot, result: Result<(), Errno>) {
    let Some(ticket) = cursor(state, slot).ticket else {
        state.end_pending_with(slot, result);
        return;
    };
    let WaitingDiscard { operation, forgotten, .. } = state.requests.take_discard(slot);
    let volume = state.requests.get(slot).volume;
    if result.is_ok() {
        state.volumes.get_mut(volume).queue.set_ready(ticket, operation, Purpose::Discard { request: slot });
        return;
    }
    if !mutant!(DiscardedNotBroughtBack) {
        forgotten.into_iter().for_each(|block| state.bring_back(block.key, block.location));
    }
    cursor(state, slot).ticket = None;
    state.release_ticket(volume, ticket);
    state.end_pending_with(slot, result);
}

/// The origin's part came back; an origin that cannot discard keeps its data, which is allowed.
pub(crate) fn on_origin(state: &mut State, slot: RequestSlot, result: Result<(), DeviceError>) {
    let volume = state.requests.get(slot).volume;
    let ticket = cursor(state, slot).ticket.take().expect("the part holds its place");
    state.release_ticket(volume, ticket);
    let now = state.now;
    let found = state.volumes.get_mut(volume);
    match (result, found.settings.origin) {
        // It was durable when it ended.
        (Ok(()), OriginKind::Remote) => found.flush.on_write(now),
        (Ok(()), OriginKind::Local) if mutant!(LocalDiscardDurable) => found.flush.on_write(now),
        (Ok(()), OriginKind::Local) | (Err(_), _) => {
            found.flush.on_client_write(now);
            state.requests.get_mut(slot).note_volatile();
        }
    }
    let result = match result {
        Ok(()) | Err(DeviceError::Unsupported) => Ok(()),
        Err(DeviceError::Io | DeviceError::Gone | DeviceError::NoSpace) => Err(Errno::Io),
    };
    state.end_pending_with(slot, result);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;
    use crate::request::Operation;
    use crate::scene::Scene;

    #[test]
    fn partial_blocks_at_the_ends_keep_their_data_and_what_is_forgotten_is_so_before_the_origin_is_asked() {
        let mut scene = Scene::new(Mode::WriteBack);
        [0, 8192, 16384].into_iter().for_each(|start| scene.write(start, 4096).0.unwrap());
        let (result, seen) = scene.ask(Operation::Discard, 100, 20_000);
        assert_eq!(result, Ok(()));
        assert_eq!(seen, ["cache log 0", "cache flush", "origin discard 4096+12288"]);
        assert_eq!([0, 8192, 16384].map(|start| scene.is_cached(start)), [true, false, true]);
    }

    #[test]
    fn an_origin_that_cannot_discard_keeps_its_data_and_one_that_fails_is_told() {
        for (error, result) in [(DeviceError::Unsupported, Ok(())), (DeviceError::Io, Err(Errno::Io))] {
            let mut scene = Scene::new(Mode::WriteBack);
            scene.fail("origin discard", error);
            assert_eq!(scene.ask(Operation::Discard, 0, 8192).0, result);
        }
    }
}
