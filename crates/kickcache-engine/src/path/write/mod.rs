//! A write, or write-zeroes: into the log, through it to the origin, or around it.
//!
//! Invariants:
//! * I-1: in service, a write through the log is submitted to the origin only after its batch landed, durably if a
//!   power cut could restore an older copy of a block; a write around the log only after the *gone* records of its
//!   cached blocks are durable.
//! * A dirty block that a write at the origin supersedes stays in the log until the origin has the write, in service
//!   durably. In service, that block then becomes *gone*, durably, before the client receives the reply.
//! * I-2: a write is acknowledged only after its batch landed, or the origin completed it.

mod finish;
mod lock;
mod log;
mod origin;
mod part;
mod route;
mod supersede;
mod undo;

use crate::ids::RequestSlot;
use crate::inflight::writing::{LoggedPart, Logging, Route, WriteData, WritePhase};
pub(crate) use crate::path::write::log::go_on_appending;
pub(crate) use crate::path::write::origin::{go_past_cache, on_origin};
use crate::request::Errno;
use crate::state::State;
use crate::task::Task;
use crate::units::{ByteExtent, VolumeId};

/// Begins a write, or the next part of one.
pub(crate) fn begin(state: &mut State, slot: RequestSlot) {
    let pending = state.requests.get_mut(slot);
    let (volume, whole) = (pending.volume, pending.extent);
    let writing = pending.writing();
    match writing.phase {
        WritePhase::Undoing { .. } => return undo::undo(state, slot),
        WritePhase::Arrived
        | WritePhase::Merging { .. }
        | WritePhase::Logging(_)
        | WritePhase::AtOrigin(_)
        | WritePhase::Superseding { .. }
        | WritePhase::Ended => {}
    }
    let (start, source) = (writing.extent.start, writing.source);
    let rest = ByteExtent { start, length: whole.end() - start };
    let part = match source {
        WriteData::Payload => part::of_payload(rest, state.logged_max()),
        WriteData::Zeroes => part::of_zeroes(rest, zeroes_max(state, volume)),
    };
    state.requests.get_mut(slot).writing().extent = part;
    let extent = state.requests.get_mut(slot).writing().extent.widened_to_blocks();
    if state.is_point_in_time(volume) && state.device.is_out_of_service() {
        // The block must not reach the origin without the others of its instant.
        state.requests.get_mut(slot).fail(Errno::Io);
        state.end_request(slot);
        return;
    }
    if state.must_stall(volume, extent) || state.must_wait_for_group(slot) {
        state.stall(slot);
        return;
    }
    let route = state.choose_route(slot);
    state.meter_write(slot, route);
    let writing = state.requests.get_mut(slot).writing();
    let needs_merge = !route.passes_log() && writing.partial_blocks().next().is_some();
    if needs_merge {
        writing.phase = WritePhase::Merging { route };
        lock::lock(state, slot);
        state.agenda.push_back(Task::Merge(slot));
    } else {
        take_route(state, slot, route);
    }
}

/// There is not enough memory to complete partial blocks: the write begins again later. The writes that waited for its
/// lock are not woken: two writes that need memory would wake each other for ever.
pub(crate) fn postpone(state: &mut State, slot: RequestSlot) {
    state.requests.get_mut(slot).writing().phase = WritePhase::Arrived;
    state.waiters.unlock(slot);
    state.end_metered(slot);
    state.waiters.stall(slot);
}

/// The most bytes of a part of write-zeroes.
fn zeroes_max(state: &State, volume: VolumeId) -> u64 {
    let is_out = state.device.is_out_of_service() && state.cache.volume(volume).cached > 0;
    if is_out || state.is_point_in_time(volume) { state.logged_zeroes_max() } else { u64::MAX }
}

pub(crate) fn on_searched(state: &mut State, slot: RequestSlot) {
    match state.requests.get_mut(slot).writing().phase {
        WritePhase::AtOrigin(_) => origin::on_clean_forgotten(state, slot),
        WritePhase::Superseding { .. } => supersede::on_forgotten(state, slot),
        WritePhase::Ended => supersede::on_refused_kept(state, slot),
        WritePhase::Arrived
        | WritePhase::Merging { .. }
        | WritePhase::Logging(_)
        | WritePhase::Undoing { .. } => unreachable!("such a write has no search"),
    }
}

fn take_route(state: &mut State, slot: RequestSlot, route: Route) {
    match route {
        Route::Log | Route::LogThrough => {
            let phase = WritePhase::Logging(Logging { route, ticket: None, taken: LoggedPart::All });
            state.requests.get_mut(slot).writing().phase = phase;
            state.requests.through_count += u32::from(route == Route::LogThrough);
            state.requests.add_pending(slot);
            log::append(state, slot);
        }
        Route::Around => origin::go_around(state, slot),
        Route::Supersede => origin::go_around_dirty(state, slot),
        Route::Through => origin::go_through(state, slot),
    }
}

/// No operation is pending: the write continues with its next step.
pub(crate) fn on_nothing_pending(state: &mut State, slot: RequestSlot) {
    let pending = state.requests.get_mut(slot);
    let has_failed = pending.error.is_some();
    let writing = pending.writing();
    match writing.phase {
        WritePhase::Arrived => {}
        WritePhase::Merging { .. } if has_failed => {
            lock::unlock(state, slot);
            finish::end(state, slot);
        }
        WritePhase::Merging { route } => {
            writing.merged.sort_by_key(|merged| merged.block);
            take_route(state, slot, route);
        }
        WritePhase::Logging(logging) => log::on_logged(state, slot, logging),
        WritePhase::AtOrigin(_) | WritePhase::Undoing { .. } | WritePhase::Superseding { .. } => {
            unreachable!("a write that the origin has waits for it")
        }
        WritePhase::Ended => finish::end(state, slot),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Mode;
    use crate::scene::Scene;

    #[test]
    fn a_long_write_is_done_part_by_part() {
        let mut scene = Scene::new(Mode::WriteThrough);
        let (result, seen) = scene.write(0, 4 << 20);
        assert_eq!(result, Ok(()));
        let writes: alloc::vec::Vec<_> =
            seen.iter().filter(|line| line.starts_with("origin write")).collect();
        assert!(writes.len() > 1, "{seen:?}");
        let first = seen.iter().position(|line| line.starts_with("origin write")).unwrap();
        let logged = |lines: &[alloc::string::String]| -> u64 {
            let lengths =
                lines.iter().filter_map(|line| line.strip_prefix("cache log ")?.parse::<u64>().ok());
            lengths.sum()
        };
        assert!(logged(&seen[..first]) < 4 << 20 && logged(&seen) == 4 << 20, "{seen:?}");
    }
}
