//! Blocks of a read that are cached.

use crate::cache::slots::SlotState;
use crate::device::{Checksums, Device, DeviceOperation, Memory, Piece, Pieces};
use crate::ids::RequestSlot;
use crate::inflight::blocks::{block_extent, intersection};
use crate::inflight::purpose::{HitRun, PagedBlock, Purpose};
use crate::path::read::{direct, lookup};
use crate::policy::miniature::Use;
use crate::pool::page_memory;
use crate::request::{Errno, Operation};
use crate::state::State;
use crate::task::Task;
use crate::units::{BLOCK_LENGTH, BLOCK_SIZE, BlockIndex, BlockKey, ByteExtent, Location};

/// Serves the block at `location`, with whole blocks that are adjacent there; returns the start of the rest of the
/// request. For a promote, only skips the block.
pub(super) fn serve_hit(
    state: &mut State,
    slot: RequestSlot,
    key: BlockKey,
    location: Location,
    rest: ByteExtent,
) -> u64 {
    let part = intersection(rest, block_extent(key.block()));
    if matches!(state.requests.get(slot).operation, Operation::Promote) {
        return part.end();
    }
    if state.cache.slots().is_damaged(location) {
        state.requests.get_mut(slot).fail(Errno::Io);
        return part.end();
    }
    let pending = state.pending_memory(location);
    if pending.is_some() && state.device.log.await_landing(location, Task::ReadAgain(slot, part)) {
        state.requests.add_pending(slot);
        return part.end();
    }
    touch(state, key, location);
    if let Some(memory) = pending {
        copy_block(state, slot, memory, part);
        return part.end();
    }
    if part.length < BLOCK_SIZE {
        submit_part(state, slot, key, location, part);
        return part.end();
    }
    let count = run_length(state, key, location, rest);
    for offset in 1..count {
        let next = BlockKey::new(key.volume(), key.block().plus(u64::from(offset)));
        touch(state, next, location.plus(offset));
    }
    let run = ByteExtent { start: part.start, length: u64::from(count) * BLOCK_SIZE };
    if is_shared(state, key, location, run) {
        direct::read_shared(state, slot, run);
    } else {
        submit_run(state, slot, key, location, count);
    }
    run.end()
}

/// Whether the origin should serve the adjacent blocks from `location` on: only blocks that it has flushed.
fn is_shared(state: &State, key: BlockKey, location: Location, run: ByteExtent) -> bool {
    let volume = state.volumes.get(key.volume());
    if !state.is_offloaded(key.volume(), run.length) || run.end() > volume.size {
        return false;
    }
    let count = u32::try_from(run.length / BLOCK_SIZE).expect("at most 256 blocks");
    (0..count).all(|offset| state.cache.slots().state(location.plus(offset)) == SlotState::Clean)
}

fn touch(state: &mut State, key: BlockKey, location: Location) {
    let volume = key.volume();
    state.keep_what_is_read(key, location);
    state.retention.hold.observe(key, Use::Read);
    let touch = state.cache.touch(location);
    if touch.is_first {
        state.retention.passage.on_hit(key);
    }
    if touch.is_candidate {
        state.reclaim.shift.on_old_hit(volume);
    }
    let volume = state.volumes.get_mut(volume);
    volume.counters.hit_blocks += 1;
    if touch.is_first_of_read_ahead {
        state.retention.hold.on_read_ahead(key);
        volume.counters.read_ahead_hit_blocks += 1;
        volume.window.on_useful(state.cache.slots().key(location).block());
        if follows_what_was_asked_for(state, key) {
            state.volumes.get_mut(key.volume()).scanned_blocks += 1;
        }
    }
}

/// Whether the block before this one is cached, and not as unused read-ahead.
fn follows_what_was_asked_for(state: &State, key: BlockKey) -> bool {
    let before =
        key.block().get().checked_sub(1).map(|block| BlockKey::new(key.volume(), BlockIndex::new(block)));
    let location = before.and_then(|before| state.cache.find(before));
    location.is_some_and(|location| !state.cache.slots().is_read_ahead(location))
}

pub(super) fn copy_block(state: &mut State, slot: RequestSlot, block: Memory, part: ByteExtent) {
    let skip = u32::try_from(part.start % BLOCK_SIZE).expect("below 4096");
    let from = match block {
        Memory::Request { id, offset } => Memory::Request { id, offset: offset + skip },
        Memory::Pool { page, offset } => Memory::Pool { page, offset: offset + skip },
    };
    let to = lookup::payload(state, slot, part.start);
    let length = u32::try_from(part.length).expect("at most a block");
    state.submit_memory(DeviceOperation::Copy { from, to, length, checksums: Checksums::Skip });
}

/// The number of whole blocks of the request that are adjacent on the device, at most [`lookup::RUN_MAX`].
fn run_length(state: &State, key: BlockKey, location: Location, rest: ByteExtent) -> u32 {
    let whole = u32::try_from(rest.length / BLOCK_SIZE).expect("requests have at most 32 MiB");
    let segment = state.cache.segment_of(location);
    let stands = |offset: u32| {
        let next = BlockKey::new(key.volume(), key.block().plus(u64::from(offset)));
        let place = location.plus(offset);
        state.cache.segment_of(place) == segment
            && lookup::find(state, next) == Some(place)
            && !state.cache.slots().is_damaged(place)
            && state.pending_memory(place).is_none()
    };
    (1..whole.min(lookup::RUN_MAX))
        .find(|offset| !stands(*offset))
        .unwrap_or_else(|| whole.clamp(1, lookup::RUN_MAX))
}

pub(super) fn submit_run(
    state: &mut State,
    slot: RequestSlot,
    first: BlockKey,
    location: Location,
    count: u32,
) {
    state.requests.add_pending(slot);
    state.pin(location);
    let memory = lookup::payload(state, slot, first.block().byte_offset());
    let offset = state.cache.geometry().byte_offset(location);
    let begun = state.begin_metered_hit(first.volume(), count);
    let run = HitRun { first, location, count };
    let purpose = Purpose::Hit { request: slot, run, begun };
    state.submit_hit(purpose, offset, Piece { memory, length: count * BLOCK_LENGTH });
}

/// Reads a whole block because the request needs a part; without a free page, the request fails.
#[inline(never)]
fn submit_part(state: &mut State, slot: RequestSlot, key: BlockKey, location: Location, part: ByteExtent) {
    let Some(page) = state.pool.take_one() else {
        state.requests.get_mut(slot).fail(Errno::Io);
        return;
    };
    state.requests.add_pending(slot);
    state.pin(location);
    let operation = DeviceOperation::Read {
        device: Device::Cache,
        offset: state.cache.geometry().byte_offset(location),
        pieces: Pieces::One(Piece { memory: page_memory(page), length: BLOCK_LENGTH }),
        checksums: Checksums::Compute,
    };
    let block = PagedBlock { key, location, page };
    state.submit(Purpose::HitPart { request: slot, block, extent: part }, operation);
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;

    use crate::config::Mode;
    use crate::device::DeviceError;
    use crate::policy::shift::RequestedBlocks;
    use crate::request::{Durability, Errno, Operation};
    use crate::scene::Scene;
    use crate::units::VolumeId;

    #[test]
    fn adjacent_blocks_are_one_read_of_whole_blocks() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, 16384).0.unwrap();
        assert_eq!(scene.read(0, 16384).1, ["cache read 16384"]);
        assert_eq!(scene.read(4096 + 512, 1024).1, ["cache read 4096"]);
        scene.write(4096, 4096).0.unwrap();
        assert_eq!(scene.read(0, 16384).1, ["cache read 4096", "cache read 4096", "cache read 8192"]);
    }

    #[test]
    fn a_client_write_is_readable_once_it_has_landed() {
        for mode in [Mode::WriteBack, Mode::WriteThrough] {
            let mut scene = Scene::new(mode);
            scene.hold("cache log");
            scene.begin(Operation::Write(Durability::Volatile), 0, 4096);
            let seen = scene.begin(Operation::Read, 0, 4096);
            assert_eq!((scene.take_reply(), seen), (None, Vec::<String>::new()), "{mode:?}");
            let seen = scene.end_held();
            assert!(seen.contains(&"cache read 4096".into()), "{seen:?}");
            assert_eq!((scene.take_reply(), scene.take_reply()), (Some(Ok(())), Some(Ok(()))));
            assert_eq!(scene.engine.counters(VolumeId::new(0)).hit_blocks, 1);
        }
    }

    #[test]
    fn a_read_ahead_scan_is_no_use_of_the_cache() {
        let mut scene = Scene::new(Mode::WriteThrough);
        (0..16).for_each(|number| scene.read(number * 4096, 4096).0.unwrap());
        let volume = VolumeId::new(0);
        assert_eq!(scene.engine.counters(volume).hit_blocks, 15);
        let used = |scene: &Scene| scene.engine.state.volumes.get(volume).used();
        assert_eq!(used(&scene), RequestedBlocks { hits: 0, misses: 1 });
        scene.read(4096, 4096).0.unwrap();
        assert_eq!(used(&scene), RequestedBlocks { hits: 1, misses: 1 });
        (16..32).step_by(2).for_each(|number| scene.read(number * 4096, 4096).0.unwrap());
        assert_eq!(used(&scene), RequestedBlocks { hits: 8, misses: 2 });
    }

    #[test]
    fn an_unreadable_dirty_block_fails_only_its_own_read() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, 8192).0.unwrap();
        scene.fail_times(1, "cache read 8192", DeviceError::Io);
        let (result, seen) = scene.read(0, 8192);
        assert_eq!(result, Ok(()), "{seen:?}");
        assert_eq!(seen.iter().filter(|line| *line == "cache read 4096").count(), 2, "each alone: {seen:?}");
        scene.fail("cache read", DeviceError::Io);
        assert_eq!(scene.read(0, 8192).0, Err(Errno::Io));
    }
}
