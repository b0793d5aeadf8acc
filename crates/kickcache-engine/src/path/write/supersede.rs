//! A long write or write-zeroes to the origin that supersedes blocks in the log, dirty ones too.
//!
//! The dirty blocks stay, durable, until the origin has the write durably, and writeback does not store them there
//! meanwhile. Clean blocks are dropped durably before the origin gets the write: otherwise a power cut could leave them
//! older than the origin.

use crate::ids::{RequestSlot, Ticket};
use crate::inflight::searching::Treatment;
use crate::inflight::writing::WritePhase;
use crate::order::DurableWaiter;
use crate::path::write::{finish, lock};
use crate::request::Errno;
use crate::state::State;
use crate::task::Task;
use crate::units::ByteExtent;

/// The origin has the write durably. The write keeps its place until the log has no older block.
pub(super) fn begin_superseding(state: &mut State, slot: RequestSlot, ticket: Ticket) {
    let writing = state.requests.get_mut(slot).writing();
    writing.phase = WritePhase::Superseding { ticket };
    let extent = writing.extent;
    state.search(slot, extent, Treatment::Forget);
}

/// The log has no block of the extent any more.
pub(super) fn on_forgotten(state: &mut State, slot: RequestSlot) {
    if mutant!(SupersedingNotAwaited) {
        state.agenda.push_back(Task::Durable(DurableWaiter::Around(slot)));
        return;
    }
    state.wait_gone(DurableWaiter::Around(slot));
}

/// The superseded blocks are durably dropped, or the record failed.
pub(super) fn end_superseding(
    state: &mut State,
    slot: RequestSlot,
    ticket: Ticket,
    result: Result<(), Errno>,
) {
    finish::end_forgetting(state, slot, ticket, result);
    let (now, volume) = (state.now, state.requests.get(slot).volume);
    let found = state.volumes.get_mut(volume);
    if found.draining {
        // If no block is left for writeback, the end of an origin's flush is to end the drain.
        found.flush.on_write(now);
    }
    lock::unlock(state, slot);
    state.end_pending_with(slot, result);
}

/// The origin refused a write of an extent, and may have stored parts: unflushed blocks of the extent become dirty
/// again.
pub(super) fn keep_refused(state: &mut State, slot: RequestSlot, extent: ByteExtent) {
    let volume = state.requests.get(slot).volume;
    state.volumes.get_mut(volume).flush.let_go(extent);
    state.search(slot, extent, Treatment::MakeDirty);
}

pub(super) fn on_refused_kept(state: &mut State, slot: RequestSlot) {
    lock::unlock(state, slot);
    state.end_pending(slot);
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;

    use crate::config::{Mode, OriginOffload};
    use crate::device::DeviceError;
    use crate::policy::offload::Offload;
    use crate::request::{Durability, Errno, Operation, Unmap};
    use crate::scene::Scene;
    use crate::time::Duration;
    use crate::units::VolumeId;

    const LENGTH: u64 = 128 << 10;
    const WRITE: Operation = Operation::Write(Durability::Volatile);

    fn prefer_origin(scene: &mut Scene) {
        let offload = Offload::new(OriginOffload::Forced);
        scene.engine.state.volumes.get_mut(VolumeId::new(0)).offload = offload;
    }

    fn dirty() -> Scene {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, LENGTH).0.unwrap();
        scene.flush().0.unwrap();
        prefer_origin(&mut scene);
        scene
    }

    #[test]
    fn a_dirty_block_is_dropped_once_its_successor_is_stored() {
        let mut scene = dirty();
        let (result, seen) = scene.write(0, LENGTH);
        assert_eq!((result, scene.not_clean(), scene.is_cached(0)), (Ok(()), (0, 0), false));
        assert_eq!(seen[..3], ["origin write 0+131072, durable", "cache log 0", "cache flush"]);
        assert!(!scene.flush().1.contains(&"origin flush".into()), "the origin has it durably");
    }

    #[test]
    fn its_clean_parts_are_dropped_before() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, LENGTH / 2).0.unwrap();
        scene.drain();
        scene.write(LENGTH / 2, LENGTH / 2).0.unwrap();
        scene.flush().0.unwrap();
        prefer_origin(&mut scene);
        let seen = scene.write(0, LENGTH).1;
        assert_eq!(seen[..2], ["cache log 0", "cache flush"]);
        let write = seen.iter().position(|line| line == "origin write 0+131072, durable").unwrap();
        assert_eq!(seen[write + 1..][..2], ["cache log 0", "cache flush"], "the rest of it");
    }

    #[test]
    fn until_then_it_is_readable_and_not_written_back() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, LENGTH).0.unwrap();
        scene.hold("origin flush");
        scene.drain();
        prefer_origin(&mut scene);
        scene.hold("origin");
        scene.begin(WRITE, 0, LENGTH);
        assert_eq!(scene.not_clean(), (0, 32));
        scene.end_held_first_and_hold("origin write");
        let seen: Vec<String> = scene.drain();
        assert!(!seen.iter().any(|line| line.starts_with("origin write")), "{seen:?}");
        assert_eq!(scene.not_clean(), (32, 0), "the blocks of the flush are dirty again");
        assert_eq!(scene.read(0, 8192).1, ["cache read 8192"]);
        scene.begin(WRITE, 8192, 4096);
        scene.pass(Duration::from_millis(100));
        assert_eq!(scene.take_reply(), None, "it waits for the earlier write");
        scene.end_held();
        assert_eq!([scene.take_reply(), scene.take_reply()], [Some(Ok(())), Some(Ok(()))]);
        assert_eq!([0, 8192].map(|start| scene.is_cached(start)), [false, true]);
    }

    #[test]
    fn a_refused_write_supersedes_no_block() {
        let mut scene = dirty();
        scene.fail("origin write", DeviceError::Io);
        let (result, seen) = scene.write(0, LENGTH);
        assert_eq!((result, scene.not_clean()), (Err(Errno::Io), (32, 0)), "{seen:?}");
        scene.heal();
        assert!(scene.drain().iter().any(|line| line == "origin write 0+131072"), "no request blocks it");
    }

    #[test]
    fn an_undroppable_block_is_recorded_before_the_reply() {
        let mut scene = dirty();
        scene.fail("cache log 0", DeviceError::Io);
        let (result, seen) = scene.write(0, LENGTH);
        assert_eq!(result, Ok(()));
        let place = |wanted: &str| seen.iter().position(|line| line == wanted).unwrap();
        assert!(place("origin write 0+131072, durable") < place("note"), "{seen:?}");
        assert_eq!((scene.not_clean(), scene.is_cached(0)), ((0, 0), false));
    }

    #[test]
    fn blocks_that_a_power_cut_may_lose_are_not_superseded() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, LENGTH).0.unwrap();
        scene.drain();
        scene.write(8192, 4096).0.unwrap();
        prefer_origin(&mut scene);
        let seen = scene.write(0, LENGTH).1;
        assert!(
            !seen.iter().any(|line| line.starts_with("origin write")),
            "an older copy is called clean: {seen:?}"
        );
    }

    #[test]
    fn parts_of_blocks_and_short_writes_go_into_the_log() {
        for (start, length) in [(512, LENGTH), (0, 32 << 10)] {
            let mut scene = dirty();
            let seen = scene.write(start, length).1;
            assert!(!seen.iter().any(|line| line.starts_with("origin write")), "{seen:?}");
        }
    }

    #[test]
    fn a_refused_write_leaves_no_clean_doubtful_block() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, LENGTH).0.unwrap();
        scene.hold("origin flush");
        scene.drain();
        assert_eq!(scene.not_clean(), (0, 32));
        prefer_origin(&mut scene);
        scene.fail("origin write", DeviceError::Io);
        assert_eq!(scene.write(0, LENGTH).0, Err(Errno::Io));
        assert_eq!(scene.not_clean(), (32, 0));
        scene.heal();
        assert!(scene.drain().contains(&"origin write 0+131072".into()));
        scene.end_held_first_and_hold("origin flush");
        assert_eq!(scene.not_clean(), (0, 32), "that flush began before it was written once more");
        scene.end_held();
        assert_eq!(scene.not_clean(), (0, 0));
    }

    #[test]
    fn a_drain_ends_when_the_last_dirty_blocks_are_superseded() {
        let mut scene = dirty();
        scene.hold("origin write");
        scene.begin(WRITE, 0, LENGTH);
        scene.drain();
        let is_draining = |scene: &Scene| scene.engine.status().volumes[0].is_draining;
        assert!(is_draining(&scene));
        scene.end_held();
        assert_eq!((scene.not_clean(), is_draining(&scene)), ((0, 0), false));
    }

    #[test]
    fn a_superseding_write_ends_after_its_journal_flush() {
        let mut scene = dirty();
        scene.hold("cache flush");
        scene.begin(WRITE, 0, LENGTH);
        assert_eq!((scene.take_reply(), scene.is_cached(0)), (None, false));
        scene.end_held();
        assert_eq!(scene.take_reply(), Some(Ok(())));
    }

    #[test]
    fn a_superseding_write_without_a_record_restores_the_older_blocks() {
        let mut scene = dirty();
        scene.hold("origin write");
        scene.begin(WRITE, 0, LENGTH);
        scene.fail("", DeviceError::Io);
        scene.end_held();
        scene.pass(Duration::from_millis(10_000));
        assert_eq!((scene.take_reply(), scene.is_cached(0)), (Some(Err(Errno::Io)), true));
        scene.heal();
        assert_eq!(scene.read(0, 4096).0, Err(Errno::Io), "a restart may find either version");
    }

    const ZEROES: Operation =
        Operation::WriteZeroes { unmap: Unmap::Allow, durability: Durability::Volatile };

    #[test]
    fn long_zeroes_are_sent_to_the_origin_at_once() {
        for mode in [Mode::WriteBack, Mode::WriteThrough, Mode::WriteAround] {
            let mut scene = Scene::new(mode);
            scene.write(1 << 20, LENGTH).0.unwrap();
            scene.drain();
            scene.write(1 << 24, 4096).0.unwrap();
            scene.read(1 << 25, 4096).0.unwrap();
            let (result, seen) = scene.ask(ZEROES, 0, 1 << 30);
            let at_origin = seen.iter().filter(|line| line.starts_with("origin")).collect::<Vec<_>>();
            assert_eq!((result, at_origin.len()), (Ok(()), 1), "{mode:?}: {seen:?}");
            assert_eq!(at_origin[0], "origin zeroes 0+1073741824");
            assert_eq!((scene.not_clean(), scene.is_cached(1 << 24)), ((0, 0), false), "{mode:?}");
            scene.engine.check();
        }
    }

    #[test]
    fn long_zeroes_wait_until_log_blocks_are_durable() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, LENGTH).0.unwrap();
        scene.drain();
        scene.write(8192, 4096).0.unwrap();
        let seen = scene.ask(ZEROES, 0, 1 << 30).1;
        let place = |wanted: &str| seen.iter().position(|line| line.starts_with(wanted)).unwrap();
        assert!(place("cache flush") < place("origin zeroes"), "an older copy is called clean: {seen:?}");
    }

    #[test]
    fn long_zeroes_wait_for_a_repeated_log_write() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.hold("cache log 4096");
        scene.begin(WRITE, 8192, 4096);
        scene.begin(ZEROES, 0, 1 << 30);
        let mut seen = scene.fail_held(DeviceError::Io);
        seen.extend(scene.pass(Duration::from_millis(100)));
        assert!(
            !seen.iter().any(|line| line.starts_with("origin zeroes")),
            "the block is volatile: {seen:?}"
        );
        let mut seen = scene.end_held();
        seen.extend(scene.pass(Duration::from_millis(100)));
        let place = |wanted: &str| seen.iter().position(|line| line.starts_with(wanted)).unwrap();
        assert!(place("cache flush") < place("origin zeroes"), "{seen:?}");
    }

    #[test]
    fn refused_long_zeroes_drop_no_log_blocks() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, LENGTH).0.unwrap();
        scene.write(1 << 29, LENGTH).0.unwrap();
        scene.fail("origin zeroes", DeviceError::Io);
        assert_eq!(scene.ask(ZEROES, 0, 1 << 30).0, Err(Errno::Io));
        assert_eq!(scene.not_clean(), (64, 0));
        scene.heal();
        assert_eq!(scene.drain().iter().filter(|line| line.starts_with("origin write")).count(), 2);
        scene.engine.check();
    }
}
