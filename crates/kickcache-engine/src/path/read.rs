//! A read: hits straight from the cache device, misses from the origin.
//!
//! Over 500 lines because hit, miss and heal lead into each other, and a path names no other path.
//!
//! Invariants:
//! * I-8: a block is handed out only if its checksum is right; a clean one that is not is read from the origin.

use crate::cache::slots::SlotState;
use crate::config::{FILL_WINDOW_MAX, Mode};
use crate::device::{Checksums, Data, Device, DeviceError, DeviceOperation, Memory, Piece, Pieces};
use crate::ids::{RequestSlot, Ticket};
use crate::inflight::fills::{BlockSet, Fill, FillWaiter};
use crate::inflight::origin::Access;
use crate::inflight::purpose::Purpose;
use crate::inflight::requests::{Stage, block_extent, blocks_of, intersection};
use crate::policy::admission::Choice;
use crate::policy::retention::Noted;
use crate::policy::window::Missed;
use crate::pool::{PARTIAL_PAGES, Share, page_memory, page_pieces};
use crate::queue::Queue;
use crate::request::{Errno, Operation, ReadFrom};
use crate::state::State;
use crate::units::{
    BLOCK_LENGTH, BLOCK_SIZE, BlockIndex, BlockKey, ByteExtent, Checksum, Location, PageIndex, SECTOR_SIZE,
    VolumeId,
};

const FILL_BLOCKS_MAX: u64 = FILL_WINDOW_MAX / BLOCK_SIZE;
/// Fill windows between a block and one that is cached, if at all, for a reason of its own.
const FAR: u64 = 16;
/// Most whole blocks of one read.
const FILL_RUN_MAX: u32 = 256;
const _: () = assert!(FILL_RUN_MAX as u64 == FILL_BLOCKS_MAX);

/// Where a request's bytes for a place on its volume lie.
fn payload(state: &State, slot: RequestSlot, at: u64) -> Memory {
    let pending = state.requests.get(slot);
    let offset = u32::try_from(at - pending.extent.start).expect("requests have at most 32 MiB");
    Memory::Request { id: pending.id, offset }
}

const fn is_sector_aligned(extent: ByteExtent) -> bool {
    extent.start.is_multiple_of(SECTOR_SIZE) && extent.end().is_multiple_of(SECTOR_SIZE)
}

/// Fetches the places in memory that reads will look at first.
pub(crate) fn warm(state: &State, reads: &[RequestSlot]) {
    state.cache.warm(reads.iter().map(|slot| {
        let pending = state.requests.get(*slot);
        BlockKey::new(pending.volume, BlockIndex::containing(pending.extent.start))
    }));
}

/// Begins a read.
pub(crate) fn begin(state: &mut State, slot: RequestSlot) {
    let pending = state.requests.get(slot);
    let (volume, extent) = (pending.volume, pending.extent);
    if extent != extent.widened_to_blocks() && state.pool.free_for(volume) < PARTIAL_PAGES {
        state.stalled.push_back(slot);
        return;
    }
    state.hold(slot);
    serve(state, slot, extent);
    state.release(slot);
}

/// Brings the next stretch of an extent into the cache, if any is left: no more than there are pages for.
pub(crate) fn promote(state: &mut State, slot: RequestSlot) {
    let volume = state.requests.get(slot).volume;
    let pages = state.pool.free_for(volume) as u64;
    let pending = state.requests.get_mut(slot);
    let end = pending.extent.end();
    let Stage::Cursor { next, .. } = &mut pending.stage else { panic!("a promote has a cursor") };
    if *next >= end || pending.error.is_some() {
        state.end_request(slot);
        return;
    }
    if pages == 0 {
        state.stalled.push_back(slot);
        return;
    }
    let room = BlockIndex::containing(*next).plus(pages).byte_offset() - *next;
    let part = ByteExtent { start: *next, length: (end - *next).min(FILL_WINDOW_MAX).min(room) };
    *next = part.end();
    state.hold(slot);
    serve(state, slot, part);
    state.release(slot);
}

/// Serves a part of a request.
fn serve(state: &mut State, slot: RequestSlot, extent: ByteExtent) {
    let volume = state.requests.get(slot).volume;
    let end = extent.end();
    let mut at = extent.start;
    while at < end {
        let rest = whole_or_partial(ByteExtent { start: at, length: end - at });
        let key = BlockKey::new(volume, BlockIndex::containing(at));
        at = match find(state, key) {
            Some(location) => serve_hit(state, slot, key, location, rest),
            None => serve_miss(state, slot, volume, rest),
        };
    }
}

/// The first block if it is a partial one, else the whole blocks before a partial one.
fn whole_or_partial(rest: ByteExtent) -> ByteExtent {
    let into_block = rest.start % BLOCK_SIZE;
    let length = if into_block != 0 {
        rest.length.min(BLOCK_SIZE - into_block)
    } else if rest.length > BLOCK_SIZE {
        rest.length / BLOCK_SIZE * BLOCK_SIZE
    } else {
        rest.length
    };
    ByteExtent { start: rest.start, length }
}

/// Where a block stands, if it may be served from there.
#[inline]
fn find(state: &State, key: BlockKey) -> Option<Location> {
    let location = state.cache.find(key)?;
    let is_clean = state.cache.slots().state(location) == SlotState::Clean;
    let is_left = is_clean && state.is_out_of_service();
    if is_left || state.may_be_refused(key, location) { None } else { Some(location) }
}

/// Serves the blocks that stand together from `location` on; gives where the rest of the request begins.
fn serve_hit(
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
        state.requests.get_mut(slot).error.get_or_insert(Errno::Io);
        return part.end();
    }
    touch(state, key.volume(), location);
    if let Some(memory) = state.pending_memory(location) {
        copy_block(state, slot, memory, part);
        return part.end();
    }
    if part.length < BLOCK_SIZE {
        submit_part(state, slot, key, location, part);
        return part.end();
    }
    let count = run_length(state, key, location, rest);
    for offset in 1..count {
        touch(state, key.volume(), location.plus(offset));
    }
    let run = ByteExtent { start: part.start, length: u64::from(count) * BLOCK_SIZE };
    if is_shared(state, key, location, run) {
        read_shared(state, slot, run);
    } else {
        submit_run(state, slot, key, location, count);
    }
    run.end()
}

/// Whether the origin is to serve blocks that stand together from `location` on: only what it has, flushed.
fn is_shared(state: &State, key: BlockKey, location: Location, run: ByteExtent) -> bool {
    let volume = state.volume(key.volume());
    if !state.is_offloaded(key.volume(), run.length) || run.end() > volume.size {
        return false;
    }
    let count = u32::try_from(run.length / BLOCK_SIZE).expect("at most 256 blocks");
    (0..count).all(|offset| state.cache.slots().state(location.plus(offset)) == SlotState::Clean)
}

fn touch(state: &mut State, volume: VolumeId, location: Location) {
    let touch = state.cache.touch(location);
    if touch.is_candidate {
        state.reclaim.shift.on_old_hit(volume);
    }
    let volume = state.volume_mut(volume);
    volume.counters.hit_blocks += 1;
    if touch.is_first_of_prefetched {
        volume.counters.prefetch_hit_blocks += 1;
        volume.window.on_useful();
    }
}

/// Copies a part of a block that stands in memory.
fn copy_block(state: &mut State, slot: RequestSlot, block: Memory, part: ByteExtent) {
    let skip = u32::try_from(part.start % BLOCK_SIZE).expect("below 4096");
    let from = match block {
        Memory::Request { id, offset } => Memory::Request { id, offset: offset + skip },
        Memory::Pool { page, offset } => Memory::Pool { page, offset: offset + skip },
    };
    let to = payload(state, slot, part.start);
    let length = u32::try_from(part.length).expect("at most a block");
    state.submit_memory(DeviceOperation::Copy { from, to, length, checksums: Checksums::Skip });
}

/// How many whole blocks of the request stand one behind the other on the device.
fn run_length(state: &State, key: BlockKey, location: Location, rest: ByteExtent) -> u32 {
    let whole = u32::try_from(rest.length / BLOCK_SIZE).expect("requests have at most 32 MiB");
    let segment = state.cache.segment_of(location);
    let stands = |offset: u32| {
        let next = BlockKey::new(key.volume(), key.block().plus(u64::from(offset)));
        let place = location.plus(offset);
        state.cache.segment_of(place) == segment
            && find(state, next) == Some(place)
            && !state.cache.slots().is_damaged(place)
            && state.pending_memory(place).is_none()
    };
    (1..whole.min(FILL_RUN_MAX))
        .find(|offset| !stands(*offset))
        .unwrap_or_else(|| whole.clamp(1, FILL_RUN_MAX))
}

fn submit_run(state: &mut State, slot: RequestSlot, first: BlockKey, location: Location, count: u32) {
    state.hold(slot);
    state.enter_segment(location);
    let memory = payload(state, slot, first.block().byte_offset());
    let operation = DeviceOperation::Read {
        device: Device::Cache,
        offset: state.cache.geometry().byte_offset(location),
        pieces: Pieces::One(Piece { memory, length: count * BLOCK_LENGTH }),
        checksums: Checksums::Compute,
    };
    let begun = state.begin_metered_hit(first.volume(), count);
    state.submit(Purpose::Hit { request: slot, first, location, count, begun }, operation);
}

/// Reads a whole block of which the request wants a part.
#[inline(never)]
fn submit_part(state: &mut State, slot: RequestSlot, key: BlockKey, location: Location, part: ByteExtent) {
    let Some(page) = state.pool.take_one() else {
        state.requests.get_mut(slot).error.get_or_insert(Errno::Io);
        return;
    };
    state.hold(slot);
    state.enter_segment(location);
    let operation = DeviceOperation::Read {
        device: Device::Cache,
        offset: state.cache.geometry().byte_offset(location),
        pieces: Pieces::One(Piece { memory: page_memory(page), length: BLOCK_LENGTH }),
        checksums: Checksums::Compute,
    };
    state.submit(Purpose::HitPart { request: slot, key, location, page, extent: part }, operation);
}

/// A run of hits came from the cache device.
pub(crate) fn on_hit(
    state: &mut State,
    slot: RequestSlot,
    run: (BlockKey, Location, u32),
    result: Result<Data<'_>, DeviceError>,
) {
    let (first, location, count) = run;
    if result.is_err() {
        state.counters.errors += 1;
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
            // One block of many that cannot be read is no error of the others.
            submit_run(state, slot, key, place, 1);
        } else {
            heal(state, slot, (key, place), block_extent(key.block()), fault_of(read));
        }
    }
    state.leave_segment(location);
    state.release(slot);
}

/// A block of which a part is wanted came from the cache device.
pub(crate) fn on_hit_part(
    state: &mut State,
    slot: RequestSlot,
    block: (BlockKey, Location, PageIndex, ByteExtent),
    result: Result<Data<'_>, DeviceError>,
) {
    let (key, location, page, part) = block;
    if result.is_err() {
        state.counters.errors += 1;
    }
    let read = result.ok().and_then(|data| data.checksums.first().copied());
    if read == Some(state.cache.slots().checksum(location)) {
        copy_block(state, slot, page_memory(page), part);
        state.pool.release(page);
    } else {
        state.pool.release(page);
        heal(state, slot, (key, location), part, fault_of(read));
    }
    state.leave_segment(location);
    state.release(slot);
}

/// What is wrong with a block that was read from the cache device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CacheFault {
    /// The device answered with an error.
    Unreadable,
    /// It gave other bytes than those that were written.
    OtherBytes,
}

/// Of a read that gave a wrong checksum, or none.
fn fault_of(read: Option<Checksum>) -> CacheFault {
    if read.is_some() { CacheFault::OtherBytes } else { CacheFault::Unreadable }
}

/// A block could not be read from the cache device, or not as it was written (I-8). A device that answers with an error
/// may do better the next time; other bytes than those that were written will not become the right ones.
#[cold]
fn heal(
    state: &mut State,
    slot: RequestSlot,
    block: (BlockKey, Location),
    part: ByteExtent,
    fault: CacheFault,
) {
    let (key, location) = block;
    if !state.cache.is_current(key, location) {
        serve(state, slot, part);
        return;
    }
    match state.cache.slots().state(location) {
        SlotState::Dirty if !mutant!(DamagedDirtyFromOrigin) => {
            match fault {
                CacheFault::OtherBytes => state.mark_damaged(key, location),
                CacheFault::Unreadable => {
                    state.on_unreadable(state.cache.copy_at(key, location));
                }
            }
            state.requests.get_mut(slot).error.get_or_insert(Errno::Io);
        }
        SlotState::Unflushed | SlotState::Dirty => {
            // The origin has it, but only its flush makes that certain: the entry stays until then.
            state.volume_mut(key.volume()).counters.healed_blocks += 1;
            read_origin(state, slot, part, Keep::Nothing);
        }
        SlotState::Clean | SlotState::Dead => {
            state.volume_mut(key.volume()).counters.healed_blocks += 1;
            state.forget(key);
            serve(state, slot, part);
        }
    }
}

/// Whether what a miss reads is promoted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keep {
    Nothing,
    /// With these blocks of the extent for main's head.
    Promote {
        main: BlockSet,
    },
}

/// Serves the blocks from the start of `rest` that are not cached; gives where the rest of the request begins.
#[inline(never)]
fn serve_miss(state: &mut State, slot: RequestSlot, volume: VolumeId, rest: ByteExtent) -> u64 {
    let first = BlockIndex::containing(rest.start);
    if !state.fills.is_empty()
        && let Some(end) = join_fill(state, slot, volume, rest)
    {
        return end;
    }
    let is_open = |state: &State, block: BlockIndex| {
        find(state, BlockKey::new(volume, block)).is_none()
            && (state.fills.is_empty() || !state.fills.covers(volume, block))
    };
    let blocks = blocks_of(rest).take(FILL_RUN_MAX as usize).skip(1);
    let end = blocks.into_iter().find(|block| !is_open(state, *block));
    let limit = end.unwrap_or_else(|| first.plus(FILL_BLOCKS_MAX)).byte_offset();
    let part = ByteExtent { start: rest.start, length: limit.min(rest.end()) - rest.start };
    let count = blocks_of(part).len() as u64;
    let counters = &mut state.volume_mut(volume).counters;
    counters.miss_blocks += count;
    let is_promote = matches!(state.requests.get(slot).operation, Operation::Promote);
    let wish = if is_promote { Wish::Promote } else { Wish::Read };
    let keep = choose(state, volume, part, wish);
    if keep == Keep::Nothing {
        state.volume_mut(volume).counters.bypass_blocks += count;
    }
    if keep == Keep::Nothing && is_promote {
        return part.end();
    }
    read_origin(state, slot, part, keep);
    part.end()
}

/// Waits for a fill in flight that brings the first blocks of the extent.
fn join_fill(state: &mut State, slot: RequestSlot, volume: VolumeId, rest: ByteExtent) -> Option<u64> {
    let wants_data = !matches!(state.requests.get(slot).operation, Operation::Promote);
    let fill = state.fills.covering(volume, BlockIndex::containing(rest.start))?;
    let part = intersection(rest, fill.extent);
    let is_fresh = |offset: usize| !fill.stale.contains(offset) || mutant!(StaleFillJoined);
    let usable = |block: &BlockIndex| fill.offset_of(*block).is_some_and(is_fresh);
    let blocks = blocks_of(part).take_while(usable).count() as u64;
    let limit = BlockIndex::containing(rest.start).plus(blocks).byte_offset();
    let end = limit.min(part.end());
    let extent = ByteExtent { start: rest.start, length: end - rest.start };
    for block in blocks_of(extent) {
        let offset = fill.offset_of(block).expect("within the fill");
        fill.wanted.insert(offset);
    }
    fill.waiters.push(FillWaiter { request: slot, extent, wants_data });
    state.hold(slot);
    state.requests.get_mut(slot).read_from = ReadFrom::Origin;
    let counters = &mut state.volume_mut(volume).counters;
    counters.miss_blocks += blocks;
    counters.shared_blocks += blocks;
    Some(end)
}

/// What a client wants of a miss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    Read,
    /// That it is cached.
    Promote,
}

/// Whether a miss is promoted, and to which queue; what a client asks to be promoted is no stream.
fn choose(state: &mut State, volume: VolumeId, part: ByteExtent, wish: Wish) -> Keep {
    let is_asked_for = wish == Wish::Promote;
    let is_behind = !is_asked_for && state.is_cache_behind(volume, part.length);
    let found = state.volume_mut(volume);
    let settings = found.settings;
    let stream = found.read_streams.observe(part);
    let is_stream = !is_asked_for && settings.sequential_cutoff.is_some_and(|cutoff| stream > cutoff);
    if is_stream || is_behind || settings.mode == Mode::Bypass || state.is_out_of_service() {
        return Keep::Nothing;
    }
    let mut main = BlockSet::default();
    let mut noted: Option<Noted> = is_asked_for.then_some(Noted::JustNow);
    for (offset, block) in blocks_of(part).enumerate() {
        let Some(known) = state.retention.place(BlockKey::new(volume, block)) else { continue };
        noted = Some(noted.map_or(known.noted, |before| before.min(known.noted)));
        if known.queue == Queue::Main {
            main.insert(offset);
        }
    }
    note_miss(state, volume, part, noted);
    match state.volume(volume).gate.choose(settings.admission, state.pressure(), noted) {
        Choice::Promote => Keep::Promote { main },
        Choice::Remember => {
            blocks_of(part).for_each(|block| state.retention.remember(BlockKey::new(volume, block)));
            Keep::Nothing
        }
    }
}

/// Reads an extent from the origin: through pages if it is promoted or not aligned to sectors, else directly.
fn read_origin(state: &mut State, slot: RequestSlot, part: ByteExtent, keep: Keep) {
    if let Keep::Promote { main } = keep
        && begin_fill(state, slot, part, main)
    {
        return;
    }
    if is_sector_aligned(part) && !matches!(state.requests.get(slot).operation, Operation::Promote) {
        read_directly(state, slot, part);
        return;
    }
    let whole = part.widened_to_blocks();
    let count = usize::try_from(whole.length / BLOCK_SIZE).expect("at most 256 blocks");
    let pending = state.requests.get_mut(slot);
    let volume = pending.volume;
    let pages = state.pool.take_for(volume, count, Share::All).or_else(|| match &mut pending.stage {
        Stage::Cursor { next, .. } => {
            // A wider fill of what came before took the pages: a promote comes back to this part.
            *next = part.start.min(*next);
            None
        }
        // A part of a block that was damaged on the cache device: no request begins without pages for its ends.
        Stage::Simple | Stage::Write(_) => {
            let pages = state.pool.take_over(volume, count);
            if pages.is_none() {
                pending.error.get_or_insert(Errno::Io);
            }
            pages
        }
    });
    let Some(pages) = pages else { return };
    let fill = new_fill(state, slot, part, (whole, pages));
    submit_fill(state, fill);
}

/// Begins a fill around a miss; `false` if there are no pages for it.
fn begin_fill(state: &mut State, slot: RequestSlot, part: ByteExtent, main: BlockSet) -> bool {
    let volume = state.requests.get(slot).volume;
    let window = choose_window(state, volume, part);
    let mut chosen = window;
    let count = |extent: ByteExtent| usize::try_from(extent.length / BLOCK_SIZE).expect("at most 256 blocks");
    let mut pages = state.pool.take_for(volume, count(window), Share::Fill);
    if pages.is_none() {
        chosen = part.widened_to_blocks();
        pages = state.pool.take_for(volume, count(chosen), Share::Fill);
    }
    let Some(pages) = pages else { return false };
    let mut fill = new_fill(state, slot, part, (chosen, pages));
    fill.promote = true;
    let skipped =
        usize::try_from((part.widened_to_blocks().start - chosen.start) / BLOCK_SIZE).expect("small");
    for offset in 0..blocks_of(part).len() {
        if main.contains(offset) {
            fill.main.insert(skipped + offset);
        }
    }
    for (offset, block) in blocks_of(chosen).enumerate() {
        if state.cache.state_of(BlockKey::new(volume, block)) == Some(SlotState::Dirty) {
            fill.stale.insert(offset);
        }
    }
    let prefetched = blocks_of(chosen).len() - blocks_of(part).len();
    state.volume_mut(volume).counters.prefetched_blocks += prefetched as u64;
    submit_fill(state, fill);
    true
}

/// Lets the policies know what was asked for and is not there.
fn note_miss(state: &mut State, volume: VolumeId, part: ByteExtent, noted: Option<Noted>) {
    let found = state.volume(volume);
    let bytes = found.window.bytes();
    let block = BlockIndex::containing(part.start).get();
    let is_cached = |distance: u64| {
        let other = BlockIndex::new(block ^ (bytes / BLOCK_SIZE * distance));
        state.cache.find(BlockKey::new(volume, other)).is_some()
    };
    let missed = Missed {
        is_known: noted.is_some(),
        is_near: is_cached(1),
        is_crowded: is_cached(FAR),
        hits: found.counters.hit_blocks,
        newest: state.order.newest(),
    };
    let capacity = state.retention.capacity();
    let found = state.volume_mut(volume);
    let asked = found.asked();
    found.gate.on_miss(noted, asked, capacity);
    if let Some(before) = found.window.on_miss(missed) {
        found.gate.open(missed.newest, asked);
        state.reclaim.shift.want(volume, before);
    }
}

/// The extent that a miss reads.
fn choose_window(state: &State, volume: VolumeId, part: ByteExtent) -> ByteExtent {
    let whole = part.widened_to_blocks();
    let found = state.volume(volume);
    let (bytes, size) = (found.window.bytes(), found.size);
    if whole.length >= bytes {
        return whole;
    }
    let start = whole.start / bytes * bytes;
    let end = (whole.end().div_ceil(bytes) * bytes).min(size);
    if end - start > FILL_WINDOW_MAX {
        return whole;
    }
    ByteExtent { start, length: end - start }
}

fn new_fill(
    state: &mut State,
    slot: RequestSlot,
    part: ByteExtent,
    (extent, pages): (ByteExtent, alloc::vec::Vec<PageIndex>),
) -> Fill {
    state.hold(slot);
    state.requests.get_mut(slot).read_from = ReadFrom::Origin;
    let volume = state.requests.get(slot).volume;
    let ticket = state.enqueue(volume, extent, Access::Read);
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
        waiters: alloc::vec![FillWaiter { request: slot, extent: part, wants_data }],
        ticket,
    };
    for block in blocks_of(part) {
        let offset = fill.offset_of(block).expect("within the fill");
        fill.wanted.insert(offset);
    }
    fill
}

fn submit_fill(state: &mut State, fill: Fill) {
    let (volume, ticket) = (fill.volume, fill.ticket);
    state.begin_metered_read(volume, fill.extent);
    let operation = DeviceOperation::Read {
        device: Device::Origin(volume),
        offset: fill.extent.start,
        pieces: Pieces::Many(page_pieces(&fill.pages)),
        checksums: if fill.promote { Checksums::Compute } else { Checksums::Skip },
    };
    let slot = state.fills.insert(fill);
    state.volume_mut(volume).queue.set_ready(ticket, operation, Purpose::Fill { fill: slot });
}

/// Reads from the origin straight into the request's memory.
fn read_directly(state: &mut State, slot: RequestSlot, part: ByteExtent) {
    read_into_request(state, slot, part, |ticket| Purpose::Direct { request: slot, part: (ticket, part) });
}

/// Reads from the origin what the cache has too.
#[inline(never)]
fn read_shared(state: &mut State, slot: RequestSlot, extent: ByteExtent) {
    let volume = state.requests.get(slot).volume;
    state.volume_mut(volume).counters.offloaded_blocks += extent.length / BLOCK_SIZE;
    read_into_request(state, slot, extent, |ticket| Purpose::Shared {
        request: slot,
        part: (ticket, extent),
    });
}

/// Reads from the origin into the request's memory, in its turn.
fn read_into_request(
    state: &mut State,
    slot: RequestSlot,
    extent: ByteExtent,
    purpose: impl FnOnce(Ticket) -> Purpose,
) {
    state.hold(slot);
    state.requests.get_mut(slot).read_from = ReadFrom::Origin;
    let volume = state.requests.get(slot).volume;
    state.begin_metered_read(volume, extent);
    let memory = payload(state, slot, extent.start);
    let length = u32::try_from(extent.length).expect("requests have at most 32 MiB");
    let ticket = state.enqueue(volume, extent, Access::Read);
    let operation = DeviceOperation::Read {
        device: Device::Origin(volume),
        offset: extent.start,
        pieces: Pieces::One(Piece { memory, length }),
        checksums: Checksums::Skip,
    };
    state.volume_mut(volume).queue.set_ready(ticket, operation, purpose(ticket));
}

/// A read ended that the cache could have served; after an error it does.
pub(crate) fn on_shared(
    state: &mut State,
    slot: RequestSlot,
    (ticket, extent): (Ticket, ByteExtent),
    result: Result<Data<'_>, DeviceError>,
) {
    let (now, volume) = (state.now, state.requests.get(slot).volume);
    state.release_ticket(volume, ticket);
    state.end_metered_read(volume, extent);
    if result.is_err() {
        let found = state.volume_mut(volume);
        found.counters.origin_errors += 1;
        found.offload.origin.on_error(now);
        serve(state, slot, extent);
    }
    state.release(slot);
}

/// A read past the cache ended.
pub(crate) fn on_direct(
    state: &mut State,
    slot: RequestSlot,
    (ticket, extent): (Ticket, ByteExtent),
    result: Result<Data<'_>, DeviceError>,
) {
    let volume = state.requests.get(slot).volume;
    state.release_ticket(volume, ticket);
    state.end_metered_read(volume, extent);
    if result.is_err() {
        state.volume_mut(volume).counters.origin_errors += 1;
    }
    state.release_with(slot, result.map(|_| ()).map_err(|_| Errno::Io));
}

/// A fill that was widened failed: each waiter reads just its own part, instead of waiting for the fill.
pub(crate) fn retry(state: &mut State, slot: RequestSlot, part: ByteExtent) {
    read_origin(state, slot, part, Keep::Nothing);
    state.release(slot);
}
