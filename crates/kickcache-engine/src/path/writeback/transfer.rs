//! Moves blocks from the cache device to the origin.

use alloc::vec::Vec;

use crate::cache::BlockCopy;
use crate::cache::slots::SlotState;
use crate::config::WRITEBACK_BACKOFF;
use crate::device::{Checksums, Data, Device, DeviceError, DeviceOperation, Pieces};
use crate::format::journal::Fact;
use crate::ids::WritebackSlot;
use crate::inflight::purpose::{Purpose, WritebackPart};
use crate::pool::page_pieces;
use crate::request::Durability;
use crate::state::State;
use crate::task::Task;
use crate::units::{BLOCK_SIZE, Location, PageIndex, VolumeId};

/// The location of a block, its page, and the writeback that it belongs to.
type Place = (Location, PageIndex, WritebackPart);

/// Reads the blocks of writebacks, adjacent ones in one read, and returns the number of reads.
pub(super) fn read_blocks(
    state: &mut State,
    volume: VolumeId,
    slots: &[WritebackSlot],
    mut spare: Vec<PageIndex>,
) -> u64 {
    let places = places_of(state, slots);
    let is_slow = state.volumes.get(volume).offload.is_cache_slow();
    let mut left = if is_slow { spare.len() } else { 0 };
    let geometry = *state.cache.geometry();
    let stand_together = |(one, ..): &Place, (other, ..): &Place| {
        let between = (other.get() - one.get() - 1) as usize;
        let is_one_read = between <= left && geometry.segment_of(*one) == geometry.segment_of(*other);
        left -= if is_one_read { between } else { 0 };
        is_one_read
    };
    let mut reads = 0;
    for run in places.chunk_by(stand_together) {
        let (mut pages, mut parts) = (Vec::with_capacity(run.len()), Vec::with_capacity(run.len()));
        let start = run[0].0;
        let mut next = start;
        for (location, page, part) in run {
            let between = spare.split_off(spare.len() - (location.get() - next.get()) as usize);
            parts.extend(between.iter().map(|page| WritebackPart::Between(*page)));
            pages.extend(between);
            parts.push(*part);
            pages.push(*page);
            next = location.plus(1);
        }
        let operation = DeviceOperation::Read {
            device: Device::Cache,
            offset: geometry.byte_offset(start),
            pieces: Pieces::Many(page_pieces(&pages)),
            checksums: Checksums::Compute,
        };
        if !mutant!(WritebackReadUnpinned) {
            state.pin(start);
        }
        state.begin_metered_writeback_read(volume, pages.len());
        state.submit(Purpose::WritebackRead { parts }, operation);
        reads += 1;
    }
    spare.into_iter().for_each(|page| state.pool.release(page));
    reads
}

/// The blocks of writebacks in the order of the log.
fn places_of(state: &mut State, slots: &[WritebackSlot]) -> Vec<Place> {
    let mut places = Vec::new();
    for slot in slots {
        let writeback = state.writebacks.get_mut(*slot);
        let blocks = writeback.blocks.iter().zip(&writeback.pages).zip(0..);
        places.extend(blocks.map(|((copy, page), number)| {
            (copy.location, *page, WritebackPart::Block { writeback: *slot, number })
        }));
    }
    places.sort_unstable_by_key(|(location, ..)| *location);
    places
}

pub(crate) fn on_read(state: &mut State, parts: &[WritebackPart], result: Result<Data<'_>, DeviceError>) {
    state.device.counters.errors += u64::from(result.is_err());
    let mut read = Vec::with_capacity(parts.len());
    for (offset, part) in parts.iter().enumerate() {
        match *part {
            WritebackPart::Between(page) => state.pool.release(page),
            WritebackPart::Block { writeback, number } => {
                read.push((writeback, state.writebacks.get_mut(writeback).blocks[number as usize], offset));
            }
        }
    }
    let first = read[0].1;
    state.end_metered_writeback_read(first.key.volume(), parts.len());
    for (slot, copy, offset) in &read {
        let checksum = result.ok().and_then(|data| data.checksums.get(*offset).copied());
        if checksum == Some(state.cache.slots().checksum(copy.location)) {
            state.clear_doubt(*copy);
            continue;
        }
        if mutant!(StretchErrorToldOnce) && *slot != read[0].0 {
            continue;
        }
        state.writebacks.get_mut(*slot).failed = true;
        if checksum.is_some() {
            on_damaged(state, *copy);
        } else if !on_unreadable(state, *copy, parts.len()) {
            state.volumes.get_mut(copy.key.volume()).backoff_until = state.now.plus(WRITEBACK_BACKOFF);
        }
    }
    if !mutant!(WritebackReadUnpinned) {
        state.unpin(first.location);
    }
    for (slot, ..) in read {
        let writeback = state.writebacks.get_mut(slot);
        writeback.missing -= 1;
        if writeback.missing == 0 {
            write(state, slot);
        }
    }
    state.agenda.push_back(Task::Writeback(first.key.volume()));
}

/// All blocks of a writeback are read: they are written to the origin, if each of them was read without a fault.
fn write(state: &mut State, slot: WritebackSlot) {
    let writeback = state.writebacks.get_mut(slot);
    if writeback.failed {
        finish(state, slot);
        return;
    }
    let (volume, ticket, extent) = (writeback.volume, writeback.ticket, writeback.extent);
    let (offset, pieces) = (extent.start, Pieces::Many(page_pieces(&writeback.pages)));
    let asked = writeback.durability;
    let durability = if state.device.is_out_of_service() {
        // A cache device out of service may not return the copy again: a remote origin must make the write durable.
        state.volumes.get(volume).durability_without_copy(asked)
    } else {
        asked
    };
    let durability = if mutant!(DurableWritebackVolatile) { Durability::Volatile } else { durability };
    let operation = DeviceOperation::Write { device: Device::Origin(volume), offset, pieces, durability };
    let purpose = Purpose::WritebackWrite { writeback: slot };
    state.begin_metered_writeback(volume, extent.length);
    state.volumes.get_mut(volume).queue.set_ready(ticket, operation, purpose);
}

/// A block, alone or with others, could not be read. `false` if the list of such blocks is full.
fn on_unreadable(state: &mut State, copy: BlockCopy, count: usize) -> bool {
    if !state.cache.is_alive(copy) {
        return true;
    }
    match state.cache.slots().state(copy.location) {
        // The origin has the block, so it is dropped.
        SlotState::Clean => state.forget(copy.key),
        SlotState::Dead => {}
        SlotState::Unflushed | SlotState::Dirty if count == 1 => return state.on_unreadable(copy),
        SlotState::Unflushed | SlotState::Dirty => return state.doubt(copy),
    }
    true
}

/// A block that is being written back is damaged: it must not reach the origin.
fn on_damaged(state: &mut State, copy: BlockCopy) {
    let BlockCopy { key, location, .. } = copy;
    if !state.cache.is_alive(copy) {
        return;
    }
    if state.cache.slots().state(location) == SlotState::Dirty {
        state.mark_damaged(key, location);
    } else if state.cache.slots().state(location) == SlotState::Clean {
        state.forget(key);
    }
}

pub(crate) fn on_written(state: &mut State, slot: WritebackSlot, result: Result<(), DeviceError>) {
    let writeback = state.writebacks.get_mut(slot);
    let (volume, blocks, bytes) = (writeback.volume, writeback.blocks.clone(), writeback.extent.length);
    let durability = writeback.durability;
    state.end_metered_writeback(volume, bytes);
    let now = state.now;
    let found = state.volumes.get_mut(volume);
    if result.is_err() {
        found.flush.on_write(now);
        found.counters.origin_errors += 1;
        found.rest_after_origin_error(now);
        if durability == Durability::Durable && !mutant!(FailedDurableWritebackAlone) {
            // An origin reports an error once, and it may be an error of earlier unflushed writes: these are written
            // again, and the next flush request reports the error of those that only the origin has.
            found.flush.on_durable_error();
            state.write_again(volume);
        }
        finish(state, slot);
        return;
    }
    if durability == Durability::Volatile || found.draining {
        // A drain ends with a flush of the origin, also after durable writebacks.
        found.flush.on_write(now);
    }
    found.counters.writeback_blocks += blocks.len() as u64;
    for copy in blocks {
        let BlockCopy { key, location, .. } = copy;
        if state.cache.is_alive(copy) && state.cache.slots().state(location) == SlotState::Dirty {
            if mutant!(CleanBeforeOriginFlush) {
                state.cache.set_state(location, SlotState::Clean);
                state.device.record(Fact::Clean(key));
                continue;
            }
            if durability == Durability::Durable {
                state.record_state(copy, SlotState::Clean);
                state.volumes.get_mut(volume).flush.witnesses.add_durable(key.block());
                continue;
            }
            state.cache.set_state(location, SlotState::Unflushed);
            state.await_flush(key, location);
            state.volumes.get_mut(volume).flush.witnesses.add(key.block());
        }
    }
    if durability == Durability::Durable {
        state.await_old_records();
        state.agenda.push_back(Task::Reclaim);
    }
    finish(state, slot);
}

fn finish(state: &mut State, slot: WritebackSlot) {
    let writeback = state.writebacks.remove(slot);
    let (volume, bytes) = (writeback.volume, writeback.extent.length);
    let (now, found) = (state.now, state.volumes.get_mut(volume));
    found.flush.end_writeback(bytes, writeback.durability);
    found.throttle.end(now, bytes / BLOCK_SIZE);
    found.pacing.on_end(now);
    for copy in
        writeback.blocks.iter().filter(|copy| state.cache.is_alive(**copy)).copied().collect::<Vec<_>>()
    {
        state.cache.leave_sweep(copy.location);
        state.cache.end_writeback(copy.location);
    }
    if !mutant!(PagesLeaked) {
        writeback.pages.iter().for_each(|page| state.pool.release(*page));
    }
    state.release_ticket(writeback.volume, writeback.ticket);
    state.wake_stalled();
}
