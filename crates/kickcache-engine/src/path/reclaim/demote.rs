//! A clean block leaves the cache.

use crate::queue::Queue;
use crate::state::State;
use crate::units::Location;

pub(super) fn demote(state: &mut State, queue: Queue, location: Location) {
    let key = state.cache.slots().key(location);
    state.retention.on_left(key, queue);
    state.forget(key);
    state.device.counters.demoted_blocks += 1;
}
