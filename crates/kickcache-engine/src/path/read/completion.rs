//! Completions of a read's submissions, and the treatment of blocks with errors or wrong checksums.

use crate::cache::CachedBlock;
use crate::cache::slots::SlotState;
use crate::device::{Data, DeviceError};
use crate::ids::RequestSlot;
use crate::inflight::blocks::block_extent;
use crate::inflight::purpose::{HitRun, OriginRead, PagedBlock};
use crate::path::read::{hit, miss, serve};
use crate::pool::page_memory;
use crate::request::Errno;
use crate::state::State;
use crate::task::Task;
use crate::units::{BlockKey, ByteExtent, Checksum};

pub(crate) fn on_hit(
    state: &mut State,
    slot: RequestSlot,
    run: HitRun,
    result: Result<Data<'_>, DeviceError>,
) {
    let HitRun { first, location, count } = run;
    if result.is_err() {
        state.device.counters.errors += 1;
    }
    for offset in 0..count {
        let place = location.plus(offset);
        let key = BlockKey::new(first.volume(), first.block().plus(u64::from(offset)));
        let read = result.ok().and_then(|data| data.checksums.get(offset as usize).copied());
        if read == Some(state.cache.slots().checksum(place)) || (mutant!(ChecksumIgnored) && read.is_some()) {
            continue;
        }
        let is_dirty = state.cache.slots().state(place) == SlotState::Dirty;
        if read.is_none() && count > 1 && is_dirty && state.cache.is_current(key, place) {
            // One unreadable block may have failed the read of many blocks: each dirty block is read alone.
            hit::submit_run(state, slot, key, place, 1);
        } else {
            heal(
                state,
                slot,
                CachedBlock { key, location: place },
                block_extent(key.block()),
                fault_of(read),
            );
        }
    }
    state.unpin(location);
    state.end_pending(slot);
}

/// The read of a block from the cache device has ended; the request needs a part.
pub(crate) fn on_hit_part(
    state: &mut State,
    slot: RequestSlot,
    block: PagedBlock,
    part: ByteExtent,
    result: Result<Data<'_>, DeviceError>,
) {
    let PagedBlock { key, location, page } = block;
    if result.is_err() {
        state.device.counters.errors += 1;
    }
    let read = result.ok().and_then(|data| data.checksums.first().copied());
    if read == Some(state.cache.slots().checksum(location)) {
        hit::copy_block(state, slot, page_memory(page), part);
        state.pool.release(page);
    } else {
        state.pool.release(page);
        heal(state, slot, CachedBlock { key, location }, part, fault_of(read));
    }
    state.unpin(location);
    state.end_pending(slot);
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CacheFault {
    /// The device returned an error.
    Unreadable,
    /// The device returned other bytes than the written ones.
    OtherBytes,
}

fn fault_of(read: Option<Checksum>) -> CacheFault {
    if read.is_some() { CacheFault::OtherBytes } else { CacheFault::Unreadable }
}

/// A block is unreadable on the cache device, or has other bytes than the written ones (I-8).
#[cold]
fn heal(state: &mut State, slot: RequestSlot, block: CachedBlock, part: ByteExtent, fault: CacheFault) {
    let CachedBlock { key, location } = block;
    if !state.cache.is_current(key, location) {
        serve::serve(state, slot, part);
        return;
    }
    match state.cache.slots().state(location) {
        SlotState::Dirty if waits_for_origin(state, slot, block, part) => {}
        SlotState::Dirty if !mutant!(DamagedDirtyFromOrigin) => {
            match fault {
                CacheFault::OtherBytes => state.mark_damaged(key, location),
                CacheFault::Unreadable => {
                    state.on_unreadable(state.cache.copy_at(key, location));
                }
            }
            state.requests.get_mut(slot).fail(Errno::Io);
        }
        SlotState::Unflushed if state.volumes.get(key.volume()).may_forget() => {
            // If a server restarts before the block was read, it could return older data.
            state.requests.add_pending(slot);
            state.volumes.get_mut(key.volume()).flush.wait_for_blocks(Task::ReadAgain(slot, part));
        }
        SlotState::Unflushed | SlotState::Dirty => {
            // The origin has the block, but it is durable there only after a flush: the entry stays until then.
            state.volumes.get_mut(key.volume()).counters.healed_blocks += 1;
            miss::read_origin(state, slot, part, miss::Keep::Nothing);
        }
        SlotState::Clean | SlotState::Dead => {
            state.volumes.get_mut(key.volume()).counters.healed_blocks += 1;
            state.forget(key);
            serve::serve(state, slot, part);
        }
    }
}

/// Whether a write through the log is storing the block on the origin, which may serve it then: the read waits for
/// that.
fn waits_for_origin(state: &mut State, slot: RequestSlot, block: CachedBlock, part: ByteExtent) -> bool {
    let copy = state.cache.copy_at(block.key, block.location);
    let waits = state.requests.await_origin(&state.cache, copy, Task::ReadAgain(slot, part));
    if waits {
        state.requests.add_pending(slot);
    }
    waits
}

/// Serves a part of a read again that waited.
pub(crate) fn again(state: &mut State, slot: RequestSlot, part: ByteExtent) {
    serve::serve(state, slot, part);
    state.end_pending(slot);
}

/// A read from the origin of blocks that the cache has too has ended; after an error they are served again.
pub(crate) fn on_shared(
    state: &mut State,
    slot: RequestSlot,
    OriginRead { ticket, extent }: OriginRead,
    result: Result<Data<'_>, DeviceError>,
) {
    let (now, volume) = (state.now, state.requests.get(slot).volume);
    state.release_ticket(volume, ticket);
    state.end_metered_read(volume, extent);
    if result.is_err() {
        let found = state.volumes.get_mut(volume);
        found.counters.origin_errors += 1;
        found.offload.origin.on_error(now);
        serve::serve(state, slot, extent);
    }
    state.end_pending(slot);
}

pub(crate) fn on_direct(
    state: &mut State,
    slot: RequestSlot,
    OriginRead { ticket, extent }: OriginRead,
    result: Result<Data<'_>, DeviceError>,
) {
    let volume = state.requests.get(slot).volume;
    state.release_ticket(volume, ticket);
    state.end_metered_read(volume, extent);
    if result.is_err() {
        state.volumes.get_mut(volume).counters.origin_errors += 1;
    }
    state.end_pending_with(slot, result.map(|_| ()).map_err(|_| Errno::Io));
}

/// Reads a waiter's own part after a widened fill failed.
pub(crate) fn retry(state: &mut State, slot: RequestSlot, part: ByteExtent) {
    miss::read_origin(state, slot, part, miss::Keep::Nothing);
    state.end_pending(slot);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Mode, OriginKind};
    use crate::request::{Durability, Operation};
    use crate::scene::Scene;

    fn asked_for_an_unreadable_copy(part: (u64, u64)) -> Scene {
        let mut scene = Scene::with_origin(OriginKind::Remote, Mode::WriteBack);
        scene.write(8192, 4096).0.unwrap();
        scene.hold("origin flush");
        scene.drain();
        assert_eq!(scene.not_clean(), (0, 1));
        scene.fail("cache read", DeviceError::Io);
        let seen = scene.begin(Operation::Read, part.0, part.1);
        assert!(!seen.iter().any(|line| line.starts_with("origin read")), "the origin may lose it: {seen:?}");
        assert_eq!(scene.take_reply(), None);
        scene
    }

    #[test]
    fn an_unreadable_copy_waits_for_the_remote_flush() {
        for part in [(8192, 4096), (8192 + 100, 50)] {
            let mut scene = asked_for_an_unreadable_copy(part);
            let seen = scene.end_held();
            assert!(seen.iter().any(|line| line.starts_with("origin read")), "{seen:?}");
            assert_eq!(scene.take_reply(), Some(Ok(())));
            assert_eq!(scene.not_clean(), (0, 0));
        }
    }

    #[test]
    fn an_unreadable_copy_fails_after_an_origin_restart() {
        for part in [(8192, 4096), (8192 + 100, 50)] {
            let mut scene = asked_for_an_unreadable_copy(part);
            let seen = scene.restart_origin();
            assert!(seen.iter().all(|line| !line.starts_with("origin read")), "{seen:?}");
            assert_eq!(scene.take_reply(), Some(Err(Errno::Io)));
            assert_eq!(scene.not_clean(), (1, 0));
        }
    }

    #[test]
    fn a_local_origin_keeps_writes_during_reads() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(8192, 4096).0.unwrap();
        scene.hold("origin flush");
        scene.drain();
        scene.fail("cache read", DeviceError::Io);
        assert_eq!(scene.read(8192, 4096).1.last().unwrap(), "origin read 8192+4096");
    }

    #[test]
    fn an_unreadable_copy_is_looked_up_again_after_its_writeback() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.hold("origin write");
        let write = Operation::Write(Durability::Volatile);
        (0..2).for_each(|_| drop(scene.begin(write, 8192, 4096)));
        scene.end_held_first_and_hold("origin write");
        assert_eq!(scene.take_reply(), Some(Ok(())));
        for part in [(8192, 4096), (8192 + 100, 50)] {
            scene.fail_times(1, "cache read", DeviceError::Io);
            assert_eq!(scene.begin(Operation::Read, part.0, part.1)[0], "cache read 4096");
            assert_eq!(scene.take_reply(), None);
        }
        scene.fail("cache read", DeviceError::Io);
        let seen = scene.end_held();
        assert!(seen.contains(&"origin read 8192+4096".into()), "{seen:?}");
        assert_eq!([(); 3].map(|()| scene.take_reply()), [Some(Ok(())); 3]);
    }

    fn damaged(scene: &Scene) -> u64 {
        scene.engine.status().volumes[0].damaged_blocks
    }

    #[test]
    fn a_corrupt_clean_block_is_read_from_the_origin() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.read(4096, 4096).0.unwrap();
        let location = scene.location(8192);
        scene.engine.state.cache.set_checksum(location, Checksum::new(1));
        let (result, seen) = scene.read(8192, 4096);
        assert_eq!((result, &seen[0][..]), (Ok(()), "cache read 4096"));
        assert!(seen[1].starts_with("origin read"), "{seen:?}");
        assert_eq!((damaged(&scene), scene.engine.status().volumes[0].counters.healed_blocks), (0, 1));
    }

    #[test]
    fn corrupt_dirty_blocks_are_damaged_but_device_errors_are_not() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(8192, 4096).0.unwrap();
        scene.fail_times(1, "cache read", DeviceError::Io);
        assert_eq!(scene.read(8192, 4096).0, Err(Errno::Io));
        assert_eq!((scene.read(8192, 4096).0, damaged(&scene)), (Ok(()), 0));
        let location = scene.location(8192);
        scene.engine.state.cache.set_checksum(location, Checksum::new(1));
        assert_eq!((scene.read(8192, 4096).0, damaged(&scene)), (Err(Errno::Io), 1));
        let (result, seen) = scene.read(8192, 4096);
        assert_eq!((result, seen.len()), (Err(Errno::Io), 0), "it is not read again");
        scene.write(8192, 4096).0.unwrap();
        assert_eq!((scene.read(8192, 4096).0, damaged(&scene)), (Ok(()), 0), "it was written again");
    }
}
