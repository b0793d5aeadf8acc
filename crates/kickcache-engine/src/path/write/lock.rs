//! Other writes to an extent are held back while one completes partial blocks of it, or waits for room.

use crate::ids::RequestSlot;
use crate::state::State;
use crate::waiters::{LockReason, WriteLock};

/// Holds other writes to the extent back: partial blocks are being completed, or the write waits for room.
pub(super) fn lock(state: &mut State, slot: RequestSlot) {
    lock_for(state, slot, LockReason::Prepared);
}

/// Holds other writes to the extent back, and writeback: the origin takes what is newer than the log's blocks of it.
pub(super) fn lock_replaced(state: &mut State, slot: RequestSlot) {
    lock_for(state, slot, LockReason::Replaced);
}

fn lock_for(state: &mut State, slot: RequestSlot, reason: LockReason) {
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let extent = pending.writing().extent.widened_to_blocks();
    state.waiters.lock(WriteLock { holder: slot, volume, extent, reason });
}

pub(super) fn unlock(state: &mut State, slot: RequestSlot) {
    if state.waiters.unlock(slot) {
        state.wake_stalled();
    }
}
