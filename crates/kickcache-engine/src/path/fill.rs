//! A fill comes back: its readers get their bytes, and what is still true of it is promoted.
//!
//! Invariants:
//! * I-5: a block that was changed since the fill began is not promoted, nor one that the cache holds already.

use crate::cache::slots::SlotState;
use crate::device::{Checksums, Data, DeviceError, DeviceOperation, Memory};
use crate::ids::FillSlot;
use crate::inflight::fills::{Fill, FillWaiter};
use crate::inflight::requests::{block_extent, blocks_of, intersection};
use crate::log::Entry;
use crate::pool::page_memory;
use crate::queue::Queue;
use crate::request::{Durability, Errno};
use crate::state::{Claim, NewBlock, State};
use crate::task::Task;
use crate::units::{BLOCK_SIZE, BlockKey, Checksum};

/// The origin's answer.
pub(crate) fn on_filled(state: &mut State, slot: FillSlot, result: Result<Data<'_>, DeviceError>) {
    let fill = state.fills.remove(slot);
    state.release_ticket(fill.volume, fill.ticket);
    state.end_metered_read(fill.volume, fill.extent);
    match result {
        Ok(data) => {
            fill.waiters.iter().for_each(|waiter| hand_out(state, &fill, waiter));
            promote(state, &fill, data.checksums);
        }
        Err(_) => fail(state, &fill),
    }
    state.wake_stalled();
}

/// Copies what a waiter wants into its memory.
fn hand_out(state: &mut State, fill: &Fill, waiter: &FillWaiter) {
    let pending = state.requests.get(waiter.request);
    let (id, start) = (pending.id, pending.extent.start);
    for block in blocks_of(waiter.extent).filter(|_| waiter.wants_data) {
        let part = intersection(waiter.extent, block_extent(block));
        let page = fill.pages[fill.offset_of(block).expect("within the fill")];
        let skip = u32::try_from(part.start % BLOCK_SIZE).expect("below 4096");
        let offset = u32::try_from(part.start - start).expect("requests have at most 32 MiB");
        state.submit_memory(DeviceOperation::Copy {
            from: Memory::Pool { page, offset: skip },
            to: Memory::Request { id, offset },
            length: u32::try_from(part.length).expect("at most a block"),
            checksums: Checksums::Skip,
        });
    }
    state.release(waiter.request);
}

/// Puts blocks into the log that the cache does not hold; the others' pages are given back.
fn promote(state: &mut State, fill: &Fill, checksums: &[Checksum]) {
    let is_unsettled = state.volume(fill.volume).flush.is_unsettled();
    let slot_state = if is_unsettled { SlotState::Unflushed } else { SlotState::Clean };
    let is_too_much = is_unsettled && state.is_log_overdrawn(fill.volume);
    if fill.promote {
        let count = u32::try_from(fill.pages.len()).expect("at most 256 blocks");
        state.log.keep_together(Queue::Probation, count);
        state.log.keep_together(Queue::Main, count);
    }
    for (offset, block) in blocks_of(fill.extent).enumerate() {
        let key = BlockKey::new(fill.volume, block);
        let page = fill.pages[offset];
        let queue = if fill.main.contains(offset) { Queue::Main } else { Queue::Probation };
        let is_wanted = fill.promote && !fill.stale.contains(offset) && state.cache.find(key).is_none();
        let has_room = state.has_spare_room(queue) && !state.is_out_of_service();
        if !is_wanted || is_too_much || !has_room {
            state.pool.release(page);
            continue;
        }
        let entry = Entry {
            key: Some(key),
            memory: page_memory(page),
            checksum: checksums[offset],
            dirty: is_unsettled,
            page: Some(page),
            older: None,
        };
        let block = NewBlock {
            claim: Claim::Spare,
            queue,
            entry,
            state: slot_state,
            waiter: None,
            durability: Durability::Volatile,
        };
        let Some(location) = state.append(key, block) else {
            state.pool.release(page);
            continue;
        };
        state.pool.disown(page);
        if is_unsettled {
            state.await_flush(key, location);
        }
        if !fill.wanted.contains(offset) {
            state.cache.set_prefetched(location);
        }
        state.volume_mut(fill.volume).counters.promoted_blocks += 1;
    }
}

/// The origin could not read the extent; where it was wider than asked for, the waiters try without the rest.
fn fail(state: &mut State, fill: &Fill) {
    state.volume_mut(fill.volume).counters.origin_errors += 1;
    fill.pages.iter().for_each(|page| state.pool.release(*page));
    for waiter in &fill.waiters {
        if waiter.extent.widened_to_blocks() == fill.extent || !waiter.wants_data {
            state.release_with(waiter.request, Err(Errno::Io));
        } else {
            state.agenda.push_back(Task::ReadOrigin(waiter.request, waiter.extent));
        }
    }
}
