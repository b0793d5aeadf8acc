//! The origin's part of a write.

use alloc::vec::Vec;

use crate::device::{Device, DeviceError, DeviceOperation, Memory, Piece, Pieces};
use crate::ids::RequestSlot;
use crate::inflight::blocks::blocks_of;
use crate::inflight::origin::OriginAccess;
use crate::inflight::purpose::Purpose;
use crate::inflight::searching::Treatment;
use crate::inflight::writing::{OriginTurn, Route, WriteData, WritePhase, Writing};
use crate::order::DurableWaiter;
use crate::path::write::{finish, lock, supersede, undo};
use crate::pool::{Pool, page_piece};
use crate::request::{Durability, Errno};
use crate::state::State;
use crate::task::Task;
use crate::units::{BLOCK_LENGTH, BlockIndex, BlockKey, ByteExtent, VolumeId};

/// The most blocks of one durable write past the log that are recorded for the recognition of the origin.
const WITNESSES_MAX: usize = 8;

/// The cached blocks of the extent are dropped durably; then the origin executes the write.
pub(super) fn go_around(state: &mut State, slot: RequestSlot) {
    let extent = state.requests.get_mut(slot).writing().extent;
    forget_all(state, slot, extent);
    wait_for_origin(state, slot, Route::Around);
}

/// The clean blocks of the extent are dropped durably; then the origin executes the write, while the dirty ones stay in
/// the log.
pub(super) fn go_around_dirty(state: &mut State, slot: RequestSlot) {
    lock::lock_replaced(state, slot);
    take_place(state, slot, Route::Supersede);
    let extent = state.requests.get_mut(slot).writing().extent;
    state.search(slot, extent, Treatment::ForgetClean);
}

/// The clean blocks of the extent are dropped.
pub(super) fn on_clean_forgotten(state: &mut State, slot: RequestSlot) {
    match state.requests.get_mut(slot).writing().source {
        // Writes with data have this route only if the dirty blocks are already durable.
        WriteData::Payload => state.wait_gone(DurableWaiter::Around(slot)),
        WriteData::Zeroes => make_log_durable(state, slot),
    }
}

/// Makes the dirty blocks of the extent durable: otherwise a power cut could restore an older copy as clean, over
/// zeroes at the origin.
fn make_log_durable(state: &mut State, slot: RequestSlot) {
    state.requests.get_mut(slot).writing().failed_batches = state.device.failed_batches();
    state.agenda.push_back(Task::Barrier(DurableWaiter::Around(slot)));
}

/// `false` if dirty blocks that must be durable may have been in a failed batch.
fn is_log_durable(state: &mut State, slot: RequestSlot, turn: OriginTurn) -> bool {
    let failed_batches = state.device.failed_batches();
    let is_out = state.device.is_out_of_service();
    let writing = state.requests.get_mut(slot).writing();
    let is_awaited = turn.route == Route::Supersede && writing.source == WriteData::Zeroes;
    !is_awaited || is_out || writing.failed_batches == failed_batches
}

/// Takes a place among the accesses to the origin.
fn wait_for_origin(state: &mut State, slot: RequestSlot, route: Route) {
    take_place(state, slot, route);
    if mutant!(GoneNotAwaited) {
        state.agenda.push_back(Task::Durable(DurableWaiter::Around(slot)));
        return;
    }
    state.wait_gone(DurableWaiter::Around(slot));
}

fn take_place(state: &mut State, slot: RequestSlot, route: Route) {
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let extent = pending.writing().extent;
    state.volumes.get_mut(volume).counters.bypass_blocks += blocks_of(extent).len() as u64;
    state.fills.invalidate(volume, extent);
    let ticket = state.volumes.get_mut(volume).enqueue(extent, OriginAccess::Write);
    let phase = WritePhase::AtOrigin(OriginTurn { route, ticket });
    state.requests.get_mut(slot).writing().phase = phase;
    state.requests.add_pending(slot);
}

fn forget_all(state: &mut State, slot: RequestSlot, extent: ByteExtent) {
    let volume = state.requests.get(slot).volume;
    if state.cache.volume(volume).cached == 0 {
        return;
    }
    for block in blocks_of(extent) {
        state.forget(BlockKey::new(volume, block));
    }
}

/// The cache device is out of service: the origin executes the write, in whole blocks.
pub(super) fn go_through(state: &mut State, slot: RequestSlot) {
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let extent = pending.writing().extent.widened_to_blocks();
    state.fills.invalidate(volume, extent);
    // Dirty blocks are dropped when the origin has the write; until then writeback must not store them on the origin.
    lock::lock_replaced(state, slot);
    let ticket = state.volumes.get_mut(volume).enqueue(extent, OriginAccess::Write);
    let phase = WritePhase::AtOrigin(OriginTurn { route: Route::Through, ticket });
    state.requests.get_mut(slot).writing().phase = phase;
    state.requests.add_pending(slot);
    state.wait_marked(slot);
}

/// The records that the write waited for are durable, or cannot be made durable for now.
pub(crate) fn go_past_cache(state: &mut State, slot: RequestSlot, result: Result<(), Errno>) {
    let writing = state.requests.get_mut(slot).writing();
    match (writing.phase, result) {
        (WritePhase::Undoing { ticket }, result) => undo::end_undoing(state, slot, ticket, result),
        (WritePhase::Superseding { ticket }, result) => {
            supersede::end_superseding(state, slot, ticket, result);
        }
        (WritePhase::AtOrigin(turn), Ok(())) if !is_log_durable(state, slot, turn) => {
            make_log_durable(state, slot);
        }
        (_, Ok(())) => submit(state, slot),
        (_, Err(_)) => end_origin_part(state, slot, result),
    }
}

/// Makes the origin's part of a write ready for its submission, in the order of the queue.
pub(super) fn submit(state: &mut State, slot: RequestSlot) {
    let pending = state.requests.get_mut(slot);
    let (id, volume, start) = (pending.id, pending.volume, pending.extent.start);
    let writing = pending.writing();
    let OriginTurn { route, ticket } = writing.at_origin();
    let extent = if route.passes_log() { writing.extent } else { writing.extent.widened_to_blocks() };
    let device = Device::Origin(volume);
    let asked = durability_asked(writing, route);
    let durability = state.volumes.get(volume).durability_without_copy(asked);
    let writing = state.requests.get_mut(slot).writing();
    let operation = if writing.source == WriteData::Zeroes && writing.merged.is_empty() {
        DeviceOperation::WriteZeroes { device, extent, unmap: writing.unmap, durability }
    } else {
        let payload = |at: u64| {
            let offset = u32::try_from(at - start).expect("requests have at most 32 MiB");
            Memory::Request { id, offset }
        };
        let pieces = pieces_of(writing, extent, payload);
        DeviceOperation::Write { device, offset: extent.start, pieces, durability }
    };
    let purpose = Purpose::RequestWrite { request: slot, stands_for: Vec::new() };
    state.volumes.get_mut(volume).queue.set_ready(ticket, operation, purpose);
}

/// The durability that the origin's write must have when it ends: if it supersedes dirty blocks of the log, no other
/// copy exists.
fn durability_asked(writing: &Writing, route: Route) -> Durability {
    match route {
        Route::Supersede if !mutant!(SupersededByVolatile) => Durability::Durable,
        Route::Supersede | Route::Log | Route::LogThrough | Route::Around | Route::Through => {
            writing.durability
        }
    }
}

/// The memory of an extent: merged pages where blocks are partial, the payload or zeroes between them.
fn pieces_of(writing: &Writing, extent: ByteExtent, payload: impl Fn(u64) -> Memory) -> Pieces {
    if writing.merged.is_empty() && writing.source == WriteData::Payload {
        let length = u32::try_from(extent.length).expect("requests have at most 32 MiB");
        return Pieces::One(Piece { memory: payload(extent.start), length });
    }
    let piece = |block: BlockIndex| match (writing.merged(block), writing.source) {
        (Some(merged), _) => page_piece(merged.page),
        (None, WriteData::Zeroes) => page_piece(Pool::ZERO_PAGE),
        (None, WriteData::Payload) => Piece { memory: payload(block.byte_offset()), length: BLOCK_LENGTH },
    };
    Pieces::Many(blocks_of(extent).map(piece).collect())
}

/// The origin's part has ended. If it replaced others, and failed, each of them is submitted alone: the origin may
/// refuse one and accept the others.
pub(crate) fn on_origin(
    state: &mut State,
    slot: RequestSlot,
    stands_for: Vec<RequestSlot>,
    result: Result<(), DeviceError>,
) {
    let was_alone = stands_for.is_empty();
    let all = stands_for.into_iter().chain([slot]);
    if result.is_ok() || was_alone || mutant!(RefusedTogether) {
        all.for_each(|slot| on_one(state, slot, result));
        return;
    }
    let volume = state.requests.get(slot).volume;
    note_error(state, volume);
    for slot in all {
        let OriginTurn { ticket, .. } = state.requests.get_mut(slot).writing().at_origin();
        state.volumes.get_mut(volume).queue.set_apart(ticket);
        submit(state, slot);
    }
}

/// The origin refused a write: it may have stored parts, which can be read without being durable.
fn note_error(state: &mut State, volume: VolumeId) {
    let now = state.now;
    let found = state.volumes.get_mut(volume);
    found.flush.on_write(now);
    found.counters.origin_errors += 1;
    found.refused_at = Some(now);
}

fn on_one(state: &mut State, slot: RequestSlot, result: Result<(), DeviceError>) {
    let (now, volume) = (state.now, state.requests.get(slot).volume);
    let is_out = state.device.is_out_of_service();
    let writing = state.requests.get_mut(slot).writing();
    let (extent, route) = (writing.extent, writing.at_origin().route);
    let asked = durability_asked(writing, route);
    let found = state.volumes.get_mut(volume);
    match (result, found.durability_without_copy(asked)) {
        (Ok(()), Durability::Volatile) => {
            if route == Route::LogThrough {
                found.flush.on_client_write(now, extent.length);
            } else {
                found.flush.on_bypassing_write(now, extent.length);
                state.requests.get_mut(slot).note_volatile();
            }
        }
        (Ok(()), Durability::Durable) => {
            if route.passes_log() {
                let some = blocks_of(extent).take(WITNESSES_MAX);
                some.for_each(|block| found.flush.witnesses.add_durable(block));
            }
            if is_out {
                // Only a flush proves that the origin is complete (D-2).
                found.flush.on_write(now);
            }
        }
        (Err(_), durability) => {
            if durability == Durability::Durable {
                // As after a failed durable writeback.
                found.flush.on_durable_error();
                state.write_again(volume);
            }
            note_error(state, volume);
        }
    }
    end_origin_part(state, slot, result.map_err(errno_of));
}

fn end_origin_part(state: &mut State, slot: RequestSlot, result: Result<(), Errno>) {
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let OriginTurn { route, ticket } = pending.writing().at_origin();
    if route == Route::LogThrough && result.is_err() && !state.device.is_out_of_service() {
        state.requests.get_mut(slot).error = result.err();
        undo::begin_undoing(state, slot, ticket);
        return;
    }
    if route == Route::Supersede && result.is_ok() {
        supersede::begin_superseding(state, slot, ticket);
        return;
    }
    state.requests.through_count -= u32::from(route == Route::LogThrough);
    state.requests.get_mut(slot).writing().phase = WritePhase::Ended;
    state.release_ticket(volume, ticket);
    finish::note_at_origin(state, slot, finish::AtOrigin::of(&result));
    let extent = state.requests.get_mut(slot).writing().extent.widened_to_blocks();
    match (route, result) {
        (Route::Through, Ok(())) => forget_all(state, slot, extent),
        (Route::Through | Route::Supersede, Err(errno)) => {
            state.requests.get_mut(slot).fail(errno);
            supersede::keep_refused(state, slot, extent);
            return;
        }
        (Route::Log | Route::LogThrough | Route::Around, _) | (Route::Supersede, Ok(())) => {}
    }
    lock::unlock(state, slot);
    state.end_pending_with(slot, result);
}

const fn errno_of(error: DeviceError) -> Errno {
    match error {
        DeviceError::NoSpace => Errno::NoSpace,
        DeviceError::Unsupported => Errno::NotSupported,
        DeviceError::Io | DeviceError::Gone => Errno::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;
    use crate::request::{Durability, Operation, Unmap};
    use crate::scene::Scene;

    #[test]
    fn the_origin_gets_whole_blocks_from_the_log_only() {
        let mut through = Scene::new(Mode::WriteThrough);
        let seen = through.write(8192 + 512, 4096).1;
        assert_eq!(seen.last().unwrap(), "origin write 8192+8192", "{seen:?}");
        let mut around = Scene::new(Mode::WriteAround);
        assert_eq!(around.write(8192 + 512, 4096).1, ["origin write 8704+4096"]);
        let zeroes = Operation::WriteZeroes { unmap: Unmap::Forbid, durability: Durability::Volatile };
        assert_eq!(around.ask(zeroes, 8192, 8192).1, ["origin zeroes 8192+8192"]);
    }

    #[test]
    fn a_block_rewritten_while_busy_costs_one_more_write() {
        for mode in [Mode::WriteThrough, Mode::WriteAround] {
            let mut scene = Scene::new(mode);
            scene.hold("origin write");
            (0..6).for_each(|_| drop(scene.begin(Operation::Write(Durability::Volatile), 8192, 4096)));
            scene.end_held();
            let replies: Vec<_> = core::iter::from_fn(|| scene.take_reply()).collect();
            assert_eq!(replies, [Ok(()); 6], "{mode:?}");
            let writes = scene.engine.status().volumes[0].counters.origin_writes;
            assert_eq!(writes, 2, "{mode:?}");
        }
    }

    #[test]
    fn writes_refused_together_are_retried_one_by_one() {
        for mode in [Mode::WriteThrough, Mode::WriteAround] {
            for (failures, failed) in [(1, 0), (2, 1), (4, 3)] {
                let mut scene = Scene::new(mode);
                scene.hold("origin write");
                let write = Operation::Write(Durability::Volatile);
                for length in [4096, 4096, 4096, 8192] {
                    scene.begin(write, 8192, length);
                }
                scene.fail_times(failures, "origin write", DeviceError::Io);
                scene.end_held();
                let replies: Vec<_> = core::iter::from_fn(|| scene.take_reply()).collect();
                let refused = [Err(Errno::Io); 3].into_iter().take(failed).chain([Ok(()); 3]).take(3);
                assert_eq!(replies[0], Ok(()), "it was alone");
                assert_eq!(replies[1..], refused.collect::<Vec<_>>(), "{mode:?}, {failures}");
                let counters = &scene.engine.status().volumes[0].counters;
                assert_eq!(counters.origin_errors, u64::from(failures), "{mode:?}, {failures}");
                scene.engine.check();
            }
        }
    }

    #[test]
    fn a_write_with_a_released_part_fails() {
        let mut scene = Scene::new(Mode::WriteAround);
        scene.hold("origin zeroes");
        let zeroes = Operation::WriteZeroes { unmap: Unmap::Forbid, durability: Durability::Volatile };
        scene.begin(zeroes, 512, 4096);
        scene.end_held_first_and_hold("origin zeroes");
        scene.fail_times(1, "origin flush", DeviceError::Io);
        assert_eq!(scene.flush().0, Err(Errno::Io), "of the first part");
        scene.end_held();
        assert_eq!(scene.take_reply(), Some(Err(Errno::Io)));
        assert_eq!(scene.flush().0, Ok(()));
    }

    #[test]
    fn a_client_gets_the_error_of_the_origin() {
        for (error, errno) in [
            (DeviceError::NoSpace, Errno::NoSpace),
            (DeviceError::Unsupported, Errno::NotSupported),
            (DeviceError::Gone, Errno::Io),
        ] {
            let mut scene = Scene::new(Mode::WriteAround);
            scene.fail("origin write", error);
            assert_eq!(scene.write(8192, 4096).0, Err(errno));
        }
    }

    #[test]
    fn a_refused_write_needs_a_flush_of_the_origin() {
        let mut scene = Scene::new(Mode::WriteAround);
        scene.fail("origin write", DeviceError::Io);
        assert!(scene.write(8192, 4096).0.is_err());
        assert!(scene.engine.state.volumes.get(VolumeId::new(0)).flush.is_unsettled());
    }
}
