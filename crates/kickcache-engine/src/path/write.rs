//! A write, or write-zeroes: into the log, through it to the origin, or around it.
//!
//! Over 500 lines because the ways lead into each other, and a path names no other path.
//!
//! Invariants:
//! * I-1: a write through the log goes to the origin only after its batch landed, durably if an older copy of a block
//!   could come back; a write around the log only after *gone* is durable for what the cache held.
//! * I-2: a write is acknowledged only after its batch landed, or the origin ended it.

use alloc::vec::Vec;

use crate::cache::BlockCopy;
use crate::cache::slots::SlotState;
use crate::config::{BATCH_BLOCKS_MAX, FILL_WINDOW_MAX};
use crate::device::{Device, DeviceError, DeviceOperation, Memory, Piece, Pieces};
use crate::ids::RequestSlot;
use crate::inflight::origin::Access;
use crate::inflight::purpose::Purpose;
use crate::inflight::requests::{IfRefused, Route, Source, Stage, Step, Writing, Written, blocks_of};
use crate::log::Entry;
use crate::order::DurableWaiter;
use crate::pool::{Pool, page_memory, page_piece};
use crate::queue::Queue;
use crate::request::{Durability, Errno};
use crate::state::{Claim, NewBlock, State};
use crate::task::Task;
use crate::units::{BLOCK_LENGTH, BLOCK_SIZE, BlockIndex, BlockKey, ByteExtent, Checksum, Location};

/// CRC32C of 4096 zero bytes.
const ZERO_BLOCK_CHECKSUM: Checksum = Checksum::new(0x98f9_4189);

/// Begins a write, or the next part of one.
pub(crate) fn begin(state: &mut State, slot: RequestSlot) {
    let pending = state.requests.get_mut(slot);
    let (volume, whole) = (pending.volume, pending.extent);
    let writing = pending.writing();
    if writing.step == Step::Undoing {
        undo(state, slot);
        return;
    }
    let (start, source) = (writing.extent.start, writing.source);
    let rest = ByteExtent { start, length: whole.end() - start };
    let part = match source {
        Source::Payload => part_of_payload(rest, part_max(state)),
        Source::Zeroes if state.cache.volume(volume).cached == 0 => part_of_zeroes(rest, rest.length),
        Source::Zeroes => part_of_zeroes(rest, FILL_WINDOW_MAX.min(part_max(state))),
    };
    state.requests.get_mut(slot).writing().extent = part;
    let extent = state.requests.get_mut(slot).writing().extent.widened_to_blocks();
    if state.must_stall(volume, extent) {
        state.stall(slot);
        return;
    }
    let route = state.choose_route(slot);
    let writing = state.requests.get_mut(slot).writing();
    writing.route = route;
    state.meter_write(slot);
    let writing = state.requests.get_mut(slot).writing();
    let needs_merge = route != Route::Around && writing.partial_blocks().next().is_some();
    if needs_merge {
        lock(state, slot);
        state.agenda.push_back(Task::Merge(slot));
    } else {
        take_route(state, slot);
    }
}

/// There is no memory to complete partial blocks: the write begins again when there is, as do those that its lock
/// stopped. None of them is woken before: two that want memory would wake each other for ever.
pub(crate) fn postpone(state: &mut State, slot: RequestSlot) {
    state.write_locks.retain(|lock| lock.0 != slot);
    state.end_metered(slot);
    state.stalled.push_back(slot);
}

/// Bytes of a write that the log takes together: all of its blocks keep their segments until the last has room.
fn part_max(state: &State) -> u64 {
    state.retention.capacity() / 8 * BLOCK_SIZE
}

/// The next part of a write: up to a block boundary.
fn part_of_payload(rest: ByteExtent, length_max: u64) -> ByteExtent {
    let length = if rest.length > length_max { length_max - rest.start % BLOCK_SIZE } else { rest.length };
    ByteExtent { length, ..rest }
}

/// The next part of write-zeroes: up to the next block boundary, then whole blocks, then the rest.
fn part_of_zeroes(rest: ByteExtent, length_max: u64) -> ByteExtent {
    let into_block = rest.start % BLOCK_SIZE;
    let length = if into_block != 0 {
        rest.length.min(BLOCK_SIZE - into_block)
    } else if rest.length >= BLOCK_SIZE {
        rest.length.min(length_max) / BLOCK_SIZE * BLOCK_SIZE
    } else {
        rest.length
    };
    ByteExtent { start: rest.start, length }
}

fn take_route(state: &mut State, slot: RequestSlot) {
    let writing = state.requests.get_mut(slot).writing();
    match writing.route {
        route @ (Route::Log | Route::LogThrough) => {
            writing.step = Step::Logging;
            state.through_writes += u32::from(route == Route::LogThrough);
            state.hold(slot);
            append(state, slot);
        }
        Route::Around => go_around(state, slot),
        Route::Through => go_through(state, slot),
    }
}

/// Whether an older copy of a block could come back after a power cut.
fn may_resurface(state: &State, key: BlockKey) -> bool {
    (!state.order.is_durable(state.newest_gone) && !mutant!(GoneResurfaces))
        || state.cache.find(key).is_some()
}

/// Appends the blocks of a write, or queues it behind others that wait for room.
fn append(state: &mut State, slot: RequestSlot) {
    let is_turn = state.space_waiters.is_empty();
    if state.is_out_of_service() {
        give_up_log(state, slot);
    } else if is_turn && append_blocks(state, slot) {
        on_appended(state, slot);
    } else {
        state.space_waiters.push_back(slot);
        lock(state, slot);
    }
}

/// Holds other writes to the extent back: partial blocks are being completed, or the write waits for room.
fn lock(state: &mut State, slot: RequestSlot) {
    if state.write_locks.iter().any(|lock| lock.0 == slot) {
        return;
    }
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let extent = pending.writing().extent.widened_to_blocks();
    state.write_locks.push((slot, volume, extent));
}

/// Writes that wait for room in the log go on, in order.
pub(crate) fn go_on_appending(state: &mut State) {
    while let Some(slot) = state.space_waiters.front().copied() {
        if state.is_out_of_service() {
            state.space_waiters.pop_front();
            give_up_log(state, slot);
        } else if append_blocks(state, slot) {
            state.space_waiters.pop_front();
            on_appended(state, slot);
        } else {
            return;
        }
    }
}

/// The log takes nothing any more.
fn give_up_log(state: &mut State, slot: RequestSlot) {
    state.requests.get_mut(slot).writing().log_failed = true;
    unlock(state, slot);
    state.release(slot);
}

/// All blocks of a write are in the log: it waits for them to land.
fn on_appended(state: &mut State, slot: RequestSlot) {
    unlock(state, slot);
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let writing = pending.writing();
    if writing.route == Route::LogThrough {
        let extent = writing.extent.widened_to_blocks();
        let ticket = state.enqueue(volume, extent, Access::Write);
        state.requests.get_mut(slot).writing().ticket = Some(ticket);
    }
    state.release(slot);
}

fn append_blocks(state: &mut State, slot: RequestSlot) -> bool {
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let writing = pending.writing();
    let (extent, done) = (writing.extent, writing.written.len());
    state.fills.spoil(volume, extent);
    if done == 0 {
        // Which head each block goes to shows only when it is looked up, once.
        let count = u32::try_from(blocks_of(extent).len()).expect("requests have at most 32 MiB");
        for queue in Queue::ALL {
            state.log.keep_together(queue, count.min(BATCH_BLOCKS_MAX));
        }
    }
    blocks_of(extent).skip(done).all(|block| append_block(state, slot, BlockKey::new(volume, block)))
}

/// Appends a block; `false` if the log has no room for it now.
fn append_block(state: &mut State, slot: RequestSlot, key: BlockKey) -> bool {
    let writing = state.requests.get_mut(slot).writing();
    let (route, durability) = (writing.route, writing.durability);
    let found = state.cache.find(key);
    let entry = Entry { older: state.older_copy(found), ..entry_of(state, slot, key) };
    let known =
        if found.is_some() { Some(Queue::Main) } else { state.retention.place(key).map(|known| known.queue) };
    let is_at_stake = route == Route::LogThrough && may_resurface(state, key);
    let durability = if is_at_stake { Durability::Durable } else { durability };
    let durability = if mutant!(FuaIgnored) { Durability::Volatile } else { durability };
    let if_refused = if_refused(state, slot, key, found);
    let new = NewBlock {
        claim: Claim::Spare,
        queue: known.unwrap_or(Queue::Probation),
        entry,
        state: SlotState::Dirty,
        waiter: Some(slot).filter(|_| !mutant!(AcknowledgedBeforeLanding)),
        durability,
    };
    let Some(location) = state.append(key, new) else { return false };
    if route == Route::LogThrough {
        state.cache.enter_sweep(location);
    }
    let copy = state.cache.copy_at(key, location);
    state.volume_mut(key.volume()).counters.logged_blocks += 1;
    state.requests.get_mut(slot).writing().written.push(Written { copy, if_refused });
    true
}

/// What becomes of a block if the origin refuses it: it stays only if the log has something of it, before this write, that
/// the origin lacks or may lose. What another write put there that waits for the origin as well is as that one found it.
fn if_refused(state: &State, slot: RequestSlot, key: BlockKey, found: Option<Location>) -> IfRefused {
    let Some(location) = state.older_copy(found) else { return IfRefused::Forgotten };
    let copy = state.cache.copy_at(key, location);
    let is_earlier = match &state.requests.get(slot).stage {
        Stage::Write(writing) => writing.earlier.contains(&copy),
        Stage::Simple | Stage::Cursor { .. } => false,
    };
    if is_earlier {
        return IfRefused::Forgotten;
    }
    state.written_through(copy).unwrap_or_else(|| match state.cache.slots().state(location) {
        SlotState::Unflushed => IfRefused::StaysUnflushed,
        SlotState::Dirty | SlotState::Clean | SlotState::Dead => IfRefused::StaysDirty,
    })
}

/// A block of a write as the log takes it.
fn entry_of(state: &mut State, slot: RequestSlot, key: BlockKey) -> Entry {
    let pending = state.requests.get_mut(slot);
    let (id, start) = (pending.id, pending.extent.start);
    let writing = pending.writing();
    let (memory, checksum) = match (writing.merged(key.block()), writing.source) {
        (Some(merged), _) => (page_memory(merged.page), merged.checksum),
        (None, Source::Zeroes) => (page_memory(Pool::ZERO_PAGE), ZERO_BLOCK_CHECKSUM),
        (None, Source::Payload) => {
            let at = key.block().byte_offset() - start;
            let offset = u32::try_from(at).expect("requests have at most 32 MiB");
            let number = usize::try_from(at / BLOCK_SIZE).expect("below 8192");
            (Memory::Request { id, offset }, writing.checksums[number])
        }
    };
    Entry { key: Some(key), memory, checksum, dirty: true, page: None, older: None }
}

fn unlock(state: &mut State, slot: RequestSlot) {
    let before = state.write_locks.len();
    state.write_locks.retain(|lock| lock.0 != slot);
    if state.write_locks.len() != before {
        state.wake_stalled();
    }
}

/// What the cache holds of the extent becomes *gone*; then the origin takes the write.
fn go_around(state: &mut State, slot: RequestSlot) {
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let writing = pending.writing();
    writing.step = Step::Origin;
    let extent = writing.extent;
    state.volume_mut(volume).counters.bypass_blocks += blocks_of(extent).len() as u64;
    forget_all(state, slot, extent);
    state.fills.spoil(volume, extent);
    let ticket = state.enqueue(volume, extent, Access::Write);
    state.requests.get_mut(slot).writing().ticket = Some(ticket);
    state.hold(slot);
    if mutant!(GoneNotAwaited) {
        state.agenda.push_back(Task::Durable(DurableWaiter::Around(slot)));
        return;
    }
    state.wait_gone(DurableWaiter::Around(slot));
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

/// The origin takes the write; whole blocks, as the merged ones are.
fn go_through(state: &mut State, slot: RequestSlot) {
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let writing = pending.writing();
    writing.step = Step::Origin;
    let extent = writing.extent.widened_to_blocks();
    state.fills.spoil(volume, extent);
    // Dirty blocks are forgotten when the origin has the write; until then nothing else brings them there.
    lock(state, slot);
    let ticket = state.enqueue(volume, extent, Access::Write);
    state.requests.get_mut(slot).writing().ticket = Some(ticket);
    state.hold(slot);
    state.wait_marked(slot);
}

/// What stood in the way of the origin's part is out of it, or never will be.
pub(crate) fn go_past_cache(state: &mut State, slot: RequestSlot, result: Result<(), Errno>) {
    let writing = state.requests.get_mut(slot).writing();
    match (writing.step, result) {
        (Step::Undoing, result) => end_undoing(state, slot, result),
        (_, Ok(())) => submit(state, slot),
        (_, Err(_)) => end_origin_part(state, slot, result),
    }
}

/// Hands the origin's part of a write to its queue.
fn submit(state: &mut State, slot: RequestSlot) {
    let pending = state.requests.get_mut(slot);
    let (id, volume, start) = (pending.id, pending.volume, pending.extent.start);
    let writing = pending.writing();
    let ticket = writing.ticket.expect("the write holds its place");
    let is_whole = writing.route != Route::Around;
    let extent = if is_whole { writing.extent.widened_to_blocks() } else { writing.extent };
    let device = Device::Origin(volume);
    let durability = writing.durability;
    let operation = if writing.source == Source::Zeroes && writing.merged.is_empty() {
        DeviceOperation::WriteZeroes { device, extent, unmap: writing.unmap, durability }
    } else {
        let pieces = pieces_of(writing, extent, (id, start));
        DeviceOperation::Write { device, offset: extent.start, pieces, durability }
    };
    state.volume_mut(volume).queue.set_ready(ticket, operation, Purpose::RequestWrite { request: slot });
}

/// The memory of an extent: merged pages where blocks are partial, the payload between them.
fn pieces_of(writing: &Writing, extent: ByteExtent, payload: (crate::request::RequestId, u64)) -> Pieces {
    let (id, start) = payload;
    let memory = |at: u64| Memory::Request {
        id,
        offset: u32::try_from(at - start).expect("requests have at most 32 MiB"),
    };
    if writing.merged.is_empty() && writing.source == Source::Payload {
        let length = u32::try_from(extent.length).expect("requests have at most 32 MiB");
        return Pieces::One(Piece { memory: memory(extent.start), length });
    }
    let piece = |block: BlockIndex| match (writing.merged(block), writing.source) {
        (Some(merged), _) => page_piece(merged.page),
        (None, Source::Zeroes) => page_piece(Pool::ZERO_PAGE),
        (None, Source::Payload) => Piece { memory: memory(block.byte_offset()), length: BLOCK_LENGTH },
    };
    Pieces::Many(blocks_of(extent).map(piece).collect())
}

/// Nothing is outstanding: the write goes on to its next step.
pub(crate) fn on_settled(state: &mut State, slot: RequestSlot) {
    let pending = state.requests.get_mut(slot);
    let has_failed = pending.error.is_some();
    let writing = pending.writing();
    match writing.step {
        Step::Arrived => {}
        Step::Merging if has_failed => {
            unlock(state, slot);
            end(state, slot);
        }
        Step::Merging => {
            writing.merged.sort_by_key(|merged| merged.block);
            take_route(state, slot);
        }
        Step::Logging => on_logged(state, slot),
        Step::Origin | Step::Undoing => end(state, slot),
    }
}

/// All batches of a write landed.
fn on_logged(state: &mut State, slot: RequestSlot) {
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let writing = pending.writing();
    writing.step = Step::Origin;
    let (route, log_failed) = (writing.route, writing.log_failed);
    let extent = writing.extent.widened_to_blocks();
    if route == Route::Log && !log_failed {
        end(state, slot);
        return;
    }
    if log_failed && !may_go_on(state, slot) {
        start_again(state, slot);
        return;
    }
    if log_failed {
        // What is read from the origin meanwhile is older.
        state.fills.spoil(volume, extent);
    }
    state.hold(slot);
    if log_failed { state.wait_marked(slot) } else { submit(state, slot) }
}

/// Whether a write that the log did not take wholly may have its turn at the origin with what it has: the log takes
/// nothing any more, and holds nothing older of its blocks that the origin lacks.
fn may_go_on(state: &mut State, slot: RequestSlot) -> bool {
    let mut keys = state.keys(slot);
    let writing = state.requests.get_mut(slot).writing();
    let (has_ticket, own) = (writing.ticket.is_some(), writing.written.clone());
    let is_others = |key: BlockKey| {
        let is_own = |location: &Location| {
            let copy = state.cache.copy_at(key, *location);
            own.iter().any(|written| written.copy == copy)
        };
        let found = state.cache.find(key).filter(|location| !is_own(location));
        found.is_some_and(|location| state.cache.slots().state(location) == SlotState::Dirty)
    };
    has_ticket && state.is_out_of_service() && !keys.any(is_others)
}

/// The log took only a part: the write begins once more, so that what stands around its partial blocks is read again,
/// in its turn among the writes that came meanwhile.
fn start_again(state: &mut State, slot: RequestSlot) {
    let writing = state.requests.get_mut(slot).writing();
    writing.step = Step::Arrived;
    writing.log_failed = false;
    let pages: Vec<_> = writing.merged.drain(..).map(|merged| merged.page).collect();
    let ticket = writing.ticket.take();
    writing.remember_own();
    let was_through = writing.route == Route::LogThrough;
    state.through_writes -= u32::from(was_through);
    settle_blocks(state, slot, AtOrigin::NotWritten);
    if let Some(ticket) = ticket {
        let volume = state.requests.get(slot).volume;
        state.release_ticket(volume, ticket);
    }
    pages.into_iter().for_each(|page| state.pool.release(page));
    state.wake_stalled();
    state.agenda.push_back(Task::Begin(slot));
}

/// The origin's part came back.
pub(crate) fn on_origin(state: &mut State, slot: RequestSlot, result: Result<(), DeviceError>) {
    let (now, volume) = (state.now, state.requests.get(slot).volume);
    let found = state.volume_mut(volume);
    match result {
        Ok(()) => found.flush.on_client_write(now),
        Err(_) => {
            // Parts of it may stand there, and be read, without being durable.
            found.flush.on_write(now);
            found.counters.origin_errors += 1;
        }
    }
    end_origin_part(state, slot, result.map_err(errno_of));
}

fn end_origin_part(state: &mut State, slot: RequestSlot, result: Result<(), Errno>) {
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let writing = pending.writing();
    let route = writing.route;
    state.through_writes -= u32::from(route == Route::LogThrough);
    if route == Route::LogThrough && result.is_err() && !state.is_out_of_service() {
        state.requests.get_mut(slot).error = result.err();
        begin_undoing(state, slot);
        return;
    }
    let writing = state.requests.get_mut(slot).writing();
    let ticket = writing.ticket.take().expect("the write holds its place");
    state.release_ticket(volume, ticket);
    settle_blocks(state, slot, AtOrigin::of(&result));
    if route == Route::Through {
        if result.is_ok() {
            let extent = state.requests.get_mut(slot).writing().extent.widened_to_blocks();
            forget_all(state, slot, extent);
        }
        unlock(state, slot);
    }
    state.release_with(slot, result);
}

/// The origin refused a write that stands in the log. Its client will be told that it failed: the log must not fill with
/// such blocks, nor may they come back after a restart. What was dirty before stays, with the new content.
fn begin_undoing(state: &mut State, slot: RequestSlot) {
    let writing = state.requests.get_mut(slot).writing();
    writing.remember_own();
    writing.step = Step::Undoing;
    settle_blocks(state, slot, AtOrigin::NotWritten);
    undo(state, slot);
}

/// Forgets what a refused write put into the log; the client is told when that is durable. The write keeps its place
/// until then: what is read behind it and cached must not be taken for what it wrote, should the records be lost.
fn undo(state: &mut State, slot: RequestSlot) {
    if !state.journal.has_room() && !state.is_out_of_service() {
        state.stall(slot);
        return;
    }
    let own = core::mem::take(&mut state.requests.get_mut(slot).writing().earlier);
    for copy in own {
        let is_dirty = state.cache.slots().state(copy.location) == SlotState::Dirty;
        if state.cache.is_alive(copy) && is_dirty {
            state.forget(copy.key);
            state.requests.get_mut(slot).writing().earlier.push(copy);
        }
    }
    state.wait_gone(DurableWaiter::Around(slot));
}

/// What a refused write put into the log is forgotten for good, or that cannot be.
fn end_undoing(state: &mut State, slot: RequestSlot, result: Result<(), Errno>) {
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let writing = pending.writing();
    let own = core::mem::take(&mut writing.earlier);
    let ticket = writing.ticket.take().expect("the write holds its place");
    if result.is_err() {
        own.into_iter().for_each(|copy| state.bring_back(copy.key, copy.location));
    }
    state.release_ticket(volume, ticket);
    state.release(slot);
}

const fn errno_of(error: DeviceError) -> Errno {
    match error {
        DeviceError::NoSpace => Errno::NoSpace,
        DeviceError::Unsupported => Errno::NotSupported,
        DeviceError::Io | DeviceError::Gone => Errno::Io,
    }
}

/// Whether the origin's part of a write through the log was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AtOrigin {
    Written,
    NotWritten,
}

impl AtOrigin {
    const fn of<E>(result: &Result<(), E>) -> AtOrigin {
        if result.is_ok() { AtOrigin::Written } else { AtOrigin::NotWritten }
    }
}

/// The blocks of a write through the log: the origin holds them now, or writeback will try again.
fn settle_blocks(state: &mut State, slot: RequestSlot, at_origin: AtOrigin) {
    let written = core::mem::take(&mut state.requests.get_mut(slot).writing().written);
    for Written { copy, .. } in written {
        let BlockCopy { key, location, .. } = copy;
        if state.cache.is_alive(copy) && state.cache.slots().state(location) == SlotState::Dirty {
            state.cache.leave_sweep(location);
            if at_origin == AtOrigin::Written {
                state.cache.set_state(location, SlotState::Unflushed);
                state.await_flush(key, location);
            }
        }
    }
}

/// A write, or a part of write-zeroes, is done.
fn end(state: &mut State, slot: RequestSlot) {
    state.end_metered(slot);
    let pending = state.requests.get_mut(slot);
    let (volume, has_failed, whole) = (pending.volume, pending.error.is_some(), pending.extent.end());
    let writing = pending.writing();
    let pages: Vec<_> = writing.merged.drain(..).map(|merged| merged.page).collect();
    writing.written.clear();
    writing.earlier.clear();
    let was_logged = writing.route == Route::Log;
    let done = writing.extent.end();
    let is_over = has_failed || done >= whole;
    if !is_over {
        writing.step = Step::Arrived;
        writing.log_failed = false;
        writing.extent = ByteExtent { start: done, length: whole - done };
    }
    if was_logged {
        state.agenda.push_back(Task::Writeback(volume));
    }
    let has_pages = !pages.is_empty();
    pages.into_iter().for_each(|page| state.pool.release(page));
    if has_pages {
        state.wake_stalled();
    }
    if is_over {
        state.end_request(slot);
    } else {
        state.agenda.push_back(Task::Begin(slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::bytes::crc32c;

    #[test]
    fn zero_block_checksum_is_that_of_zeroes() {
        assert_eq!(crc32c(&[0; 4096]), ZERO_BLOCK_CHECKSUM);
    }

    #[test]
    fn long_writes_go_in_parts_that_end_with_a_block() {
        let part = |start, length| part_of_payload(ByteExtent { start, length }, 16384).length;
        assert_eq!((part(100, 16384), part(100, 16385), part(4096, 20000)), (16384, 16284, 16384));
    }

    #[test]
    fn zeroes_go_block_by_block_where_they_are_not_aligned() {
        let part = |start, length| part_of_zeroes(ByteExtent { start, length }, 1 << 20);
        assert_eq!(part(100, 10), ByteExtent { start: 100, length: 10 });
        assert_eq!(part(100, 5000), ByteExtent { start: 100, length: 3996 });
        assert_eq!(part(4096, 5000), ByteExtent { start: 4096, length: 4096 });
        assert_eq!(part(8192, 5), ByteExtent { start: 8192, length: 5 });
        assert_eq!(part(0, 1 << 30), ByteExtent { start: 0, length: 1 << 20 });
    }
}
