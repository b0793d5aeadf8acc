//! Selects the next dirty blocks.

use alloc::vec::Vec;

use crate::cache::BlockCopy;
use crate::cache::segments::SegmentState;
use crate::cache::slots::SlotState;
use crate::config::{SWEEP_BLOCKS_MAX, WRITEBACK_BACKOFF};
use crate::inflight::blocks::block_extent;
use crate::order::DurableWaiter;
use crate::queue::Queue;
use crate::state::State;
use crate::task::Task;
use crate::units::{BlockKey, Location, SegmentIndex, VolumeId};

/// Limits of a sweep: one part in this many of the cache, and this many nanoseconds of writeback.
const SWEEP_PART: u64 = 8;
const SWEEP_NANOS: u64 = 32_000_000_000;
/// The least limit, in blocks.
const SWEEP_BLOCKS_MIN: u64 = 256;

/// Takes the next block of the sweep that can be written back.
pub(super) fn next_dirty(state: &mut State, volume: VolumeId) -> Option<BlockCopy> {
    while let Some(copy) = state.volumes.get_mut(volume).sweep.pop() {
        if state.cache.is_alive(copy) && !state.cache.slots().is_in_writeback(copy.location) {
            state.cache.leave_sweep(copy.location);
        }
        if is_ripe(state, copy) {
            return Some(copy);
        }
    }
    None
}

pub(super) fn is_ripe(state: &State, copy: BlockCopy) -> bool {
    let BlockCopy { key, location, .. } = copy;
    state.cache.is_alive(copy)
        && state.cache.slots().state(location) == SlotState::Dirty
        && !state.cache.slots().is_damaged(location)
        && !state.cache.slots().is_in_writeback(location)
        && !is_a_clients(state, copy)
        && !is_being_replaced(state, key)
        && state.may_be_tried(copy)
        && (state.is_durable(location) || mutant!(WritebackOfVolatileCopy))
}

/// Whether a write through the log stores the block on the origin. The origin may refuse the write, and then writeback
/// must not store the block there.
fn is_a_clients(state: &State, copy: BlockCopy) -> bool {
    let is_taken = state.cache.slots().is_in_sweep(copy.location);
    is_taken && !state.volumes.get(copy.key.volume()).sweep.has(copy)
}

/// Whether a lock of a write or discard forbids writeback of the block.
fn is_being_replaced(state: &State, key: BlockKey) -> bool {
    let extent = block_extent(key.block());
    let is_out = state.device.is_out_of_service();
    (state.waiters.is_replaced(key.volume(), extent) && !mutant!(SupersededWrittenBack))
        || is_out && state.waiters.is_locked(key.volume(), extent)
}

/// Collects dirty blocks for the next sweep.
pub(super) fn gather(state: &mut State, volume: VolumeId) {
    let most = sweep_max(state, volume);
    let mut found = Vec::new();
    let mut waits_for_flush = false;
    for segment in segments_in_order(state) {
        if found.len() >= most {
            break;
        }
        let dirty: Vec<_> = state.cache.live_in(segment).filter(|at| is_wanted(state, volume, *at)).collect();
        for location in dirty {
            if state.is_durable(location) || mutant!(WritebackOfVolatileCopy) {
                found.push(state.cache.copy_at(state.cache.slots().key(location), location));
                state.cache.enter_sweep(location);
            } else {
                waits_for_flush = true;
            }
        }
    }
    if found.is_empty() && waits_for_flush && !state.writebacks.wait_for_flush {
        state.writebacks.wait_for_flush = true;
        state.device.log.close_all();
        state.agenda.push_back(Task::Barrier(DurableWaiter::Writeback));
    }
    state.volumes.get_mut(volume).sweep.fill(found);
}

/// The limit of a sweep in blocks.
fn sweep_max(state: &State, volume: VolumeId) -> usize {
    let part = state.retention.capacity() / SWEEP_PART;
    let soon = SWEEP_NANOS.checked_div(state.volumes.get(volume).throttle.each()).unwrap_or(part);
    let most = part.min(soon).max(SWEEP_BLOCKS_MIN);
    usize::try_from(most).unwrap_or(SWEEP_BLOCKS_MAX).min(SWEEP_BLOCKS_MAX)
}

/// Blocks of the log could not be made durable: writeback pauses before the next attempt.
pub(crate) fn on_not_durable(state: &mut State) {
    state.writebacks.wait_for_flush = false;
    let until = state.now.plus(WRITEBACK_BACKOFF);
    for volume in state.volumes.ids() {
        state.volumes.get_mut(volume).backoff_until = until;
    }
}

fn is_wanted(state: &State, volume: VolumeId, location: Location) -> bool {
    let slots = state.cache.slots();
    slots.state(location) == SlotState::Dirty
        && slots.key(location).volume() == volume
        && !slots.is_in_sweep(location)
        && !slots.is_damaged(location)
}

/// The segments with blocks that are not clean, the sealed ones first.
fn segments_in_order(state: &State) -> Vec<SegmentIndex> {
    let segments = state.cache.segments();
    let sealed = Queue::ALL.into_iter().flat_map(|queue| segments.oldest_first(queue));
    let is_other = |state: SegmentState| {
        matches!(
            state,
            SegmentState::Open | SegmentState::Sealing | SegmentState::Reclaiming | SegmentState::Retired
        )
    };
    let others = segments.iter().filter(|(_, segment)| is_other(segment.state)).map(|(index, _)| index);
    sealed.chain(others).filter(|segment| segments.get(*segment).not_clean > 0).collect()
}
