//! Writeback: dirty blocks go to the origin in LBA order, neighbours in one write.
//!
//! Invariants:
//! * I-3: a block that was written back is unflushed until the origin's flush.
//! * A block goes to the origin only when its copy in the log is durable: else a power cut could bring an older copy
//!   back than the origin has.

use alloc::vec::Vec;

use crate::cache::BlockCopy;
use crate::cache::segments::SegmentState;
use crate::cache::slots::SlotState;
use crate::config::{SWEEP_BLOCKS_MAX, WRITEBACK_BACKOFF, WRITEBACK_DEPTH_MAX};
use crate::device::{Checksums, Data, Device, DeviceError, DeviceOperation, Pieces};
use crate::format::journal::Fact;
use crate::ids::WritebackSlot;
use crate::inflight::blocks::block_extent;
use crate::inflight::origin::{AccessRequest, OriginAccess, Priority};
use crate::inflight::purpose::{Purpose, WritebackRun};
use crate::inflight::writebacks::Writeback;
use crate::order::DurableWaiter;
use crate::policy::pacing::{Start, View, WritebackPace};
use crate::pool::{BufferQuota, page_pieces};
use crate::queue::Queue;
use crate::request::Durability;
use crate::state::State;
use crate::time::{Duration, Instant};
use crate::units::{BLOCK_SIZE, BlockKey, ByteExtent, Location, SegmentIndex, VolumeId};

/// Most blocks of one writeback.
const BLOCKS_MAX: usize = 64;
/// A dirty block goes along that is at most this many behind the last one, with the clean ones between. From a slow cache device each
/// of those would be a read.
const REACH: u64 = 4;
const REACH_SLOW: u64 = 1;
/// When to look again for something to write back that is not ripe yet, or that gives way to hits.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What the pace of a volume is at the moment.
pub(crate) fn choose(state: &State, volume: VolumeId) -> WritebackPace {
    let found = state.volumes.get(volume);
    if state.now < found.backoff_until {
        return WritebackPace::RestUntil(found.backoff_until);
    }
    let blocks = state.cache.volume(volume);
    if blocks.dirty == blocks.damaged {
        return WritebackPace::Rest;
    }
    if let Some(at) = state.unreadable.rest_until() {
        return WritebackPace::RestUntil(at);
    }
    let settings = &found.settings;
    let view = View {
        now: state.now,
        dirty_share: state.dirty_data_share(volume),
        low: u64::from(settings.dirty_low),
        high: u64::from(settings.dirty_high),
        foreground_reads: found.queue.foreground_reads(),
        foreground_total: found.foreground_total,
        cache: found.offload.cache_work(),
        last_request: found.last_request,
        idle_after: settings.idle_after,
        urgent: found.draining || found.writeback_wanted,
    };
    found.pacing.choose(&view, WRITEBACK_DEPTH_MAX)
}

/// Starts as many writebacks as the pace allows.
pub(crate) fn go_on(state: &mut State, volume: VolumeId) {
    if state.volumes.find(volume).is_none() {
        return;
    }
    state.volumes.get_mut(volume).look_again_at = state.now.plus(LOOK_AGAIN);
    if state.is_ending && !state.waiters.want_room() {
        return;
    }
    loop {
        let WritebackPace::Run(depth) = choose(state, volume) else { return };
        if state.writebacks.count_for(volume) >= depth {
            return;
        }
        let Some(bytes) = start_one(state, volume) else { return };
        let now = state.now;
        let found = state.volumes.get_mut(volume);
        let cache_done = found.offload.cache_work().done;
        let start = Start { now, foreground_total: found.foreground_total, cache_done, bytes };
        found.pacing.on_start(start, &found.settings.writeback_cap);
    }
}

/// Starts one writeback and gives its bytes; nothing if there is nothing to start now.
fn start_one(state: &mut State, volume: VolumeId) -> Option<u64> {
    let mut first = next_dirty(state, volume);
    if first.is_none() {
        gather(state, volume);
        first = next_dirty(state, volume);
    }
    let first = first?;
    let Some(pages) = state.pool.take_for(volume, BLOCKS_MAX, BufferQuota::All) else {
        state.cache.leave_sweep(first.location);
        return None;
    };
    let blocks = merge_neighbours(state, volume, first);
    let (pages, spare) = pages.split_at(blocks.len());
    spare.iter().for_each(|page| state.pool.release(*page));
    let extent =
        ByteExtent { start: first.key.block().byte_offset(), length: blocks.len() as u64 * BLOCK_SIZE };
    let request = AccessRequest { extent, access: OriginAccess::Write, priority: Priority::Background };
    let ticket = state.volumes.get_mut(volume).queue.enqueue(request);
    let pages = pages.to_vec();
    let slot = state.writebacks.insert(Writeback {
        volume,
        extent,
        blocks,
        pages,
        ticket,
        reads_in_flight: 0,
        failed: false,
    });
    read_blocks(state, slot);
    Some(extent.length)
}

/// The next block of the sweep that is still dirty.
fn next_dirty(state: &mut State, volume: VolumeId) -> Option<BlockCopy> {
    while let Some(copy) = state.volumes.get_mut(volume).sweep.pop() {
        if is_ripe(state, copy) {
            return Some(copy);
        }
        if state.cache.is_alive(copy) && !state.cache.slots().is_in_writeback(copy.location) {
            state.cache.leave_sweep(copy.location);
        }
    }
    None
}

fn is_ripe(state: &State, copy: BlockCopy) -> bool {
    let BlockCopy { key, location, .. } = copy;
    state.cache.is_alive(copy)
        && state.cache.slots().state(location) == SlotState::Dirty
        && !state.cache.slots().is_damaged(location)
        && !state.cache.slots().is_in_writeback(location)
        && !is_being_replaced(state, key)
        && state.may_be_tried(copy)
        && (state.is_durable(location) || mutant!(WritebackOfVolatileCopy))
}

/// Whether a write of the block is on its way past the log. In service, another lock is a write that waits for the room which
/// writeback makes.
fn is_being_replaced(state: &State, key: BlockKey) -> bool {
    let extent = block_extent(key.block());
    let is_out = state.device.is_out_of_service();
    (state.waiters.is_replaced(key.volume(), extent) && !mutant!(SupersededWrittenBack))
        || is_out && state.waiters.is_locked(key.volume(), extent)
}

/// The blocks behind the first one that go along: dirty ones, and short stretches of clean ones between them.
fn merge_neighbours(state: &mut State, volume: VolumeId, first: BlockCopy) -> Vec<BlockCopy> {
    let mut blocks = alloc::vec![first];
    let mut length = 1;
    let most = if state.is_doubtful(first) { 1 } else { BLOCKS_MAX as u64 };
    let reach = if state.volumes.get(volume).offload.is_cache_slow() { REACH_SLOW } else { REACH };
    for offset in 1..most {
        let key = BlockKey::new(volume, first.key.block().plus(offset));
        let Some(location) = state.cache.find(key) else { break };
        let copy = state.cache.copy_at(key, location);
        let is_dirty = is_ripe(state, copy);
        if state.is_doubtful(copy) {
            break;
        }
        if !(is_dirty || may_fill_gap(state, location)) || offset >= length as u64 + reach {
            break;
        }
        blocks.push(copy);
        if is_dirty {
            length = blocks.len();
        }
    }
    blocks.truncate(length);
    for copy in &blocks {
        state.cache.enter_sweep(copy.location);
        state.cache.begin_writeback(copy.location);
    }
    blocks
}

/// Whether a clean block may be written along. Not once the cache is out of service: writes go past it then, and leave
/// the clean copy standing until the origin has them.
fn may_fill_gap(state: &State, location: Location) -> bool {
    let is_clean = state.cache.slots().state(location) == SlotState::Clean;
    is_clean && state.is_durable(location) && !state.device.is_out_of_service()
}

/// Collects dirty blocks for the next sweep: from the segments that reclaim will come to first.
fn gather(state: &mut State, volume: VolumeId) {
    let mut found = Vec::new();
    let mut waits_for_flush = false;
    for segment in segments_in_order(state) {
        if found.len() >= SWEEP_BLOCKS_MAX {
            break;
        }
        let dirty: Vec<_> = state.cache.live_in(segment).filter(|at| is_wanted(state, volume, *at)).collect();
        for location in dirty {
            if state.is_durable(location) || mutant!(WritebackOfVolatileCopy) {
                found.push(state.cache.copy_at(state.cache.slots().key(location), location));
                state.cache.enter_sweep(location);
            } else {
                waits_for_flush = true;
            }
        }
    }
    if found.is_empty() && waits_for_flush && !state.writebacks.wait_for_flush {
        state.writebacks.wait_for_flush = true;
        state.device.log.close_all();
        state.agenda.push_back(crate::task::Task::Barrier(DurableWaiter::Writeback));
    }
    state.volumes.get_mut(volume).sweep.fill(found);
}

/// What stands in the log did not become durable: writeback rests before it asks again.
pub(crate) fn on_not_durable(state: &mut State) {
    state.writebacks.wait_for_flush = false;
    let until = state.now.plus(WRITEBACK_BACKOFF);
    for volume in state.volumes.ids() {
        state.volumes.get_mut(volume).backoff_until = until;
    }
}

fn is_wanted(state: &State, volume: VolumeId, location: Location) -> bool {
    let slots = state.cache.slots();
    slots.state(location) == SlotState::Dirty
        && slots.key(location).volume() == volume
        && !slots.is_in_sweep(location)
        && !slots.is_damaged(location)
}

/// The segments that hold blocks which are not clean, those that reclaim will come to first in front.
fn segments_in_order(state: &State) -> Vec<SegmentIndex> {
    let segments = state.cache.segments();
    let sealed = Queue::ALL.into_iter().flat_map(|queue| segments.oldest_first(queue));
    let is_other = |state: SegmentState| {
        matches!(
            state,
            SegmentState::Open | SegmentState::Sealing | SegmentState::Reclaiming | SegmentState::Retired
        )
    };
    let others = segments.iter().filter(|(_, segment)| is_other(segment.state)).map(|(index, _)| index);
    sealed.chain(others).filter(|segment| segments.get(*segment).not_clean > 0).collect()
}

/// Reads the blocks of a writeback; those that stand together in one read.
fn read_blocks(state: &mut State, slot: WritebackSlot) {
    let writeback = state.writebacks.get_mut(slot);
    let (blocks, pages) = (writeback.blocks.clone(), writeback.pages.clone());
    let mut first = 0;
    while first < blocks.len() {
        let start = blocks[first].location;
        let segment = state.cache.segment_of(start);
        let stands = |(offset, copy): (u32, &BlockCopy)| {
            copy.location == start.plus(offset) && state.cache.segment_of(copy.location) == segment
        };
        let count = (0..).zip(&blocks[first..]).take_while(|pair| stands(*pair)).count();
        state.pin(start);
        let operation = DeviceOperation::Read {
            device: Device::Cache,
            offset: state.cache.geometry().byte_offset(start),
            pieces: Pieces::Many(page_pieces(&pages[first..first + count])),
            checksums: Checksums::Compute,
        };
        let number = |value: usize| u32::try_from(value).expect("at most 64 blocks");
        let run = WritebackRun { first: number(first), count: number(count) };
        let purpose = Purpose::WritebackRead { writeback: slot, run };
        state.submit(purpose, operation);
        state.writebacks.get_mut(slot).reads_in_flight += 1;
        first += count;
    }
}

/// A stretch of blocks came from the cache device.
pub(crate) fn on_read(
    state: &mut State,
    slot: WritebackSlot,
    run: WritebackRun,
    result: Result<Data<'_>, DeviceError>,
) {
    let (first, count) = (run.first as usize, run.count as usize);
    state.device.counters.errors += u64::from(result.is_err());
    let blocks = state.writebacks.get_mut(slot).blocks[first..first + count].to_vec();
    for (offset, copy) in blocks.iter().enumerate() {
        let read = result.ok().and_then(|data| data.checksums.get(offset).copied());
        if read == Some(state.cache.slots().checksum(copy.location)) {
            state.clear_doubt(*copy);
            continue;
        }
        state.writebacks.get_mut(slot).failed = true;
        if read.is_some() {
            on_damaged(state, *copy);
        } else if !on_unreadable(state, *copy, count) {
            state.volumes.get_mut(copy.key.volume()).backoff_until = state.now.plus(WRITEBACK_BACKOFF);
        }
    }
    state.unpin(blocks[0].location);
    let writeback = state.writebacks.get_mut(slot);
    writeback.reads_in_flight -= 1;
    if writeback.reads_in_flight > 0 {
        return;
    }
    if writeback.failed {
        finish(state, slot);
        return;
    }
    let (volume, ticket, extent) = (writeback.volume, writeback.ticket, writeback.extent);
    let (offset, pieces) = (extent.start, Pieces::Many(page_pieces(&writeback.pages)));
    let durability = if state.device.is_out_of_service() {
        // Nobody knows whether the copy can be read a second time.
        state.volumes.get(volume).durability_without_copy(Durability::Volatile)
    } else {
        Durability::Volatile
    };
    let operation = DeviceOperation::Write { device: Device::Origin(volume), offset, pieces, durability };
    let purpose = Purpose::WritebackWrite { writeback: slot };
    state.begin_metered_writeback(volume, extent.length);
    state.volumes.get_mut(volume).queue.set_ready(ticket, operation, purpose);
}

/// A block, alone or with others, could not be read. `false` if that cannot be remembered.
fn on_unreadable(state: &mut State, copy: BlockCopy, count: usize) -> bool {
    if !state.cache.is_alive(copy) {
        return true;
    }
    match state.cache.slots().state(copy.location) {
        // The origin has it; left dirty, it would be written along again.
        SlotState::Clean => state.forget(copy.key),
        SlotState::Dead => {}
        SlotState::Unflushed | SlotState::Dirty if count == 1 => return state.on_unreadable(copy),
        SlotState::Unflushed | SlotState::Dirty => return state.doubt(copy),
    }
    true
}

/// A block on its way to the origin is damaged: it must not get there.
fn on_damaged(state: &mut State, copy: BlockCopy) {
    let BlockCopy { key, location, .. } = copy;
    if !state.cache.is_alive(copy) {
        return;
    }
    if state.cache.slots().state(location) == SlotState::Dirty {
        state.mark_damaged(key, location);
    } else if state.cache.slots().state(location) == SlotState::Clean {
        state.forget(key);
    }
}

/// The origin's answer.
pub(crate) fn on_written(state: &mut State, slot: WritebackSlot, result: Result<(), DeviceError>) {
    let writeback = state.writebacks.get_mut(slot);
    let (volume, blocks, bytes) = (writeback.volume, writeback.blocks.clone(), writeback.extent.length);
    state.end_metered_writeback(volume, bytes);
    let now = state.now;
    let found = state.volumes.get_mut(volume);
    if result.is_err() {
        found.flush.on_write(now);
        found.counters.origin_errors += 1;
        found.backoff_until = now.plus(WRITEBACK_BACKOFF);
        finish(state, slot);
        return;
    }
    found.flush.on_write(now);
    found.counters.writeback_blocks += blocks.len() as u64;
    for copy in blocks {
        let BlockCopy { key, location, .. } = copy;
        if state.cache.is_alive(copy) && state.cache.slots().state(location) == SlotState::Dirty {
            if mutant!(CleanBeforeOriginFlush) {
                state.cache.set_state(location, SlotState::Clean);
                state.device.record(Fact::Clean(key));
                continue;
            }
            state.cache.set_state(location, SlotState::Unflushed);
            state.await_flush(key, location);
            state.volumes.get_mut(volume).flush.witnesses.add(key.block());
        }
    }
    finish(state, slot);
}

fn finish(state: &mut State, slot: WritebackSlot) {
    let writeback = state.writebacks.remove(slot);
    for copy in
        writeback.blocks.iter().filter(|copy| state.cache.is_alive(**copy)).copied().collect::<Vec<_>>()
    {
        state.cache.leave_sweep(copy.location);
        state.cache.end_writeback(copy.location);
    }
    if !mutant!(PagesLeaked) {
        writeback.pages.iter().for_each(|page| state.pool.release(*page));
    }
    state.release_ticket(writeback.volume, writeback.ticket);
    state.wake_stalled();
}

/// When a volume's writeback should be looked at again.
pub(crate) fn poll_timeout(state: &State, volume: VolumeId) -> Option<Instant> {
    match choose(state, volume) {
        WritebackPace::RestUntil(at) => Some(at),
        WritebackPace::Run(_) | WritebackPace::GiveWay if state.writebacks.count_for(volume) == 0 => {
            Some(state.volumes.get(volume).look_again_at)
        }
        WritebackPace::Rest | WritebackPace::Run(_) | WritebackPace::GiveWay => None,
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::num::NonZeroU64;

    use super::*;
    use crate::config::{Mode, VolumeSettings};
    use crate::rate::RateCap;
    use crate::request::Operation;
    use crate::scene::Scene;

    #[test]
    fn neighbours_go_to_the_origin_in_order_and_in_one_write() {
        let mut scene = Scene::new(Mode::WriteBack);
        [5, 3, 4, 40].into_iter().for_each(|block| scene.write(block * 4096, 4096).0.unwrap());
        let seen = scene.drain();
        let writes: Vec<_> = seen.iter().filter(|line| line.starts_with("origin")).collect();
        assert_eq!(
            writes,
            ["origin write 12288+12288", "origin write 163840+4096", "origin flush"],
            "{seen:?}"
        );
        assert!(scene.drain().is_empty(), "all of it is clean");
    }

    #[test]
    fn clean_blocks_between_dirty_ones_are_written_along_unless_the_cache_device_is_slow() {
        for (micros, writes) in [(100, 1), (1_500, 2)] {
            let mut scene = Scene::new(Mode::WriteBack);
            (0..3).for_each(|block| scene.write(block * BLOCK_SIZE, BLOCK_SIZE).0.unwrap());
            scene.drain();
            for number in 0..8 {
                scene.hold("cache read");
                scene.begin(Operation::Read, number % 3 * BLOCK_SIZE, BLOCK_SIZE);
                scene.engine.handle_sleep(Duration::from_micros(micros));
                scene.end_held();
                scene.take_reply().unwrap().unwrap();
            }
            [0, 2].into_iter().for_each(|block| scene.write(block * BLOCK_SIZE, BLOCK_SIZE).0.unwrap());
            let seen = scene.drain();
            let count = seen.iter().filter(|line| line.starts_with("origin write")).count();
            assert_eq!(count, writes, "{micros} us a read: {seen:?}");
        }
    }

    #[test]
    fn an_idle_volume_is_written_back_at_its_cap_and_a_drain_is_not() {
        let mut scene = Scene::new(Mode::WriteBack);
        let capped = VolumeSettings {
            mode: Mode::WriteBack,
            idle_after: Duration::from_millis(500),
            writeback_cap: RateCap { bytes: NonZeroU64::new(8 * BLOCK_SIZE), requests: None },
            ..VolumeSettings::new(VolumeId::new(0))
        };
        scene.engine.change_settings(scene.now, &capped);
        (0..100).for_each(|number| scene.write(number * 100 * BLOCK_SIZE, BLOCK_SIZE).0.unwrap());
        let writes =
            |seen: Vec<_>| seen.iter().filter(|line: &&String| line.starts_with("origin write")).count();
        assert_eq!(writes(scene.pass(Duration::from_millis(499))), 0);
        assert_eq!(writes(scene.pass(Duration::from_millis(5_000))), 41, "eight blocks a second");
        assert_eq!(writes(scene.drain()), 59);
    }

    #[test]
    fn what_gives_way_to_hits_has_its_turns_however_many_come() {
        let mut scene = Scene::new(Mode::WriteBack);
        let volume = VolumeId::new(0);
        let place = |number: u64| number * 100 * BLOCK_SIZE;
        (0..200).for_each(|number| scene.write(place(number), BLOCK_SIZE).0.unwrap());
        // A cache device that takes 10 ms for eight hits, and has a client that always waits.
        scene.hold("cache read");
        (0..8).for_each(|number| drop(scene.begin(Operation::Read, place(number), BLOCK_SIZE)));
        scene.engine.handle_sleep(Duration::from_millis(10));
        scene.end_held();
        (0..8).for_each(|_| scene.take_reply().unwrap().unwrap());
        scene.engine.state.begin_metered_hit(volume, 64);
        scene.settings(volume).dirty_low = 0;
        let mut seen = Vec::new();
        for number in 0..800 {
            let (result, done) = scene.read(place(number % 200), BLOCK_SIZE);
            result.unwrap();
            seen.extend(done);
            seen.extend(scene.pass(Duration::from_millis(1)));
        }
        let writes = seen.iter().filter(|line| line.starts_with("origin write")).count();
        assert!((8..=20).contains(&writes), "{writes} writebacks beside 800 hits");
    }

    #[test]
    fn what_the_origin_did_not_flush_is_written_again() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(8192, 4096).0.unwrap();
        scene.fail("origin flush", DeviceError::Io);
        assert!(scene.drain().iter().any(|line| line == "origin write 8192+4096"));
        scene.heal();
        let mut again = scene.drain();
        again.extend(scene.drain());
        assert!(again.iter().any(|line| line == "origin write 8192+4096"), "{again:?}");
    }
}
