//! The end of a group: its blocks become clean, and the slots of the ring are free.

use alloc::vec::Vec;

use crate::cache::slots::SlotState;
use crate::device::{Device, DeviceError, DeviceOperation};
use crate::format::redo::{RedoTail, TAIL_OFFSETS};
use crate::inflight::purpose::Purpose;
use crate::redo::BACKOFF;
use crate::redo::group::has_block;
use crate::request::Durability;
use crate::state::State;
use crate::task::Task;
use crate::units::BlockKey;

/// Chunks of one slice.
const CHUNKS_MAX: usize = 4;

/// Whether blocks of the oldest group can become clean now, or its tail can be written.
pub(super) fn is_due(state: &State) -> bool {
    let applying = state.redo.as_ref().and_then(|redo| redo.applying.as_ref());
    applying.is_some_and(|applying| applying.is_durable() && !applying.is_ending)
        && state.may_go_on_with_groups()
}

/// Makes blocks of the oldest group clean if all origins have it, durably (P-3), and no later group has a newer
/// version; then writes the tail.
pub(super) fn go_on(state: &mut State) {
    let now = state.now;
    if !is_due(state) || !state.redo().begin_slice(now) {
        return;
    }
    let redo = state.redo();
    let (Some(group), Some(applying)) = (redo.groups.front(), redo.applying.as_mut()) else { return };
    let from = applying.released;
    applying.released = group.chunks.len().min(from + CHUNKS_MAX);
    let chunks = &group.chunks[from..applying.released];
    let is_later = |key: BlockKey| {
        let cut = redo.cut.as_ref().is_some_and(|cut| has_block(&cut.chunks, key));
        (cut || redo.groups.iter().skip(1).any(|group| group.has(key))) && !mutant!(ReleaseOfNewer)
    };
    let keys = chunks.iter().flatten().map(|block| block.key);
    let keys: Vec<_> = keys.filter(|key| !is_later(*key)).collect();
    let is_released = applying.released == group.chunks.len();
    for key in keys {
        if let Some(copy) = state.end_group_of(key) {
            state.record_state(copy, SlotState::Clean);
        }
    }
    if is_released {
        end(state);
    }
}

fn end(state: &mut State) {
    let redo = state.redo();
    let (Some(group), Some(applying)) = (redo.groups.front(), redo.applying.as_mut()) else { return };
    applying.is_ending = true;
    let tail = RedoTail {
        epoch: redo.tail.epoch + 1,
        position: group.end,
        released: group.number,
        instant: group.instant,
    };
    let copy = usize::from(tail.epoch % 2 == 1);
    let operation = DeviceOperation::WriteMetadata {
        device: Device::RedoJournal,
        offset: TAIL_OFFSETS[copy],
        bytes: tail.encode(redo.uuid).into_boxed_slice(),
        pieces: Vec::new(),
        durability: Durability::Durable,
    };
    if mutant!(TailNotAwaited) {
        on_tail(state, tail, Ok(()));
    } else {
        state.submit(Purpose::RedoTail(tail), operation);
    }
    state.await_old_records();
    if state.device.is_clean_untold() {
        state.agenda.push_back(Task::Checkpoint);
    }
    for volume in state.redo().volumes.iter() {
        if state.volumes.find(volume).is_some() {
            state.end_drain_when_durable(volume);
        }
    }
    state.agenda.extend([Task::Reclaim, Task::Append]);
    state.wake_stalled();
}

/// The write of the tail has ended: with success, the slots of the group are free.
pub(crate) fn on_tail(state: &mut State, tail: RedoTail, result: Result<(), DeviceError>) {
    state.agenda.push_back(Task::Redo);
    let until = state.now.plus(BACKOFF);
    let redo = state.redo();
    let Some(applying) = &mut redo.applying else { return };
    if result.is_err() {
        applying.is_ending = false;
        redo.counters.errors += 1;
        redo.next_slice = until;
        return;
    }
    redo.tail = tail;
    redo.applying = None;
    redo.groups.pop_front();
    redo.counters.released_groups += 1;
    state.wake_stalled();
}
