//! A write through the log that the origin refused: the blocks that the log has only because of this write are dropped
//! before the client receives the error.

use crate::cache::slots::SlotState;
use crate::ids::{RequestSlot, Ticket};
use crate::inflight::writing::WritePhase;
use crate::order::DurableWaiter;
use crate::path::write::finish;
use crate::request::Errno;
use crate::state::State;

/// The origin refused a write that is in the log. Its client will receive an error: the log must not fill with such
/// blocks, and a restart must not restore them. Blocks that were dirty or unflushed before, or that a client has read,
/// stay, with the new content.
pub(super) fn begin_undoing(state: &mut State, slot: RequestSlot, ticket: Ticket) {
    state.requests.get_mut(slot).writing().phase = WritePhase::Undoing { ticket };
    undo(state, slot);
}

/// Drops the blocks that the log has only because of a refused write; the client receives the error when that is
/// durable, or cannot become durable. The write keeps its place in the origin's queue until then: if its records are
/// lost, a restart may restore the refused data, and reads queued after it must not have cached other data. While the
/// journal has no space for the records, the copies still belong to the write: reads do not use them, and writeback
/// skips them.
pub(super) fn undo(state: &mut State, slot: RequestSlot) {
    if state.device.is_journal_full() {
        state.stall(slot);
        return;
    }
    let own = state.requests.get_mut(slot).writing().own_copies();
    finish::note_at_origin(
        state,
        slot,
        if mutant!(RefusedIsAtOrigin) { finish::AtOrigin::Written } else { finish::AtOrigin::NotWritten },
    );
    for copy in own {
        let is_dirty = state.cache.slots().state(copy.location) == SlotState::Dirty;
        if state.cache.is_alive(copy) && is_dirty || mutant!(UndoneForOthers) {
            state.forget_for(slot, copy.key, copy.location);
        }
    }
    state.wait_gone(DurableWaiter::Around(slot));
}

/// The blocks of a refused write are durably dropped, or the record failed.
pub(super) fn end_undoing(state: &mut State, slot: RequestSlot, ticket: Ticket, result: Result<(), Errno>) {
    state.requests.through_count -= 1;
    finish::end_forgetting(state, slot, ticket, result);
    state.end_pending(slot);
}

#[cfg(test)]
mod tests {
    use crate::config::Mode;
    use crate::device::DeviceError;
    use crate::request::{Durability, Errno, Operation};
    use crate::scene::Scene;

    #[test]
    fn blocks_to_drop_are_hidden_while_the_journal_is_full() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.hold("origin read");
        scene.begin(Operation::Read, 0, 4096);
        scene.begin(Operation::Write(Durability::Volatile), 0, 4096);
        scene.engine.state.device.journal.fill();
        scene.fail_times(1, "origin write", DeviceError::Io);
        let seen = scene.end_held_and_hold("cache log 0");
        assert!(seen.contains(&"origin write 0+4096".into()), "{seen:?}");
        assert_eq!((scene.take_reply(), scene.take_reply()), (Some(Ok(())), None), "a checkpoint is first");
        let seen = [scene.begin(Operation::Read, 0, 4096), scene.drain()].concat();
        assert!(!seen.iter().any(|line| line.starts_with("cache read")), "{seen:?}");
        scene.end_held();
        assert_eq!((scene.take_reply(), scene.take_reply()), (Some(Err(Errno::Io)), Some(Ok(()))));
        assert_eq!(scene.not_clean(), (0, 0));
        scene.engine.check();
    }

    #[test]
    fn a_refused_write_leaves_no_copy() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.fail("origin write", DeviceError::Io);
        let (result, seen) = scene.write(8192, 4096);
        assert_eq!(result, Err(Errno::Io));
        assert_eq!(seen, ["cache log 4096", "origin write 8192+4096", "cache log 0", "cache flush"]);
        assert!(!scene.is_cached(8192));
        scene.heal();
        assert_eq!(scene.read(8192, 4096).1[0], "origin read 0+65536");
    }

    #[test]
    fn a_failed_write_ends_after_the_flush_of_its_removal() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.fail_times(1, "origin write", DeviceError::Io);
        scene.hold("cache flush");
        scene.begin(Operation::Write(Durability::Volatile), 8192, 4096);
        assert_eq!((scene.take_reply(), scene.is_cached(8192)), (None, false));
        scene.end_held();
        assert_eq!(scene.take_reply(), Some(Err(Errno::Io)));
    }

    #[test]
    fn a_refused_write_returns_if_its_removal_is_not_recorded() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.hold("origin write");
        scene.begin(Operation::Write(Durability::Volatile), 8192, 4096);
        scene.fail("", DeviceError::Io);
        scene.fail_held(DeviceError::Io);
        scene.pass(crate::time::Duration::from_millis(20_000));
        assert_eq!((scene.take_reply(), scene.is_cached(8192)), (Some(Err(Errno::Io)), true));
        scene.engine.check();
    }
}
