//! Reclaim: segments are emptied ahead of need, and used again when the record of their next opening is durable.
//!
//! Invariants:
//! * I-4: a segment is opened again only when no operation refers to it, and when all copies that superseded its
//!   blocks, and all their *gone* records, are durable.

mod cold;
mod demote;
pub(crate) mod open;
mod reserved_blocks;
mod trim;
mod victim;

use alloc::vec::Vec;

use crate::append::{Claim, NewBlock};
use crate::cache::segments::SegmentState;
use crate::cache::slots::SlotState;
use crate::config::RESERVED_SEGMENTS;
use crate::device::{Checksums, Data, Device, DeviceError, DeviceOperation, Pieces};
use crate::inflight::jobs::Emptying;
use crate::inflight::purpose::Purpose;
use crate::log::Entry;
use crate::path::reclaim::demote::demote;
use crate::path::reclaim::open::open_emptied;
use crate::path::reclaim::reserved_blocks::ReservedBlocks;
use crate::path::reclaim::victim::STARVED_MAX;
use crate::policy::admission::Newcomer;
use crate::policy::passage::{Displaced, Piece, Way};
use crate::policy::retention::{Judgement, Reason};
use crate::pool::{page_memory, page_pieces};
use crate::queue::Queue;
use crate::request::Durability;
use crate::state::State;
use crate::task::Task;
use crate::time::{Duration, Instant, earlier};
use crate::units::{Location, PageIndex, SegmentIndex};

/// Up to this many free segments are prepared beyond [`State::ready_low`].
const FRESH_AHEAD: usize = 16;
/// Pause of reclaim if a block is unreadable and the list of unreadable blocks is full.
const REST: Duration = Duration::from_millis(1_000);
/// No further segment is emptied while this many will be empty before long.
const EMPTYING_MAX: usize = 4;

impl State {
    /// Whether there is space that requires no reclaim.
    pub(crate) fn has_unused(&self) -> bool {
        self.segments_coming() >= self.ready_low() + FRESH_AHEAD / 2
    }

    /// Chooses whether a part of a long stream is cached or bypasses the cache.
    pub(crate) fn choose_way(&mut self, piece: Piece) -> Way {
        let has_unused = self.has_unused();
        let hits = self.retention.returned_share();
        let displaced = if has_unused { Displaced::Nothing } else { Displaced::Hits(hits) };
        self.retention.passage.choose(piece, displaced)
    }
}

pub(crate) fn go_on(state: &mut State) {
    if state.device.is_out_of_service() {
        return;
    }
    finish_emptied(state);
    note_starved(state);
    trim::go_on(state);
    let low = state.ready_low();
    if supply(state) < low + FRESH_AHEAD / 2 {
        open_free(state);
    }
    let ahead = supply(state);
    if ahead < low {
        state.reclaim.active = true;
    }
    if ahead >= low + EMPTYING_MAX.min(low) {
        state.reclaim.active = false;
        state.volumes.ids().for_each(|volume| state.volumes.get_mut(volume).writeback_wanted = false);
    }
    let is_wanted = !state.is_ending || state.waiters.want_room();
    if state.reclaim.rest_until.is_some_and(|until| state.now >= until) {
        state.reclaim.rest_until = None;
    }
    let rests = state.reclaim.rest_until.is_some() || state.unreadable.rest_until().is_some();
    let may_empty = !rests && !state.is_ending && being_emptied(state) < EMPTYING_MAX;
    match cold::look(state) {
        Some(cold) if may_empty => {
            let left = empty(state, cold, Reason::Turn);
            state.retention.hold.on_room(left);
        }
        cold => cold.into_iter().for_each(|cold| cold::halve(state, cold)),
    }
    if state.reclaim.active && is_wanted && !rests {
        while supply(state) < low + EMPTYING_MAX.min(low)
            && being_emptied(state) < EMPTYING_MAX
            && state.device.journal.has_room()
            && empty_next(state)
        {}
        finish_emptied(state);
    }
    if state.waiters.want_room()
        && supply(state) <= RESERVED_SEGMENTS
        && (is_ruined(state) || state.is_unreadable())
    {
        state.take_out_of_service();
    }
    if state.device.journal.wants_checkpoint() {
        state.agenda.push_back(Task::Checkpoint);
    }
    open_emptied(state);
}

fn note_starved(state: &mut State) {
    let now = state.now;
    let starved = &mut state.reclaim.starved_since;
    if !state.waiters.want_room() {
        *starved = None;
    } else {
        starved.get_or_insert(now);
    }
}

/// Segments that are ready or will be before long.
fn supply(state: &State) -> usize {
    state.segments_coming() + being_emptied(state)
}

/// Segments that will be empty before long. If clients wait and no other space is left, segments that wait for space
/// themselves do not count.
fn being_emptied(state: &State) -> usize {
    if state.segments_coming() > RESERVED_SEGMENTS || !state.waiters.want_room() {
        return state.reclaim.emptying.len();
    }
    let has_room = state.device.log.room(Queue::Main) > 0;
    let live = |each: &Emptying| state.cache.segments().get(each.segment).live > 0;
    let will_end =
        |each: &&Emptying| is_done(state, each) || each.reads_in_flight > 0 || has_room && live(each);
    state.reclaim.emptying.iter().filter(will_end).count()
}

/// Begins to empty the next segment; `false` if there is none.
fn empty_next(state: &mut State) -> bool {
    let victim = state.choose_victim();
    victim.into_iter().for_each(|victim| _ = empty(state, victim.segment, victim.reason));
    victim.is_some()
}

fn open_free(state: &mut State) {
    let wanted = (state.ready_low() + FRESH_AHEAD).saturating_sub(supply(state));
    let free: Vec<SegmentIndex> = (state.reclaim.first_free..state.cache.segments().count())
        .map(SegmentIndex::new)
        .filter(|segment| state.cache.segments().get(*segment).state == SegmentState::Free)
        .take(wanted)
        .collect();
    for segment in free {
        state.reclaim.first_free = segment.get() + 1;
        state.reclaim.emptied.push(segment);
    }
}

/// Begins to empty a segment; returns the number of dropped blocks.
pub(super) fn empty(state: &mut State, segment: SegmentIndex, reason: Reason) -> u64 {
    let queue = state.cache.segments().get(segment).queue;
    state.cache.unlink(segment, SegmentState::Reclaiming);
    state.device.counters.reclaimed_segments += 1;
    state.reclaim.emptying.push(Emptying { segment, reason, reads_in_flight: 0, has_failed: false });
    let live: Vec<Location> = state.cache.live_in(segment).collect();
    let limit = carried_max(state, reason, &live);
    let kept = ReservedBlocks::choose(state, reason);
    let (mut carried, mut forgotten) = (Vec::new(), 0);
    for location in live {
        if (reason, queue) == (Reason::Turn, Queue::Probation) {
            note_left(state, location);
        }
        let slots = state.cache.slots();
        let judgement = state.retention.judge(reason, queue, slots.hits(location));
        let must = slots.state(location).is_not_clean() && !mutant!(DirtyDemoted);
        let must = must || kept.has(state, slots.key(location).volume());
        if must || (judgement != Judgement::Demote && carried.len() < limit) {
            carried.push(location);
        } else {
            demote(state, queue, location);
            forgotten += 1;
        }
    }
    carry(state, segment, &carried);
    forgotten
}

/// The most blocks that are copied from a segment because of their hits.
fn carried_max(state: &State, reason: Reason, live: &[Location]) -> usize {
    let hot = live.iter().filter(|location| state.cache.slots().hits(**location) > 0).count();
    let blocks = state.cache.geometry().batch_blocks();
    let hot = u32::try_from(hot).expect("a segment's blocks");
    state.retention.carried_max(reason, hot, blocks) as usize
}

/// Reports a block that leaves probation to the admission policy of its volume.
fn note_left(state: &mut State, location: Location) {
    let slots = state.cache.slots();
    let (volume, was_used) = (slots.key(location).volume(), slots.hits(location) > 0);
    let written = state.cache.segments().get(state.cache.segment_of(location)).last_sequence;
    let capacity = state.retention.capacity();
    if state.volumes.find(volume).is_some() {
        let found = state.volumes.get_mut(volume);
        let asked = found.asked();
        found.gate.on_left_probation(Newcomer { was_used, written }, asked, capacity);
    }
}

/// Reads the blocks that stay, or postpones them if memory is short.
fn carry(state: &mut State, segment: SegmentIndex, locations: &[Location]) {
    let mut first = 0;
    while first < locations.len() {
        let start = locations[first];
        let stands = |(offset, location): (u32, &Location)| *location == start.plus(offset);
        let count = (0..64).zip(&locations[first..]).take_while(|pair| stands(*pair)).count();
        let Some(pages) = state.pool.take(count) else {
            state.reclaim.postponed.extend_from_slice(&locations[first..]);
            return;
        };
        read_run(state, segment, start, pages);
        first += count;
    }
}

fn read_run(state: &mut State, segment: SegmentIndex, first: Location, pages: Vec<PageIndex>) {
    state.pin(first);
    let emptying = state.reclaim.emptying.iter_mut().find(|emptying| emptying.segment == segment);
    emptying.expect("the segment is being emptied").reads_in_flight += 1;
    let operation = DeviceOperation::Read {
        device: Device::Cache,
        offset: state.cache.geometry().byte_offset(first),
        pieces: Pieces::Many(page_pieces(&pages)),
        checksums: Checksums::Compute,
    };
    state.submit(Purpose::Reinsert { first, pages }, operation);
}

pub(crate) fn on_read(
    state: &mut State,
    first: Location,
    pages: &[PageIndex],
    result: Result<Data<'_>, DeviceError>,
) {
    state.device.counters.errors += u64::from(result.is_err());
    for (offset, page) in (0..).zip(pages) {
        let location = first.plus(offset);
        let read = result.ok().and_then(|data| data.checksums.get(offset as usize).copied());
        let is_right = read == Some(state.cache.slots().checksum(location));
        if is_right {
            state.clear_doubt(state.cache.copy_at(state.cache.slots().key(location), location));
        }
        if is_right && reinsert(state, location, *page) {
            continue;
        }
        state.pool.release(*page);
        if result.is_err() {
            on_unreadable(state, location, pages.len());
        } else {
            let next = if is_right { NextRead::MayEndWell } else { NextRead::WillNot };
            leave_behind(state, location, next);
        }
    }
    let segment = state.cache.segment_of(first);
    if let Some(emptying) = state.reclaim.emptying.iter_mut().find(|emptying| emptying.segment == segment) {
        emptying.reads_in_flight -= 1;
        emptying.has_failed |= result.is_err() && pages.len() == 1;
    }
    state.unpin(first);
    state.wake_stalled();
    state.agenda.push_back(Task::Reclaim);
}

/// Appends a block to the head of a queue; if it succeeds, the page belongs to the log.
fn reinsert(state: &mut State, location: Location, page: PageIndex) -> bool {
    let slots = state.cache.slots();
    let (slot_state, key, checksum) = (slots.state(location), slots.key(location), slots.checksum(location));
    if slot_state == SlotState::Dead {
        return false;
    }
    let segment = state.cache.segment_of(location);
    let queue = state.cache.segments().get(segment).queue;
    let emptying = state.reclaim.emptying.iter().find(|emptying| emptying.segment == segment);
    let reason = emptying.map_or(Reason::Turn, |emptying| emptying.reason);
    let (queue, hits) = match state.retention.judge(reason, queue, slots.hits(location)) {
        Judgement::Reinsert(queue, hits) => (queue, hits),
        Judgement::Demote => (Queue::Main, 0),
    };
    let is_unflushed = slot_state == SlotState::Unflushed;
    let dirty = slot_state.is_not_clean() && !(mutant!(CarriedUnflushedIsClean) && is_unflushed);
    // A block that is not clean goes to main if its queue has no room.
    let queue = if dirty && !has_room(state, queue) { Queue::Main } else { queue };
    let slot_state = if dirty { SlotState::Dirty } else { SlotState::Clean };
    let older = state.older_copy(Some(location));
    let entry = Entry { key: Some(key), memory: page_memory(page), checksum, dirty, page: Some(page), older };
    let durability = Durability::Volatile;
    let claim = if dirty { Claim::Any } else { Claim::Spare };
    let block = NewBlock { claim, queue, entry, state: slot_state, waiter: None, durability };
    let before = state.cache.copy_at(key, location);
    let is_in_group = state.is_point_in_time(key.volume()) && slots.is_in_writeback(location);
    let Some(place) = state.append(key, block) else { return false };
    if is_in_group {
        state.cache.begin_writeback(place);
    }
    state.requests.follow_copy(&mut state.cache, before, place);
    state.cache.set_hits(place, hits);
    state.device.counters.reinserted_blocks += 1;
    true
}

fn on_unreadable(state: &mut State, location: Location, count: usize) {
    let slots = state.cache.slots();
    let copy = state.cache.copy_at(slots.key(location), location);
    if slots.state(location).is_not_clean() {
        let is_remembered = if count == 1 { state.on_unreadable(copy) } else { state.doubt(copy) };
        if !is_remembered {
            state.reclaim.rest_until = Some(state.now.plus(REST));
        }
    }
    leave_behind(state, location, NextRead::MayEndWell);
}

/// The possible result of another read of a block that could not be moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NextRead {
    /// The read failed, or the log had no room: another read may return the written bytes.
    MayEndWell,
    /// The bytes have a wrong checksum: another read returns no better bytes.
    WillNot,
}

fn leave_behind(state: &mut State, location: Location, next: NextRead) {
    let slots = state.cache.slots();
    let (slot_state, key) = (slots.state(location), slots.key(location));
    match slot_state {
        SlotState::Dead => {}
        SlotState::Clean => state.forget(key),
        SlotState::Unflushed if mutant!(UnreadableUnflushedDropped) => state.forget(key),
        SlotState::Unflushed => state.reclaim.postponed.push(location),
        SlotState::Dirty if next == NextRead::MayEndWell => state.reclaim.postponed.push(location),
        SlotState::Dirty => state.mark_damaged(key, location),
    }
}

/// Retries the postponed blocks, and records the segments that are empty.
fn finish_emptied(state: &mut State) {
    let postponed = core::mem::take(&mut state.reclaim.postponed);
    for location in postponed {
        retry(state, location);
    }
    let done = take_emptying(state, is_done);
    state.reclaim.emptied.extend(done);
    give_up_unreadable(state);
}

/// Whether a segment has no live block, and no operation refers to it any more.
fn is_done(state: &State, emptying: &Emptying) -> bool {
    let found = state.cache.segments().get(emptying.segment);
    let is_pinned = found.pins > 0 && !mutant!(ReuseUnderReader);
    emptying.reads_in_flight == 0 && !is_pinned && found.live == 0
}

fn take_emptying(state: &mut State, holds: impl Fn(&State, &Emptying) -> bool) -> Vec<SegmentIndex> {
    let (taken, left): (Vec<_>, Vec<_>) =
        core::mem::take(&mut state.reclaim.emptying).into_iter().partition(|each| holds(state, each));
    state.reclaim.emptying = left;
    taken.into_iter().map(|each| each.segment).collect()
}

/// Whether a block can be appended to a head at once.
fn has_room(state: &State, queue: Queue) -> bool {
    state.device.log.room(queue) > 0 || state.device.log.ready_count() > 0
}

fn retry(state: &mut State, location: Location) {
    let (slot_state, key) = (state.cache.slots().state(location), state.cache.slots().key(location));
    let segment = state.cache.segment_of(location);
    let is_being_emptied = state.reclaim.emptying.iter().any(|emptying| emptying.segment == segment);
    if slot_state == SlotState::Dead || !is_being_emptied || state.cache.slots().is_damaged(location) {
        return;
    }
    let may_be_tried = state.may_be_tried(state.cache.copy_at(key, location));
    if slot_state.is_not_clean() && (!may_be_tried || state.reclaim.rest_until.is_some()) {
        state.reclaim.postponed.push(location);
        return;
    }
    match state.pool.take(1) {
        Some(pages) if has_room(state, Queue::Main) => read_run(state, segment, location, pages),
        pages => {
            pages.into_iter().flatten().for_each(|page| state.pool.release(page));
            match slot_state {
                SlotState::Clean => state.forget(key),
                SlotState::Unflushed | SlotState::Dirty => {
                    state.reclaim.postponed.push(location);
                    state.hurry_writeback(&[segment]);
                }
                SlotState::Dead => {}
            }
        }
    }
}

/// A segment with a damaged block is retired. A segment with blocks that could not be read is sealed again, as the
/// newest of its queue.
fn give_up_unreadable(state: &mut State) {
    let is_over = |state: &State, each: &Emptying| {
        each.reads_in_flight == 0
            && (has_damage(state, each.segment)
                || each.has_failed && state.cache.segments().get(each.segment).live > 0)
    };
    for segment in take_emptying(state, is_over) {
        if has_damage(state, segment) {
            state.cache.set_segment_state(segment, SegmentState::Retired);
        } else {
            state.cache.seal(segment);
        }
    }
}

fn has_damage(state: &State, segment: SegmentIndex) -> bool {
    state.cache.live_in(segment).any(|location| state.cache.slots().is_damaged(location))
}

/// Whether no further segment can become ready.
fn is_ruined(state: &State) -> bool {
    (0..state.cache.segments().count()).map(SegmentIndex::new).all(|segment| {
        match state.cache.segments().get(segment).state {
            SegmentState::Open | SegmentState::Ready | SegmentState::Retired => true,
            SegmentState::Sealed => has_damage(state, segment),
            SegmentState::Free | SegmentState::Reclaiming | SegmentState::Opening | SegmentState::Sealing => {
                false
            }
        }
    })
}

pub(crate) fn poll_timeout(state: &State) -> Option<Instant> {
    let force_at = state.reclaim.starved_since.map(|since| since.plus(STARVED_MAX));
    let force_at = earlier(force_at.filter(|at| *at > state.now), trim::poll_timeout(state));
    let is_wanted = state.reclaim.active || state.waiters.want_room();
    let retry_at = state.unreadable.retry_at(state.now).filter(|_| is_wanted);
    earlier(earlier(state.reclaim.rest_until, retry_at), force_at)
        .filter(|_| !state.device.is_out_of_service())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;
    use crate::inflight::writing::IfRefused;
    use crate::path::land;
    use crate::request::Operation;
    use crate::scene::Scene;

    #[test]
    fn a_full_cache_admits_new_blocks_and_drops_old_ones() {
        let mut scene = Scene::new(Mode::WriteBack);
        (0..100).for_each(|piece| scene.write(piece << 19, 1 << 18).0.unwrap());
        let cached = |piece: &u64| scene.is_cached(piece << 19);
        let (first, last) = ((0..50).filter(cached).count(), (50..100).filter(cached).count());
        assert!(cached(&99) && first < last, "{first} {last}: 25 MiB were written to a cache of 16 MiB");
    }

    #[test]
    fn a_write_follows_its_block_to_another_segment() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.hold("origin write");
        scene.begin(Operation::Write(Durability::Volatile), 0, 4096);
        let before = scene.location(0);
        land::end_segments(&mut scene.engine.state);
        scene.flush().0.unwrap();
        let segment = scene.engine.state.cache.segment_of(before);
        empty(&mut scene.engine.state, segment, Reason::Turn);
        scene.run();
        let (now, state) = (scene.location(0), &scene.engine.state);
        assert_ne!(now, before);
        let copy = state.cache.copy_at(state.cache.slots().key(now), now);
        assert_eq!(state.requests.written_through(&state.cache, copy), Some(IfRefused::Forgotten));
    }

    #[test]
    fn an_unreadable_unflushed_block_stays_in_the_log() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, 4096).0.unwrap();
        land::end_segments(&mut scene.engine.state);
        scene.flush().0.unwrap();
        scene.hold("origin flush");
        scene.drain();
        assert_eq!(scene.not_clean(), (0, 1));
        let before = scene.location(0);
        scene.fail("cache read", DeviceError::Io);
        let segment = scene.engine.state.cache.segment_of(before);
        empty(&mut scene.engine.state, segment, Reason::Turn);
        assert!(scene.run().contains(&"cache read 4096".into()));
        assert_eq!((scene.location(0), scene.not_clean()), (before, (0, 1)));
    }
}
