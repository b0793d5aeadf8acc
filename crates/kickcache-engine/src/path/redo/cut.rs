//! A cut: when it begins, the search for its members, and its end.

use alloc::vec::Vec;

use crate::cache::cut::CutSlice;
use crate::device::Device;
use crate::order::DurableWaiter;
use crate::path::redo::journal;
use crate::redo::BACKOFF;
use crate::redo::cut::{Cut, CutPhase};
use crate::state::State;
use crate::task::Task;
use crate::time::{Duration, Instant};
use crate::units::Location;

/// A cut is abandoned if the journal completes no operation for this long: its members hold space in the log.
const PATIENCE: Duration = Duration::from_millis(5_000);

/// When the next cut begins; `None` if none can begin for now.
pub(crate) fn due_at(state: &State) -> Option<Instant> {
    let redo = state.redo.as_ref()?;
    let dirty = state.dirty_in_group();
    let is_possible = redo.cut.is_none()
        && state.recovery.is_none()
        && state.may_go_on_with_groups()
        && !state.device.is_out_of_service()
        && dirty > 0
        && redo.has_room(dirty);
    let is_urgent = redo.is_awaited
        || dirty >= redo.dirty_max() / 2
        || redo
            .volumes
            .iter()
            .filter_map(|volume| state.volumes.find(volume))
            .any(|volume| volume.draining || volume.writeback_wanted);
    let at = if is_urgent { state.now } else { redo.next_cut };
    is_possible.then(|| at.max(redo.backoff_until))
}

/// Begins a cut: everything that was acknowledged or read until now belongs to it. All gathering batches are submitted,
/// so that no later write joins them.
pub(crate) fn begin(state: &mut State) {
    state.write_all_batches();
    let open = state.device.log.open_ends();
    let now = state.now;
    let redo = state.redo();
    redo.last_number += 1;
    redo.next_cut = now.plus(redo.cut_every);
    redo.is_awaited = false;
    let (number, volumes, instant) = (redo.last_number, redo.volumes, redo.nanos_of(now));
    redo.cut = Some(Cut::new(number, instant));
    state.cache.begin_cut(volumes, open);
    state.agenda.push_back(Task::Barrier(DurableWaiter::Cut(number)));
}

/// The members of a cut are durable on the cache device.
pub(crate) fn on_durable(state: &mut State, number: u64) {
    if let Some(cut) = state.redo().cut.as_mut().filter(|cut| cut.number == number) {
        cut.is_durable = true;
    }
    state.agenda.push_back(Task::Redo);
}

/// The members of a cut cannot be made durable.
pub(crate) fn on_not_durable(state: &mut State, number: u64) {
    if state.redo().cut.as_ref().is_some_and(|cut| cut.number == number) {
        state.abandon_cut();
    }
}

/// Continues the cut.
pub(crate) fn go_on(state: &mut State) {
    if patience_end(state).is_some_and(|end| state.now >= end) {
        state.abandon_cut();
    }
    let now = state.now;
    let Some(cut) = &state.redo().cut else { return };
    if !cut.is_searched && !cut.is_abandoned && state.redo().begin_slice(now) {
        search(state);
    }
    let Some(cut) = &mut state.redo().cut else { return };
    let is_durable = cut.is_durable || mutant!(CutNotDurable);
    if cut.phase == CutPhase::Searching && cut.is_searched && is_durable && !cut.is_abandoned {
        cut.phase = CutPhase::Writing;
    }
    journal::go_on(state);
    end_abandoned(state);
}

fn search(state: &mut State) {
    let mut steps = state.settings.search_steps;
    loop {
        let found = state.cache.search_cut(&mut steps);
        let cut = state.redo().cut.as_mut().expect("its members are searched");
        match found {
            CutSlice::Segment(members) => cut.add(members),
            CutSlice::End(died) => {
                cut.add(died);
                cut.is_searched = true;
                return;
            }
            CutSlice::Nothing => return,
        }
    }
}

/// When the cut is abandoned because the journal is silent.
pub(crate) fn patience_end(state: &State) -> Option<Instant> {
    let cut = state.redo.as_ref()?.cut.as_ref()?;
    let since = state.submissions.silent_since(Device::RedoJournal)?;
    (!cut.is_abandoned && cut.in_flight > 0).then(|| since.plus(PATIENCE))
}

/// The engine stops: a cut that is not about to be committed is abandoned.
pub(crate) fn stop(state: &mut State) {
    let cut = state.redo.as_ref().and_then(|redo| redo.cut.as_ref());
    if cut.is_some_and(|cut| matches!(cut.phase, CutPhase::Searching | CutPhase::Writing)) {
        state.abandon_cut();
    }
}

impl State {
    /// Abandons the cut, if there is one: its blocks stay dirty.
    pub(crate) fn abandon_cut(&mut self) {
        let until = self.now.plus(BACKOFF);
        let Some(redo) = &mut self.redo else { return };
        let Some(cut) = redo.cut.as_mut().filter(|cut| !cut.is_abandoned) else { return };
        cut.is_abandoned = true;
        redo.backoff_until = until;
        redo.counters.abandoned_cuts += 1;
        let died = self.cache.end_cut();
        died.into_iter().for_each(|member| self.unpin(member.location));
        let cut = self.redo().cut.as_mut().expect("it was just abandoned");
        let left: Vec<Location> =
            core::iter::from_fn(|| Some(cut.next_members()).filter(|members| !members.is_empty()))
                .flatten()
                .map(|member| member.location)
                .collect();
        left.into_iter().for_each(|location| self.unpin(location));
        let cut = self.redo().cut.as_mut().expect("it was just abandoned");
        let keys: Vec<_> = cut.chunks.iter().flatten().map(|block| block.key).collect();
        for key in keys {
            self.end_group_of(key);
        }
        self.agenda.extend([Task::Reclaim, Task::Redo]);
    }
}

fn end_abandoned(state: &mut State) {
    let redo = state.redo();
    if redo.cut.as_ref().is_some_and(|cut| cut.is_abandoned && cut.in_flight == 0) {
        redo.cut = None;
    }
}
