//! A discard: the cached blocks of the extent are dropped durably, then the origin discards the extent.
//!
//! Invariants:
//! * I-1, I-5: a discard takes its place among the accesses to the origin before the search for cached blocks: later
//!   fills of the extent read the origin after the discard.

use crate::config::OriginKind;
use crate::device::{Device, DeviceError, DeviceOperation};
use crate::ids::RequestSlot;
use crate::inflight::origin::OriginAccess;
use crate::inflight::purpose::Purpose;
use crate::inflight::requests::{Cursor, Stage};
use crate::inflight::searching::Treatment;
use crate::order::DurableWaiter;
use crate::request::Errno;
use crate::state::State;
use crate::task::Task;
use crate::units::{BLOCK_SIZE, ByteExtent};
use crate::waiters::{LockReason, WriteLock};

fn cursor(state: &mut State, slot: RequestSlot) -> &mut Cursor {
    match &mut state.requests.get_mut(slot).stage {
        Stage::Cursor(cursor) => cursor,
        Stage::Simple | Stage::Write(_) => panic!("a discard has a cursor"),
    }
}

/// The whole blocks of an extent: partial ones at its ends keep their data.
fn whole_blocks(extent: ByteExtent) -> ByteExtent {
    let start = extent.start.next_multiple_of(BLOCK_SIZE);
    let end = extent.end() / BLOCK_SIZE * BLOCK_SIZE;
    ByteExtent { start, length: end.saturating_sub(start) }
}

/// Begins a discard, makes it wait, or ends it.
pub(crate) fn go_on(state: &mut State, slot: RequestSlot) {
    let pending = state.requests.get(slot);
    let (volume, extent, has_failed) = (pending.volume, pending.extent, pending.error.is_some());
    let whole = whole_blocks(extent);
    if whole.length == 0 || cursor(state, slot).next >= whole.end() || has_failed {
        state.end_request(slot);
        return;
    }
    if state.must_stall(volume, extent) {
        state.stall(slot);
        return;
    }
    let is_unmarked = state.device.is_out_of_service() && !state.marking.is_recorded();
    if is_unmarked && !mutant!(OutOfServiceUnmarked) {
        // The discard waits for the record that the cache device is out of service: without it, a restart could restore
        // the blocks that the discard drops.
        state.requests.add_pending(slot);
        state.wait_marked(slot);
        return;
    }
    state.waiters.lock(WriteLock { holder: slot, volume, extent: whole, reason: LockReason::Replaced });
    if !mutant!(DiscardJoinsFill) {
        state.fills.invalidate(volume, whole);
    }
    let ticket = state.volumes.get_mut(volume).enqueue(whole, OriginAccess::Write);
    *cursor(state, slot) = Cursor { next: whole.end(), ticket: Some(ticket) };
    state.requests.add_pending(slot);
    state.search(slot, whole, Treatment::Forget);
}

/// The cache holds no block of the extent: the origin discards the extent when this is durable.
pub(crate) fn on_searched(state: &mut State, slot: RequestSlot) {
    let volume = state.requests.get(slot).volume;
    state.waiters.unlock(slot);
    state.wake_stalled();
    state.agenda.push_back(Task::Writeback(volume));
    state.wait_gone(DurableWaiter::Around(slot));
}

/// The records that the origin's part waited for are durable, or cannot be made durable for now.
pub(crate) fn go_past_cache(state: &mut State, slot: RequestSlot, result: Result<(), Errno>) {
    let Some(ticket) = cursor(state, slot).ticket else {
        state.end_pending_with(slot, result);
        return;
    };
    let pending = state.requests.get(slot);
    let (volume, extent) = (pending.volume, whole_blocks(pending.extent));
    state.end_forgotten(slot, result);
    if result.is_ok() {
        let operation = DeviceOperation::Discard { device: Device::Origin(volume), extent };
        state.volumes.get_mut(volume).queue.set_ready(ticket, operation, Purpose::Discard { request: slot });
        return;
    }
    cursor(state, slot).ticket = None;
    state.release_ticket(volume, ticket);
    state.end_pending_with(slot, result);
}

/// The origin's part ended; an origin that cannot discard keeps its data, which is allowed.
pub(crate) fn on_origin(state: &mut State, slot: RequestSlot, result: Result<(), DeviceError>) {
    let volume = state.requests.get(slot).volume;
    let ticket = cursor(state, slot).ticket.take().expect("the part holds its place");
    state.release_ticket(volume, ticket);
    let now = state.now;
    let found = state.volumes.get_mut(volume);
    match (result, found.settings.origin) {
        // A discard of a remote origin was durable when it ended: the request's flush need not cover it.
        (Ok(()), OriginKind::Remote) => found.flush.on_write(now),
        (Ok(()), OriginKind::Local) if mutant!(LocalDiscardDurable) => found.flush.on_write(now),
        (Ok(()), OriginKind::Local) | (Err(_), _) => {
            found.flush.on_client_write(now, 0);
            state.requests.get_mut(slot).note_volatile();
        }
    }
    match (result, found.settings.origin) {
        (Ok(()) | Err(DeviceError::Unsupported), _) => state.end_pending(slot),
        (Err(DeviceError::Io | DeviceError::Gone | DeviceError::NoSpace), OriginKind::Remote) => {
            // The origin may hold unflushed blocks of the extent, which the log has no more: a restart of the origin
            // would restore older data that later reads return.
            state.requests.get_mut(slot).fail(Errno::Io);
            found.flush.wait(slot);
        }
        (Err(DeviceError::Io | DeviceError::Gone | DeviceError::NoSpace), OriginKind::Local) => {
            state.end_pending_with(slot, Err(Errno::Io));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;
    use crate::inflight::searching::Searching;
    use crate::request::{Durability, Operation};
    use crate::scene::Scene;
    use crate::time::Duration;
    use crate::units::VolumeId;

    #[test]
    fn partial_blocks_keep_data_and_whole_ones_drop_first() {
        let mut scene = Scene::new(Mode::WriteBack);
        [0, 8192, 16384].into_iter().for_each(|start| scene.write(start, 4096).0.unwrap());
        let (result, seen) = scene.ask(Operation::Discard, 100, 20_000);
        assert_eq!(result, Ok(()));
        assert_eq!(seen, ["cache log 0", "cache flush", "origin discard 4096+12288"]);
        assert_eq!([0, 8192, 16384].map(|start| scene.is_cached(start)), [true, false, true]);
    }

    #[test]
    fn an_origin_without_discard_keeps_data_and_errors_are_reported() {
        for (error, result) in [(DeviceError::Unsupported, Ok(())), (DeviceError::Io, Err(Errno::Io))] {
            let mut scene = Scene::new(Mode::WriteBack);
            scene.fail("origin discard", error);
            assert_eq!(scene.ask(Operation::Discard, 0, 8192).0, result);
        }
    }

    /// Every second block of the first 512 is cached.
    fn with_cached_blocks() -> Scene {
        let mut scene = Scene::new(Mode::WriteBack);
        (0..512).step_by(2).for_each(|block| scene.write(block << 12, 4096).0.unwrap());
        scene.flush().0.unwrap();
        scene
    }

    /// Searches in slices of so few steps that a slice drops at most one block.
    fn slow_down(scene: &mut Scene) {
        scene.engine.state.searching = Searching::new(16);
        scene.now = scene.now.plus(Duration::from_millis(1));
    }

    fn cached(scene: &Scene) -> u64 {
        scene.engine.cached_blocks(VolumeId::new(0))
    }

    #[test]
    fn a_turn_does_a_slice_of_a_long_discard() {
        let mut scene = with_cached_blocks();
        slow_down(&mut scene);
        assert!(scene.begin(Operation::Discard, 0, 1 << 30).is_empty(), "the origin waits for the search");
        let mut turns = 0;
        while let Some(before) = Some(cached(&scene)).filter(|blocks| *blocks > 0) {
            let due = scene.engine.poll_timeout().expect("there is more to do");
            assert!(due > scene.now, "other events have their turn");
            scene.now = due;
            scene.engine.handle_timeout(scene.now);
            assert!(before - cached(&scene) <= 1);
            turns += 1;
        }
        assert!(turns >= 255, "{turns}");
        let seen = scene.pass(Duration::from_millis(10));
        assert_eq!(seen.last().unwrap(), "origin discard 0+1073741824");
        assert_eq!(scene.take_reply(), Some(Ok(())));
    }

    #[test]
    fn searches_of_many_discards_share_one_slice() {
        let mut scene = with_cached_blocks();
        scene.engine.state.searching = Searching::new(320);
        scene.now = scene.now.plus(Duration::from_millis(1));
        (0..64).for_each(|number| drop(scene.begin(Operation::Discard, number << 15, 1 << 15)));
        assert!(cached(&scene) >= 256 - 320 / 32, "{} are left", cached(&scene));
        scene.pass(Duration::from_millis(100));
        assert_eq!((cached(&scene), scene.not_clean()), (0, (0, 0)));
        assert_eq!((0..64).filter(|_| scene.take_reply() == Some(Ok(()))).count(), 64);
    }

    #[test]
    fn a_read_during_a_discard_returns_old_or_new_data() {
        let mut scene = with_cached_blocks();
        slow_down(&mut scene);
        scene.begin(Operation::Discard, 0, 1 << 30);
        while scene.is_cached(0) {
            scene.now = scene.engine.poll_timeout().unwrap();
            scene.engine.handle_timeout(scene.now);
        }
        let last = 510 << 12;
        assert_eq!(scene.begin(Operation::Read, last, 4096), ["cache read 4096"]);
        assert_eq!(scene.take_reply(), Some(Ok(())));
        assert!(scene.begin(Operation::Read, 0, 4096).is_empty(), "it waits behind the discard");
        let seen = scene.pass(Duration::from_millis(100));
        let place = |wanted: &str| seen.iter().position(|line| line.starts_with(wanted)).unwrap();
        assert!(place("origin discard") < place("origin read"), "{seen:?}");
        assert!(scene.is_cached(0) && !scene.is_cached(last), "the read of the origin is cached");
        scene.engine.check();
    }

    #[test]
    fn a_write_waits_until_a_discard_has_searched_the_cache() {
        let mut scene = with_cached_blocks();
        slow_down(&mut scene);
        scene.begin(Operation::Discard, 0, 1 << 30);
        let write = Operation::Write(Durability::Volatile);
        assert!(scene.begin(write, 0, 4096).is_empty());
        scene.hold("origin discard");
        scene.pass(Duration::from_millis(100));
        assert_eq!((scene.take_reply(), scene.take_reply()), (Some(Ok(())), None), "the log takes it then");
        assert!(scene.is_cached(0) && cached(&scene) == 1);
        let seen = scene.drain();
        assert!(!seen.iter().any(|line| line.starts_with("origin write")), "{seen:?}");
        let seen = scene.end_held();
        assert!(seen.contains(&"origin write 0+4096".into()), "{seen:?}");
        assert_eq!(scene.take_reply(), Some(Ok(())));
    }

    #[test]
    fn dirty_blocks_return_if_a_discard_cannot_be_recorded() {
        let mut scene = with_cached_blocks();
        slow_down(&mut scene);
        scene.begin(Operation::Discard, 0, 1 << 30);
        scene.pass(Duration::from_micros(1_000));
        assert!((1..256).contains(&cached(&scene)), "in the middle of the search");
        scene.fail("", DeviceError::Io);
        scene.pass(Duration::from_millis(20_000));
        assert_eq!(scene.take_reply(), Some(Err(Errno::Io)));
        assert_eq!(cached(&scene), 256);
        scene.engine.check();
    }

    #[test]
    fn a_refused_discard_ends_after_a_flush_of_the_origin() {
        let mut scene = Scene::with_origin(OriginKind::Remote, Mode::WriteBack);
        scene.write(0, 4096).0.unwrap();
        scene.hold("origin flush");
        scene.drain();
        assert_eq!(scene.not_clean(), (0, 1));
        scene.fail("origin discard", DeviceError::Io);
        scene.begin(Operation::Discard, 0, 4096);
        assert_eq!(
            scene.take_reply(),
            None,
            "the flush in flight may have begun before the block was stored"
        );
        assert_eq!(scene.end_held_first_and_hold("origin flush"), ["origin flush"]);
        assert_eq!(scene.take_reply(), None);
        scene.end_held();
        assert_eq!(scene.take_reply(), Some(Err(Errno::Io)));
    }

    #[test]
    fn unflushed_blocks_return_if_a_discard_cannot_be_recorded() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, 8192).0.unwrap();
        scene.hold("origin flush");
        scene.drain();
        assert_eq!(scene.not_clean(), (0, 2));
        scene.fail("", DeviceError::Io);
        scene.begin(Operation::Discard, 0, 8192);
        scene.pass(Duration::from_millis(20_000));
        assert_eq!((scene.take_reply(), cached(&scene)), (Some(Err(Errno::Io)), 2));
        scene.engine.check();
    }
}
