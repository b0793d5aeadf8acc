//! Other writes to an extent are held back while one completes partial blocks of it, or waits for room.

use crate::ids::RequestSlot;
use crate::state::State;

/// Holds other writes to the extent back: partial blocks are being completed, or the write waits for room.
pub(super) fn lock(state: &mut State, slot: RequestSlot) {
    if state.write_locks.iter().any(|lock| lock.0 == slot) {
        return;
    }
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let extent = pending.writing().extent.widened_to_blocks();
    state.write_locks.push((slot, volume, extent));
}

pub(super) fn unlock(state: &mut State, slot: RequestSlot) {
    let before = state.write_locks.len();
    state.write_locks.retain(|lock| lock.0 != slot);
    if state.write_locks.len() != before {
        state.wake_stalled();
    }
}
