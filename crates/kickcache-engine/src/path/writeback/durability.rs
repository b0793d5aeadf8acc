//! The durability of a writeback.

use crate::policy::flush_budget::FLUSH_PART;
use crate::policy::load::work_of;
use crate::policy::throttle::SHORTAGE_MAX;
use crate::request::Durability;
use crate::state::State;
use crate::units::{BLOCK_SIZE, VolumeId};

/// The durability of a writeback of this many bytes. If the cache device is out of service, only a flush proves that
/// the origin has everything.
pub(super) fn durability_of(state: &mut State, volume: VolumeId, bytes: u64) -> Durability {
    let room = state.unflushed_max() as u64 / 2 * work_of(1, BLOCK_SIZE);
    let is_out = state.device.is_out_of_service();
    let clients_wait = state.shortage(volume) >= SHORTAGE_MAX / 2 || state.volumes.get(volume).draining;
    let found = state.volumes.get_mut(volume);
    if is_out || found.draining && !found.drain_end.has_begun() {
        return Durability::Volatile;
    }
    let part = if clients_wait { 0 } else { FLUSH_PART };
    let durability = found.flush.choose_durability(bytes, room, part);
    if durability == Durability::Durable && found.flush.is_worthwhile(part) {
        found.flush.want();
    }
    durability
}
