//! The end of a write, or of a part of one.

use alloc::vec::Vec;

use crate::cache::BlockCopy;
use crate::cache::slots::SlotState;
use crate::ids::{RequestSlot, Ticket};
use crate::inflight::writing::{WritePhase, Written};
use crate::request::Errno;
use crate::state::State;
use crate::task::Task;
use crate::units::ByteExtent;

/// Whether the origin's part of a write through the log was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AtOrigin {
    Written,
    NotWritten,
}

impl AtOrigin {
    pub(super) const fn of<E>(result: &Result<(), E>) -> AtOrigin {
        if result.is_ok() { AtOrigin::Written } else { AtOrigin::NotWritten }
    }
}

/// The blocks of a write through the log: the origin has them now, or writeback may store them from here on.
pub(super) fn note_at_origin(state: &mut State, slot: RequestSlot, at_origin: AtOrigin) {
    let writing = state.requests.get_mut(slot).writing();
    state.agenda.extend(writing.afterwards.drain(..));
    let written = core::mem::take(&mut writing.written);
    for Written { copy, .. } in written {
        let BlockCopy { key, location, .. } = copy;
        if state.cache.is_alive(copy) && state.cache.slots().state(location) == SlotState::Dirty {
            if !mutant!(KeptStaysInSweep) {
                state.cache.leave_sweep(location);
            }
            if at_origin == AtOrigin::Written {
                state.cache.set_state(location, SlotState::Unflushed);
                state.await_flush(key, location);
                state.volumes.get_mut(key.volume()).flush.witnesses.add(key.block());
            }
        } else if at_origin == AtOrigin::Written {
            state.keep_if_refused(key);
        }
    }
}

/// The blocks that a write dropped are durably dropped, or the record failed.
pub(super) fn end_forgetting(
    state: &mut State,
    slot: RequestSlot,
    ticket: Ticket,
    result: Result<(), Errno>,
) {
    state.requests.get_mut(slot).writing().phase = WritePhase::Ended;
    state.end_forgotten(slot, result);
    let volume = state.requests.get(slot).volume;
    state.release_ticket(volume, ticket);
}

/// A part of a write is done.
pub(super) fn end(state: &mut State, slot: RequestSlot) {
    state.end_metered(slot);
    let pending = state.requests.get_mut(slot);
    let (volume, has_failed, whole) = (pending.volume, pending.error.is_some(), pending.extent.end());
    let writing = pending.writing();
    let pages: Vec<_> = writing.merged.drain(..).map(|merged| merged.page).collect();
    writing.written.clear();
    let was_logged = matches!(writing.phase, WritePhase::Logging(_));
    let done = writing.extent.end();
    let is_over = has_failed || done >= whole;
    if !is_over {
        writing.phase = WritePhase::Arrived;
        writing.extent = ByteExtent { start: done, length: whole - done };
    }
    if was_logged {
        state.agenda.push_back(Task::Writeback(volume));
    }
    let has_pages = !pages.is_empty();
    pages.into_iter().for_each(|page| state.pool.release(page));
    if has_pages {
        state.wake_stalled();
    }
    if is_over {
        state.end_request(slot);
    } else {
        state.agenda.push_back(Task::Begin(slot));
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Mode;
    use crate::device::DeviceError;
    use crate::request::{Durability, Errno, Operation};
    use crate::scene::Scene;

    const WRITE: Operation = Operation::Write(Durability::Volatile);

    #[test]
    fn a_hot_block_is_readable_after_one_successful_write() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.hold("origin write");
        (0..2).for_each(|_| drop(scene.begin(WRITE, 0, 4096)));
        scene.end_held_first_and_hold("origin write");
        assert_eq!(scene.take_reply(), Some(Ok(())));
        assert_eq!(scene.read(0, 4096).1, ["cache read 4096"]);
        scene.begin(WRITE, 0, 4096);
        assert_eq!(scene.read(0, 4096).1, ["cache read 4096"], "another one waits behind it");
        scene.fail("origin write", DeviceError::Io);
        scene.end_held();
        assert_eq!((scene.take_reply(), scene.take_reply()), (Some(Ok(())), Some(Err(Errno::Io))));
        assert_eq!(scene.read(0, 4096).1, ["cache read 4096"], "a read block does not vanish");
        assert_eq!(scene.not_clean(), (1, 0));
    }

    #[test]
    fn written_through_blocks_are_not_dirty_and_await_a_flush() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.write(8192, 8192).0.unwrap();
        assert_eq!(scene.not_clean(), (0, 2));
        scene.flush().0.unwrap();
        assert_eq!(scene.not_clean(), (0, 0));
        scene.fail_times(1, "origin write", DeviceError::Io);
        assert!(scene.write(8192, 8192).0.is_err());
        assert_eq!(scene.not_clean(), (0, 0), "the refused block is not in the way");
    }
}
