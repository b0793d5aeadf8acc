//! Locks an extent against other changes while a write completes partial blocks there, waits for space, or supersedes
//! blocks of the log at the origin.

use crate::ids::RequestSlot;
use crate::state::State;
use crate::waiters::{LockReason, WriteLock};

/// Makes other changes of the extent wait.
pub(super) fn lock(state: &mut State, slot: RequestSlot) {
    lock_for(state, slot, LockReason::Prepared);
}

/// Makes other changes of the extent wait, and writeback: the origin receives newer data than the log's blocks there.
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
