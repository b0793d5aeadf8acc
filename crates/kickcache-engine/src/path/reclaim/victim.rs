//! Chooses the next segment that reclaim empties.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::cache::segments::SegmentState;
use crate::cache::slots::SlotState;
use crate::config::RESERVED_SEGMENTS;
use crate::inflight::jobs::Emptying;
use crate::path::reclaim::reserved_blocks::ReservedBlocks;
use crate::policy::retention::{Judgement, Reason, Verdict, Work};
use crate::policy::shift::{RequestedBlocks, Wanted};
use crate::policy::throttle::SHORTAGE_MAX;
use crate::policy::turn::{HOLD_SEARCH_MAX, SEARCH_MAX};
use crate::queue::Queue;
use crate::state::State;
use crate::task::Task;
use crate::time::Duration;
use crate::units::{Location, SegmentIndex, VolumeId, VolumeSet};
use crate::volume::Volume;

/// If clients have waited this long for room, reclaim may move dirty blocks within the cache instead of waiting for an
/// origin.
pub(crate) const STARVED_MAX: Duration = Duration::from_millis(200);

/// If the shortage of segments reaches this value, in parts of [`SHORTAGE_MAX`], reclaim may move dirty blocks.
const CARRIED_FROM: u64 = SHORTAGE_MAX / 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Victim {
    pub(crate) segment: SegmentIndex,
    pub(crate) reason: Reason,
}

impl Victim {
    const fn for_reason(reason: Reason) -> impl Fn(SegmentIndex) -> Victim {
        move |segment| Victim { segment, reason }
    }
}

impl State {
    pub(crate) fn choose_victim(&mut self) -> Option<Victim> {
        let (work, asked) = (work_so_far(self), asked_so_far(self));
        self.retention.observe(work, asked);
        let candidate = stale_candidate(self).map(Victim::for_reason(Reason::Stale));
        let dead = || mostly_dead(self).map(Victim::for_reason(Reason::Dead));
        let stale = || stale_main(self).map(Victim::for_reason(Reason::Turn));
        if let Some(found) = candidate.or_else(dead).or_else(stale) {
            return Some(found);
        }
        let segments = self.cache.segments();
        let probation = segments.live_blocks(Queue::Probation);
        let first = self.retention.choose_queue(probation, segments.sealed_count(Queue::Main));
        let second = if first == Queue::Probation { Queue::Main } else { Queue::Probation };
        let found = search(self, first).or_else(|| search(self, second)).or_else(|| last_resort(self));
        let found = found.map(Victim::for_reason(Reason::Turn));
        found.or_else(|| cleanest(self).map(Victim::for_reason(Reason::Room)))
    }

    /// Whether client writes wait for room, and no segment beyond the reserve is ready, being opened or empty.
    pub(crate) fn is_starved(&self) -> bool {
        self.waiters.want_room() && self.segments_coming() <= RESERVED_SEGMENTS
    }

    /// The served volumes with origins that accept writeback for now.
    fn taking(&self) -> VolumeSet {
        self.volumes.ids().filter(|volume| self.is_taking(*volume)).collect()
    }

    /// Hastens writeback and flushes for the blocks of segments.
    pub(crate) fn hurry_writeback(&mut self, segments: &[SegmentIndex]) {
        let slots = self.cache.slots();
        let (mut dirty, mut unflushed) = (VolumeSet::default(), VolumeSet::default());
        for location in segments.iter().flat_map(|segment| self.cache.live_in(*segment)) {
            match slots.state(location) {
                SlotState::Dirty => dirty.insert(slots.key(location).volume()),
                SlotState::Unflushed => unflushed.insert(slots.key(location).volume()),
                SlotState::Clean | SlotState::Dead => {}
            }
        }
        let is_short = self.segments_coming() <= RESERVED_SEGMENTS + 1;
        for volume in self.volumes.ids() {
            let found = self.volumes.get_mut(volume);
            if dirty.contains(volume) {
                found.writeback_wanted = true;
                self.agenda.push_back(Task::Writeback(volume));
            } else if unflushed.contains(volume) && (is_short || found.flush.has_much()) {
                found.flush.want();
            }
        }
    }
}

fn work_so_far(state: &State) -> Work {
    let counters = state.volumes.ids().map(|volume| state.volumes.get(volume).counters);
    let admitted = counters.map(|each| each.promoted_blocks + each.logged_blocks).sum();
    Work { copied: state.device.counters.reinserted_blocks, admitted }
}

fn asked_so_far(state: &State) -> RequestedBlocks {
    state
        .volumes
        .ids()
        .map(|volume| state.volumes.get(volume).asked())
        .fold(RequestedBlocks::default(), RequestedBlocks::plus)
}

/// The next candidate of a proven shift that is hardly used and can be emptied.
fn stale_candidate(state: &mut State) -> Option<SegmentIndex> {
    begin_shift(state);
    let capacity = state.retention.capacity();
    while let Some(volume) = state.reclaim.shift.volume() {
        let used = used_of(state, volume)?;
        let Some(segment) = state.reclaim.shift.take_candidate(used, capacity) else { break };
        let newest = state.device.order.newest();
        state.volumes.get_mut(volume).window.on_room(newest);
        let found = state.cache.segments().get(segment);
        let is_unused = found.used_since.is_some_and(|used| state.reclaim.shift.is_stale(used, found.live));
        let is_in_line = found.state == SegmentState::Sealed;
        if is_in_line && is_unused && belongs_to(state, segment, volume) && can_be_emptied(state, segment) {
            return Some(segment);
        }
    }
    None
}

fn begin_shift(state: &mut State) {
    if let Some(volume) = state.retention.hold.take_changed() {
        state.reclaim.shift.want(volume, state.device.order.newest());
    }
    if state.retention.hold.take_stale() {
        state.reclaim.shift.prove();
    }
    make_candidates(state);
    if state.retention.hold.take_in_vain() {
        state.reclaim.shift.prove();
    }
}

/// Makes all sealed segments from before the change candidates, if a shift requests it.
fn make_candidates(state: &mut State) {
    let Some(Wanted { volume, before }) = state.reclaim.shift.take_wanted() else { return };
    let Some(used) = used_of(state, volume) else { return };
    let queues = [Queue::Main, Queue::Probation].into_iter();
    let is_old = |segment: &SegmentIndex| state.cache.segments().get(*segment).last_sequence <= before;
    let all: VecDeque<_> =
        queues.flat_map(|queue| state.cache.segments().oldest_first(queue)).filter(is_old).collect();
    all.iter().for_each(|segment| state.cache.segment_mut(*segment).used_since = Some(0));
    state.reclaim.shift.begin(volume, used, all);
}

fn used_of(state: &State, volume: VolumeId) -> Option<RequestedBlocks> {
    state.volumes.find(volume).map(Volume::used)
}

/// Whether at least half of the live blocks of a segment belong to a volume.
fn belongs_to(state: &State, segment: SegmentIndex, volume: VolumeId) -> bool {
    let is_own = |location: &Location| state.cache.slots().key(*location).volume() == volume;
    let own = state.cache.live_in(segment).filter(is_own).count();
    own * 2 >= state.cache.segments().get(segment).live as usize
}

/// Main's oldest segment if it can be emptied as stale.
fn stale_main(state: &State) -> Option<SegmentIndex> {
    let oldest = |queue| state.cache.segments().oldest_first(queue).next();
    let (main, probation) = (oldest(Queue::Main)?, oldest(Queue::Probation)?);
    let written = |segment| state.cache.segments().get(segment).last_sequence;
    if written(main) > written(probation) || !can_be_emptied(state, main) {
        return None;
    }
    let Used { live, hot } = count_used(state, main);
    let is_stale =
        state.retention.is_stale(hot, live) && ReservedBlocks::of_all(state).leaves_enough(state, main);
    is_stale.then_some(main)
}

#[derive(Clone, Copy, Default)]
pub(super) struct Used {
    pub(super) live: u32,
    /// Live blocks with hits.
    pub(super) hot: u32,
}

pub(super) fn count_used(state: &State, segment: SegmentIndex) -> Used {
    let add = |used: Used, location: Location| {
        let hot = used.hot + u32::from(state.cache.slots().hits(location) > 0);
        Used { live: used.live + 1, hot }
    };
    state.cache.live_in(segment).fold(Used::default(), add)
}

/// Of the sealed segments that are mostly dead and can be emptied, the one with the fewest live blocks.
fn mostly_dead(state: &State) -> Option<SegmentIndex> {
    let blocks = state.cache.geometry().batch_blocks();
    let all = Queue::ALL.into_iter().flat_map(|queue| state.cache.segments().oldest_first(queue));
    let live = |segment: SegmentIndex| state.cache.segments().get(segment).live;
    let room = carry_room(state);
    let is_candidate = |segment: &SegmentIndex| {
        let not_clean = state.cache.segments().get(*segment).not_clean;
        not_clean <= room && state.retention.is_mostly_dead(live(*segment), blocks)
    };
    // Only segments with fewer live blocks than the best so far are examined block by block.
    all.filter(is_candidate).fold(None, |best, segment| match best {
        Some(best) if live(best) <= live(segment) => Some(best),
        best => Some(segment).filter(|segment| can_be_emptied(state, *segment)).or(best),
    })
}

/// Searches a queue from its oldest segment on; hot segments that it passes become the newest. While main is frozen,
/// the coldest of main's oldest segments is preferred.
fn search(state: &mut State, queue: Queue) -> Option<SegmentIndex> {
    if queue == Queue::Main
        && state.retention.hold.is_on()
        && let Some(coldest) = coldest(state)
    {
        return Some(coldest);
    }
    let oldest: Vec<SegmentIndex> =
        state.cache.segments().oldest_first(queue).take(tuned!(Search, SEARCH_MAX)).collect();
    let mut blocked = Vec::new();
    let kept = ReservedBlocks::of_all(state);
    for segment in &oldest {
        let Used { live, hot } = count_used(state, *segment);
        if state.retention.verdict(queue, hot, live) == Verdict::Keep {
            keep(state, *segment);
        } else if !can_be_emptied(state, *segment) {
            blocked.push(*segment);
        } else if kept.leaves_enough(state, *segment) {
            return Some(*segment);
        } else {
            pass_over(state, *segment);
        }
    }
    if !blocked.is_empty() {
        state.hurry_writeback(&blocked);
        return None;
    }
    // All examined segments were hot or mostly reserved: without this, no hot one would ever be chosen.
    let is_free = |segment: &&SegmentIndex| can_be_emptied(state, **segment);
    let oldest = oldest.first().filter(is_free);
    oldest.copied().filter(|segment| kept.leaves_enough(state, *segment))
}

/// The least used of main's oldest segments that can be emptied, while main is frozen: older segments become the newest
/// of main.
fn coldest(state: &mut State) -> Option<SegmentIndex> {
    let oldest: Vec<SegmentIndex> =
        state.cache.segments().oldest_first(Queue::Main).take(HOLD_SEARCH_MAX).collect();
    let kept = ReservedBlocks::of_all(state);
    let is_free =
        |segment: SegmentIndex| can_be_emptied(state, segment) && kept.leaves_enough(state, segment);
    let free = oldest.iter().filter(|segment| is_free(**segment));
    let coldest = *free.min_by_key(|segment| count_used(state, **segment).hot)?;
    for segment in oldest.into_iter().take_while(|segment| *segment != coldest) {
        keep(state, segment);
    }
    Some(coldest)
}

/// Any segment with only clean blocks, if [`State::is_starved`].
fn last_resort(state: &State) -> Option<SegmentIndex> {
    if !state.is_starved() {
        return None;
    }
    let mut all = Queue::ALL.into_iter().flat_map(|queue| state.cache.segments().oldest_first(queue));
    all.find(|segment| state.cache.segments().get(*segment).not_clean == 0)
}

/// A segment becomes the newest of its queue, and each block loses a hit.
fn keep(state: &mut State, segment: SegmentIndex) {
    let live: Vec<Location> = state.cache.live_in(segment).collect();
    for location in live {
        let hits = state.cache.slots().hits(location);
        state.cache.set_hits(location, hits.saturating_sub(1));
    }
    pass_over(state, segment);
    state.device.counters.kept_segments += 1;
}

fn pass_over(state: &mut State, segment: SegmentIndex) {
    state.cache.unlink(segment, SegmentState::Reclaiming);
    state.cache.seal(segment);
}

/// A segment with few blocks that are not clean, if room is short or clients have waited for long.
fn cleanest(state: &State) -> Option<SegmentIndex> {
    let starved_since = state.reclaim.starved_since.filter(|_| state.is_starved());
    let is_late = starved_since.is_some_and(|since| state.now >= since.plus(STARVED_MAX));
    let is_wanted = state.volumes.ids().any(|volume| state.volumes.get(volume).writeback_wanted);
    let is_short = is_wanted && state.segments_missing() >= CARRIED_FROM;
    if !is_late && !is_short {
        return None;
    }
    let most = carry_room(state).min(state.cache.geometry().batch_blocks() - 2);
    let not_clean = |segment: &SegmentIndex| state.cache.segments().get(*segment).not_clean;
    let is_sound = |segment: &SegmentIndex| {
        !state.cache.live_in(*segment).any(|location| is_out_of_reach(state, location))
    };
    let all = Queue::ALL.into_iter().flat_map(|queue| state.cache.segments().oldest_first(queue));
    all.filter(|segment| not_clean(segment) <= most).fold(None, |best, segment| match best {
        Some(best) if not_clean(&best) <= not_clean(&segment) => Some(best),
        best => Some(segment).filter(&is_sound).or(best),
    })
}

/// The room of the log for blocks that are not clean, in blocks. In the worst case, each block has a header of its own.
fn carry_room(state: &State) -> u32 {
    let ready = u32::try_from(state.device.log.ready_count()).expect("segments have 32 bits");
    let room = state.device.log.room(Queue::Main) + ready * (state.cache.geometry().batch_blocks() - 1);
    let not_clean = |each: &Emptying| state.cache.segments().get(each.segment).not_clean;
    (room / 2).saturating_sub(state.reclaim.emptying.iter().map(not_clean).sum())
}

/// Whether the segment has no blocks that are not clean, or they may be moved and there is space for them.
pub(super) fn can_be_emptied(state: &State, segment: SegmentIndex) -> bool {
    let found = state.cache.segments().get(segment);
    if found.not_clean == 0 || found.not_clean > carry_room(state) {
        return found.not_clean == 0;
    }
    let taking = state.taking();
    let is_cheap = state.retention.is_mostly_dead(found.live, state.cache.geometry().batch_blocks());
    let early = if is_cheap { with_little_to_write_back(state) } else { VolumeSet::default() };
    let must_stay = |location: Location| {
        let slots = state.cache.slots();
        let volume = slots.key(location).volume();
        is_out_of_reach(state, location)
            || slots.state(location).is_not_clean()
                && taking.contains(volume)
                && !(is_unclaimed(state, location)
                    && (early.contains(volume) || is_hot(state, found.queue, location)))
    };
    !state.cache.live_in(segment).any(must_stay)
}

/// Whether a block that is not clean cannot be read, or not yet again.
fn is_out_of_reach(state: &State, location: Location) -> bool {
    let slots = state.cache.slots();
    let may_be_tried = || {
        state.unreadable.is_empty() || state.may_be_tried(state.cache.copy_at(slots.key(location), location))
    };
    slots.is_damaged(location) || slots.state(location).is_not_clean() && !may_be_tried()
}

/// Whether a block is dirty, and in no sweep.
fn is_unclaimed(state: &State, location: Location) -> bool {
    let slots = state.cache.slots();
    slots.state(location) == SlotState::Dirty && !slots.is_in_sweep(location)
}

fn is_hot(state: &State, queue: Queue, location: Location) -> bool {
    state.retention.judge(Reason::Turn, queue, state.cache.slots().hits(location)) != Judgement::Demote
}

/// The volumes up to their low dirty mark.
fn with_little_to_write_back(state: &State) -> VolumeSet {
    let has_little = |volume: &VolumeId| {
        state.dirty_data_share(*volume) <= u64::from(state.volumes.get(*volume).settings.dirty_low)
    };
    state.volumes.ids().filter(has_little).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::segments::Segment;
    use crate::config::Mode;
    use crate::scene::Scene;

    fn written() -> Scene {
        let mut scene = Scene::new(Mode::WriteBack);
        (0..24).for_each(|piece| scene.write(piece << 18, 1 << 18).0.unwrap());
        (0..6).for_each(|piece| scene.write(piece << 18, 1 << 18).0.unwrap());
        scene.flush().0.unwrap();
        scene
    }

    #[test]
    fn the_segment_with_the_least_in_it_is_emptied_first() {
        let mut scene = written();
        scene.drain();
        assert_eq!(scene.not_clean(), (0, 0));
        let state = &mut scene.engine.state;
        let live = |state: &State, segment| state.cache.segments().get(segment).live;
        let all: Vec<_> =
            Queue::ALL.into_iter().flat_map(|queue| state.cache.segments().oldest_first(queue)).collect();
        let least = all.iter().map(|segment| live(state, *segment)).min().unwrap();
        let victim = state.choose_victim().unwrap();
        assert_eq!((victim.reason, live(state, victim.segment)), (Reason::Dead, least));
        assert!(all.iter().any(|segment| live(state, *segment) > least));
    }

    #[test]
    fn a_segment_with_dirty_blocks_waits_for_urgent_writeback() {
        let mut scene = written();
        let state = &mut scene.engine.state;
        state.volumes.get_mut(VolumeId::new(0)).settings.dirty_low = 0;
        let holds_dirty = |segment: &Segment| segment.state == SegmentState::Sealed && segment.not_clean > 0;
        assert!(state.cache.segments().iter().any(|(_, segment)| holds_dirty(segment)));
        while let Some(victim) = state.choose_victim() {
            let found = state.cache.segments().get(victim.segment);
            assert_eq!(found.not_clean, 0, "nothing that is dirty and cold is carried on");
            state.cache.unlink(victim.segment, SegmentState::Reclaiming);
        }
        assert!(state.volumes.get(VolumeId::new(0)).writeback_wanted);
    }

    #[test]
    fn a_few_dirty_blocks_are_copied_while_writeback_is_low() {
        let mut scene = written();
        (0..6).for_each(|piece| scene.write((piece << 18) + 4096, (1 << 18) - 4096).0.unwrap());
        let state = &mut scene.engine.state;
        let blocks = state.cache.geometry().batch_blocks();
        let dirty = loop {
            let victim = state.choose_victim().expect("a segment with few dirty blocks");
            let found = state.cache.segments().get(victim.segment);
            if found.not_clean > 0 {
                break found;
            }
            state.cache.unlink(victim.segment, SegmentState::Reclaiming);
        };
        assert!(dirty.live < blocks, "{dirty:?}");
        assert!(!state.volumes.get(VolumeId::new(0)).writeback_wanted);
    }
}
