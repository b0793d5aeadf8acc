//! A fill reads a window around a miss from the origin for the waiting requests, and can promote its blocks.
//!
//! Invariants:
//! * I-5: a block that was changed since the fill began is not promoted, nor a block that the cache has already.

use alloc::vec;
use alloc::vec::Vec;

use crate::append::{Claim, NewBlock};
use crate::cache::slots::SlotState;
use crate::config::{FILL_WINDOW_MAX, OriginKind};
use crate::device::{Checksums, Data, Device, DeviceError, DeviceOperation, Memory, Pieces};
use crate::ids::{FillSlot, RequestSlot};
use crate::inflight::blocks::{block_extent, blocks_of, intersection};
use crate::inflight::fills::{BlockSet, Fill, FillWaiter};
use crate::inflight::origin::OriginAccess;
use crate::inflight::purpose::Purpose;
use crate::log::Entry;
use crate::pool::{BufferQuota, page_memory, page_pieces};
use crate::queue::Queue;
use crate::request::{Durability, Errno, Operation, ReadFrom};
use crate::state::State;
use crate::task::Task;
use crate::units::{BLOCK_SIZE, BlockKey, ByteExtent, Checksum, PageIndex, VolumeId};

pub(crate) struct FillTarget {
    /// Whole blocks.
    pub(crate) extent: ByteExtent,
    /// A page for each block.
    pub(crate) pages: Vec<PageIndex>,
}

/// Begins a fill of exactly the blocks of `part`, without promotion.
pub(crate) fn begin_whole(state: &mut State, slot: RequestSlot, part: ByteExtent, target: FillTarget) {
    let fill = new(state, slot, part, target);
    submit(state, fill);
}

/// Begins a fill around a miss; `false` if there are no pages for it.
pub(crate) fn begin(state: &mut State, slot: RequestSlot, part: ByteExtent, main: BlockSet) -> bool {
    let volume = state.requests.get(slot).volume;
    let window = choose_window(state, volume, part);
    let mut chosen = window;
    let count = |extent: ByteExtent| usize::try_from(extent.length / BLOCK_SIZE).expect("at most 256 blocks");
    let mut pages = state.pool.take_for(volume, count(window), BufferQuota::Fill);
    if pages.is_none() {
        chosen = part.widened_to_blocks();
        pages = state.pool.take_for(volume, count(chosen), BufferQuota::Fill);
    }
    let Some(pages) = pages else { return false };
    let mut fill = new(state, slot, part, FillTarget { extent: chosen, pages });
    fill.promote = true;
    let skipped =
        usize::try_from((part.widened_to_blocks().start - chosen.start) / BLOCK_SIZE).expect("small");
    for offset in 0..blocks_of(part).len() {
        if main.contains(offset) {
            fill.main.insert(skipped + offset);
        }
    }
    for (offset, block) in blocks_of(chosen).enumerate() {
        if is_newer_in_log(state, BlockKey::new(volume, block)) {
            fill.stale.insert(offset);
        }
    }
    let read_ahead = blocks_of(chosen).len() - blocks_of(part).len();
    state.volumes.get_mut(volume).counters.read_ahead_blocks += read_ahead as u64;
    submit(state, fill);
    true
}

/// Whether the log has newer data of a block than the origin, or may have before the origin is read: a remote origin
/// that restarts loses unflushed data.
fn is_newer_in_log(state: &State, key: BlockKey) -> bool {
    match state.cache.state_of(key) {
        Some(SlotState::Dirty) => true,
        Some(SlotState::Unflushed) => {
            state.volumes.get(key.volume()).settings.origin == OriginKind::Remote
                && !mutant!(FillOutlivesRestart)
        }
        Some(SlotState::Clean | SlotState::Dead) | None => false,
    }
}

/// The extent that a miss reads. It includes the requested blocks, and other blocks that add no wait for a write to the
/// origin.
fn choose_window(state: &mut State, volume: VolumeId, part: ByteExtent) -> ByteExtent {
    let whole = part.widened_to_blocks();
    let found = state.volumes.get(volume);
    let (bytes, size) = (state.wear.window(state.now, found.window.bytes()), found.size);
    if whole.length >= bytes {
        return whole;
    }
    let start = whole.start / bytes * bytes;
    let end = (whole.end().div_ceil(bytes) * bytes).min(size);
    if end - start > FILL_WINDOW_MAX {
        return whole;
    }
    state.volumes.get(volume).queue.undisturbed(whole, ByteExtent { start, length: end - start })
}

fn new(
    state: &mut State,
    slot: RequestSlot,
    part: ByteExtent,
    FillTarget { extent, pages }: FillTarget,
) -> Fill {
    state.requests.add_pending(slot);
    state.requests.get_mut(slot).read_from = ReadFrom::Origin;
    let volume = state.requests.get(slot).volume;
    let ticket = state.volumes.get_mut(volume).enqueue(extent, OriginAccess::Read);
    let pending = state.requests.get(slot);
    let wants_data = !matches!(pending.operation, Operation::Promote);
    let mut fill = Fill {
        volume: pending.volume,
        extent,
        pages,
        wanted: BlockSet::default(),
        stale: BlockSet::default(),
        main: BlockSet::default(),
        promote: false,
        waiters: vec![FillWaiter { request: slot, extent: part, wants_data }],
        ticket,
    };
    for block in blocks_of(part) {
        let offset = fill.offset_of(block).expect("within the fill");
        fill.wanted.insert(offset);
    }
    fill
}

fn submit(state: &mut State, fill: Fill) {
    let (volume, ticket) = (fill.volume, fill.ticket);
    state.begin_metered_read(volume, fill.extent);
    let operation = DeviceOperation::Read {
        device: Device::Origin(volume),
        offset: fill.extent.start,
        pieces: Pieces::Many(page_pieces(&fill.pages)),
        checksums: if fill.promote { Checksums::Compute } else { Checksums::Skip },
    };
    let slot = state.fills.insert(fill);
    state.volumes.get_mut(volume).queue.set_ready(ticket, operation, Purpose::Fill { fill: slot });
}

pub(crate) fn on_filled(state: &mut State, slot: FillSlot, result: Result<Data<'_>, DeviceError>) {
    let fill = state.fills.remove(slot);
    state.release_ticket(fill.volume, fill.ticket);
    state.end_metered_read(fill.volume, fill.extent);
    match result {
        Ok(data) => {
            fill.waiters.iter().for_each(|waiter| hand_out(state, &fill, waiter));
            promote(state, &fill, data.checksums);
        }
        Err(_) => fail(state, &fill),
    }
    state.wake_stalled();
}

fn hand_out(state: &mut State, fill: &Fill, waiter: &FillWaiter) {
    let pending = state.requests.get(waiter.request);
    let (id, start) = (pending.id, pending.extent.start);
    for block in blocks_of(waiter.extent).filter(|_| waiter.wants_data) {
        let part = intersection(waiter.extent, block_extent(block));
        let page = fill.pages[fill.offset_of(block).expect("within the fill")];
        let skip = u32::try_from(part.start % BLOCK_SIZE).expect("below 4096");
        let offset = u32::try_from(part.start - start).expect("requests have at most 32 MiB");
        state.submit_memory(DeviceOperation::Copy {
            from: Memory::Pool { page, offset: skip },
            to: Memory::Request { id, offset },
            length: u32::try_from(part.length).expect("at most a block"),
            checksums: Checksums::Skip,
        });
    }
    state.end_pending(waiter.request);
}

/// Appends blocks of a fill to the log, and releases the pages of the others.
fn promote(state: &mut State, fill: &Fill, checksums: &[Checksum]) {
    let is_unsettled = state.volumes.get(fill.volume).flush.is_unsettled();
    let slot_state = if is_unsettled { SlotState::Unflushed } else { SlotState::Clean };
    let is_too_much = is_unsettled && state.is_log_overdrawn(fill.volume);
    if fill.promote {
        let count = u32::try_from(fill.pages.len()).expect("at most 256 blocks");
        state.device.log.keep_together(Queue::Probation, count);
        state.device.log.keep_together(Queue::Main, count);
    }
    for (offset, block) in blocks_of(fill.extent).enumerate() {
        let key = BlockKey::new(fill.volume, block);
        let page = fill.pages[offset];
        let queue = if fill.main.contains(offset) { Queue::Main } else { Queue::Probation };
        let is_wanted = fill.promote && !fill.stale.contains(offset) && state.cache.find(key).is_none();
        let has_room = state.has_spare_room(queue) && !state.device.is_out_of_service();
        if !is_wanted || is_too_much || !has_room {
            state.pool.release(page);
            continue;
        }
        let entry = Entry {
            key: Some(key),
            memory: page_memory(page),
            checksum: checksums[offset],
            dirty: is_unsettled,
            page: Some(page),
            older: None,
        };
        let block = NewBlock {
            claim: Claim::Spare,
            queue,
            entry,
            state: slot_state,
            waiter: None,
            durability: Durability::Volatile,
        };
        let Some(location) = state.append(key, block) else {
            state.pool.release(page);
            continue;
        };
        state.pool.disown(page);
        if is_unsettled {
            state.await_flush(key, location);
        }
        if !fill.wanted.contains(offset) {
            state.cache.set_read_ahead(location);
        }
        state.volumes.get_mut(fill.volume).counters.promoted_blocks += 1;
    }
}

/// The origin could not read the extent; if it was wider than requested, the reads among the waiters try only their own
/// parts.
fn fail(state: &mut State, fill: &Fill) {
    state.volumes.get_mut(fill.volume).counters.origin_errors += 1;
    fill.pages.iter().for_each(|page| state.pool.release(*page));
    for waiter in &fill.waiters {
        if waiter.extent.widened_to_blocks() == fill.extent || !waiter.wants_data {
            state.end_pending_with(waiter.request, Err(Errno::Io));
        } else {
            state.agenda.push_back(Task::ReadOrigin(waiter.request, waiter.extent));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Mode;
    use crate::device::DeviceError;
    use crate::request::Errno;
    use crate::scene::Scene;

    #[test]
    fn a_miss_fills_its_neighbours_for_the_next_read() {
        let mut scene = Scene::new(Mode::WriteThrough);
        assert_eq!(scene.read(4096, 4096).1[0], "origin read 0+65536");
        assert_eq!(scene.read(8192, 4096).1, ["cache read 4096"]);
    }

    #[test]
    fn a_failed_fill_fails_its_reader_and_leaves_no_blocks() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.fail("origin read", DeviceError::Io);
        assert_eq!(scene.read(4096, 4096).0, Err(Errno::Io));
        assert!(!scene.is_cached(4096) && !scene.is_cached(8192));
    }

    #[test]
    fn blocks_of_an_unflushed_origin_are_cached_as_unflushed() {
        let mut scene = Scene::new(Mode::WriteAround);
        scene.hold("origin flush");
        scene.write(8192, 4096).0.unwrap();
        scene.read(8192, 4096).0.unwrap();
        assert!(scene.is_cached(8192));
        assert!(scene.not_clean().1 > 0, "{:?}", scene.not_clean());
        scene.end_held();
        scene.pass(crate::time::Duration::from_millis(40_000));
        assert_eq!(scene.not_clean(), (0, 0));
    }
}
