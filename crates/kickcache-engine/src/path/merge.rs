//! Completes a partial block of a write to a whole one: reads the rest, and copies the request's bytes over it.
//!
//! Meanwhile other writes to the request's extent wait, so that none of them is undone.

use crate::cache::slots::SlotState;
use crate::device::{Checksums, Data, Device, DeviceError, DeviceOperation, Memory, Pieces};
use crate::ids::RequestSlot;
use crate::inflight::blocks::{block_extent, intersection};
use crate::inflight::origin::OriginAccess;
use crate::inflight::purpose::{OriginRest, PagedBlock, Purpose};
use crate::inflight::writing::{Merged, WriteData};
use crate::pool::{BufferQuota, page_memory, page_piece};
use crate::request::Errno;
use crate::state::State;
use crate::task::Task;
use crate::units::{BLOCK_LENGTH, BLOCK_SIZE, BlockIndex, BlockKey, Location, PageIndex};

/// Begins to complete the partial blocks of a write, which has locked its extent; `false` if there is not enough memory
/// now.
pub(crate) fn begin(state: &mut State, slot: RequestSlot) -> bool {
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let writing = pending.writing();
    let blocks: alloc::vec::Vec<BlockIndex> = writing.partial_blocks().collect();
    let Some(pages) = state.pool.take_for(volume, blocks.len(), BufferQuota::All) else { return false };
    state.requests.add_pending(slot);
    for (block, page) in blocks.into_iter().zip(pages) {
        state.requests.add_pending(slot);
        read_rest(state, slot, BlockKey::new(volume, block), page);
    }
    state.end_pending(slot);
    true
}

/// Begins to read the present block into the page, or fails the request if the block is damaged.
fn read_rest(state: &mut State, slot: RequestSlot, key: BlockKey, page: PageIndex) {
    let found = state.cache.find(key);
    let is_usable = |location: &Location| {
        let is_origin_current = state.cache.slots().state(*location) == SlotState::Clean
            || state.requests.is_on_its_way(&state.cache, key.volume(), *location);
        let is_left = state.device.is_out_of_service() && is_origin_current;
        // If the rest came from a write that the origin refuses, the refused bytes could reach the origin after reads
        // returned the earlier bytes.
        !is_left && !state.may_vanish(key, *location)
    };
    match found.filter(is_usable) {
        Some(location) if state.cache.slots().is_damaged(location) => give_up(state, slot, page),
        Some(location) => match state.pending_memory(location) {
            Some(from) => {
                copy_in(state, from, page);
                overlay(state, slot, key.block(), page);
            }
            None => read_cached(state, slot, key, location, page),
        },
        None if mutant!(MergeForgetsRest) => overlay(state, slot, key.block(), page),
        None => read_from_origin(state, slot, key, page),
    }
}

fn give_up(state: &mut State, slot: RequestSlot, page: PageIndex) {
    state.pool.release(page);
    state.end_pending_with(slot, Err(Errno::Io));
}

fn copy_in(state: &mut State, from: Memory, page: PageIndex) {
    let (to, length) = (page_memory(page), BLOCK_LENGTH);
    state.submit_memory(DeviceOperation::Copy { from, to, length, checksums: Checksums::Skip });
}

fn read_cached(state: &mut State, slot: RequestSlot, key: BlockKey, location: Location, page: PageIndex) {
    state.pin(location);
    let operation = DeviceOperation::Read {
        device: Device::Cache,
        offset: state.cache.geometry().byte_offset(location),
        pieces: Pieces::One(page_piece(page)),
        checksums: Checksums::Compute,
    };
    let block = PagedBlock { key, location, page };
    state.submit(Purpose::MergeCached { request: slot, block }, operation);
}

fn read_from_origin(state: &mut State, slot: RequestSlot, key: BlockKey, page: PageIndex) {
    let volume = key.volume();
    let ticket = state.volumes.get_mut(volume).enqueue(block_extent(key.block()), OriginAccess::Read);
    let operation = DeviceOperation::Read {
        device: Device::Origin(volume),
        offset: key.block().byte_offset(),
        pieces: Pieces::One(page_piece(page)),
        checksums: Checksums::Skip,
    };
    let rest = OriginRest { block: key.block(), page, ticket };
    let purpose = Purpose::MergeOrigin { request: slot, rest };
    state.volumes.get_mut(volume).queue.set_ready(ticket, operation, purpose);
}

pub(crate) fn on_cached(
    state: &mut State,
    slot: RequestSlot,
    block: PagedBlock,
    result: Result<Data<'_>, DeviceError>,
) {
    let PagedBlock { key, location, page } = block;
    let read = result.ok().and_then(|data| data.checksums.first().copied());
    let is_right = read == Some(state.cache.slots().checksum(location));
    let is_current = state.cache.is_current(key, location);
    state.unpin(location);
    state.device.counters.errors += u64::from(result.is_err());
    if is_right {
        overlay(state, slot, key.block(), page);
    } else if !is_current {
        read_rest(state, slot, key, page);
    } else if state.cache.slots().state(location) == SlotState::Clean {
        state.volumes.get_mut(key.volume()).counters.healed_blocks += 1;
        state.forget(key);
        read_rest(state, slot, key, page);
    } else if state.cache.slots().state(location) == SlotState::Unflushed {
        heal_unflushed(state, slot, key, page);
    } else {
        if read.is_some() {
            state.mark_damaged(key, location);
        } else {
            state.on_unreadable(state.cache.copy_at(key, location));
        }
        give_up(state, slot, page);
    }
}

/// The origin has the block, but may lose it before its next flush: the entry stays until the flush.
fn heal_unflushed(state: &mut State, slot: RequestSlot, key: BlockKey, page: PageIndex) {
    let found = state.volumes.get_mut(key.volume());
    if found.may_forget() {
        found.flush.wait_for_blocks(Task::MergeAgain(slot, key, page));
        return;
    }
    found.counters.healed_blocks += 1;
    read_from_origin(state, slot, key, page);
}

/// A block that waited for the origin's flush is clean, or dirty again.
pub(crate) fn again(state: &mut State, slot: RequestSlot, key: BlockKey, page: PageIndex) {
    read_rest(state, slot, key, page);
}

pub(crate) fn on_origin(
    state: &mut State,
    slot: RequestSlot,
    rest: OriginRest,
    result: Result<(), DeviceError>,
) {
    let OriginRest { block, page, ticket } = rest;
    let volume = state.requests.get(slot).volume;
    state.release_ticket(volume, ticket);
    if result.is_err() {
        state.volumes.get_mut(volume).counters.origin_errors += 1;
        give_up(state, slot, page);
        return;
    }
    overlay(state, slot, block, page);
}

fn overlay(state: &mut State, slot: RequestSlot, block: BlockIndex, page: PageIndex) {
    let pending = state.requests.get_mut(slot);
    let (id, start) = (pending.id, pending.extent.start);
    let writing = pending.writing();
    let source = writing.source;
    let part = intersection(writing.extent, block_extent(block));
    let skip = u32::try_from(part.start % BLOCK_SIZE).expect("below 4096");
    let length = u32::try_from(part.length).expect("at most a block");
    let to = Memory::Pool { page, offset: skip };
    let operation = match source {
        WriteData::Payload => {
            let offset = u32::try_from(part.start - start).expect("requests have at most 32 MiB");
            DeviceOperation::Copy {
                from: Memory::Request { id, offset },
                to,
                length,
                checksums: Checksums::Compute,
            }
        }
        WriteData::Zeroes => DeviceOperation::Zero { to, length, checksums: Checksums::Compute },
    };
    state.submit(Purpose::Merged { request: slot, block, page }, operation);
}

/// The copy of the request's bytes over a partial block has ended.
pub(crate) fn on_merged(
    state: &mut State,
    slot: RequestSlot,
    block: BlockIndex,
    page: PageIndex,
    result: Result<Data<'_>, DeviceError>,
) {
    let checksum = result.ok().and_then(|data| data.checksums.first().copied());
    let Some(checksum) = checksum else {
        give_up(state, slot, page);
        return;
    };
    state.requests.get_mut(slot).writing().merged.push(Merged { block, page, checksum });
    state.end_pending(slot);
}

#[cfg(test)]
mod tests {
    use crate::config::{Mode, OriginKind};
    use crate::device::DeviceError;
    use crate::request::{Durability, Errno, Operation};
    use crate::scene::Scene;
    use crate::units::VolumeId;

    #[test]
    fn a_partial_block_is_not_completed_from_a_vanishing_copy() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.hold("origin write");
        scene.begin(Operation::Write(Durability::Volatile), 8192, 4096);
        let partial = Operation::Write(Durability::Volatile);
        let kept = scene.begin(partial, 8192 + 512, 1024);
        assert!(
            kept.contains(&"cache read 8192".into()) || kept.iter().any(|line| line.starts_with("cache log")),
            "{kept:?}"
        );
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.hold("origin write");
        scene.begin(Operation::Write(Durability::Volatile), 8192, 4096);
        scene.engine.state.volumes.get_mut(VolumeId::new(0)).refused_at = Some(scene.now);
        let seen = scene.begin(partial, 8192 + 512, 1024);
        assert!(!seen.iter().any(|line| line.starts_with("cache")), "{seen:?}");
        let seen = scene.fail_held(DeviceError::Io);
        assert!(seen.iter().any(|line| line == "origin read 8192+4096"), "{seen:?}");
    }

    #[test]
    fn a_partial_block_waits_for_the_remote_flush() {
        for restarts in [false, true] {
            let mut scene = Scene::with_origin(OriginKind::Remote, Mode::WriteBack);
            scene.write(8192, 4096).0.unwrap();
            scene.hold("origin flush");
            scene.drain();
            scene.fail("cache read", DeviceError::Io);
            let seen = scene.begin(Operation::Write(Durability::Volatile), 8192 + 512, 1024);
            assert!(!seen.iter().any(|line| line.starts_with("origin read")), "{seen:?}");
            assert_eq!(scene.take_reply(), None);
            let seen = if restarts { scene.restart_origin() } else { scene.end_held() };
            assert_eq!(seen.iter().any(|line| line == "origin read 8192+4096"), !restarts, "{seen:?}");
            let expected = if restarts { Err(Errno::Io) } else { Ok(()) };
            assert_eq!(scene.take_reply(), Some(expected));
        }
    }

    #[test]
    fn an_out_of_service_block_is_completed_from_the_log() {
        for (written, expected) in [(true, "cache read 4096"), (false, "origin read 8192+4096")] {
            let mut scene = Scene::new(if written { Mode::WriteBack } else { Mode::WriteThrough });
            if written {
                scene.write(8192, 4096).0.unwrap();
                scene.settings(VolumeId::new(0)).mode = Mode::WriteThrough;
            }
            scene.hold("origin write");
            let write = Operation::Write(Durability::Volatile);
            assert!(scene.begin(write, 8192, 4096).contains(&"origin write 8192+4096".into()));
            scene.engine.state.take_out_of_service();
            let mut seen = scene.begin(write, 8192 + 512, 1024);
            seen.extend(scene.end_held());
            assert!(seen.contains(&expected.into()), "{seen:?}");
        }
    }

    #[test]
    fn a_partial_block_is_merged_with_its_present_rest() {
        let mut scene = Scene::new(Mode::WriteBack);
        assert_eq!(scene.write(8192 + 512, 1000).1, ["origin read 8192+4096", "cache log 4096"]);
        assert_eq!(scene.write(8192, 512).1, ["cache read 4096", "cache log 4096"]);
        assert_eq!(scene.write(8192, 4096).1, ["cache log 4096"], "a whole block needs no read");
    }
}
