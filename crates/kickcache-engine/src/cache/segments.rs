//! The segments, and the order of the sealed ones.
//!
//! Invariants:
//! * S-1: `live` and `not_clean` of a segment are the numbers of its slots that are not dead, and of its unflushed and
//!   dirty slots. `volumes` has the volume of each live slot.
//! * S-1 covers the counts of segments by state, too.
//! * S-2: a segment is in the list of its queue exactly while it is sealed.

use alloc::vec::Vec;

use crate::cache::slots::SlotState;
use crate::config::VOLUME_COUNT_MAX;
use crate::queue::Queue;
use crate::units::{Generation, SegmentIndex, Sequence, VolumeId, VolumeSet};

const NONE: u32 = u32::MAX;

/// The state of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SegmentState {
    /// The segment's content does not count.
    Free,
    /// The segment is being opened.
    Opening,
    /// The segment's opening is durable; a head of the log may use it.
    Ready,
    /// A head of the log fills the segment, or the writes of its batches have not all ended. Recovery loads segments in
    /// this state.
    Open,
    /// The segment receives no more batches, and its summary is not written yet.
    Sealing,
    /// The segment receives no more batches, and the write of its summary has ended, or recovery has loaded the
    /// segment.
    Sealed,
    /// Reclaim empties the segment, or has emptied it.
    Reclaiming,
    /// It receives no new blocks; its live blocks stay in use.
    Retired,
}

impl SegmentState {
    pub(crate) const ALL: [SegmentState; 8] = [
        SegmentState::Free,
        SegmentState::Opening,
        SegmentState::Ready,
        SegmentState::Open,
        SegmentState::Sealing,
        SegmentState::Sealed,
        SegmentState::Reclaiming,
        SegmentState::Retired,
    ];
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    /// Changed only by [`Segments::set_state`], which counts.
    pub(crate) state: SegmentState,
    pub(crate) queue: Queue,
    pub(crate) generation: Generation,
    pub(crate) live: u32,
    /// Live blocks that are not clean.
    pub(crate) not_clean: u32,
    /// Blocks with headers; in a segment that recovery has loaded, all blocks without an entry.
    headers: u32,
    /// References to the segment, such as reads in flight.
    pub(crate) pins: u32,
    /// The sequence number of the newest batch that was submitted to the segment; after recovery, of its newest entry.
    pub(crate) last_sequence: Sequence,
    /// Hits since the segment last became a candidate of a shift of the working set.
    pub(crate) used_since: Option<u32>,
    /// The volumes of live blocks, and perhaps others. Changed only by [`Segments`], which counts.
    pub(crate) volumes: VolumeSet,
    newer: u32,
    older: u32,
}

impl Segment {
    pub(crate) const fn headers(&self) -> u32 {
        self.headers
    }
}

#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    newest: u32,
    count: u32,
}

#[derive(Debug)]
pub(crate) struct Segments {
    segments: Vec<Segment>,
    counts: [u32; SegmentState::ALL.len()],
    lists: [List; 2],
    /// Live blocks by queue, over segments in every state.
    live: [u64; 2],
    not_clean_headers: u64,
    /// Segments that may have blocks of each volume.
    holding: [u32; VOLUME_COUNT_MAX],
}

impl Segment {
    const fn unopened(generation: Generation) -> Segment {
        Segment {
            state: SegmentState::Free,
            queue: Queue::Probation,
            generation,
            live: 0,
            not_clean: 0,
            headers: 0,
            pins: 0,
            last_sequence: Sequence::new(0),
            used_since: None,
            volumes: VolumeSet::from_bits(0),
            newer: NONE,
            older: NONE,
        }
    }
}

impl Segments {
    pub(crate) fn new(count: u32) -> Segments {
        let list = List { oldest: NONE, newest: NONE, count: 0 };
        let mut counts = [0; SegmentState::ALL.len()];
        counts[SegmentState::Free as usize] = count;
        Segments {
            segments: alloc::vec![Segment::unopened(Generation::new(0)); count as usize],
            counts,
            lists: [list; 2],
            live: [0; 2],
            not_clean_headers: 0,
            holding: [0; VOLUME_COUNT_MAX],
        }
    }

    /// Makes space for `count` segments in all; `None` if there is not enough memory.
    pub(crate) fn reserve(&mut self, count: u32) -> Option<()> {
        self.segments.try_reserve_exact((count as usize).saturating_sub(self.segments.len())).ok()
    }

    pub(crate) fn grow(&mut self, count: u32, unopened: Generation) {
        self.counts[SegmentState::Free as usize] += count - self.count();
        self.segments.resize(count as usize, Segment::unopened(unopened));
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.segments.len()).expect("segments have 32 bits")
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.segments.len() * size_of::<Segment>()) as u64
    }

    pub(crate) fn get(&self, segment: SegmentIndex) -> &Segment {
        &self.segments[segment.get() as usize]
    }

    pub(crate) fn get_mut(&mut self, segment: SegmentIndex) -> &mut Segment {
        &mut self.segments[segment.get() as usize]
    }

    /// All segments with their index, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SegmentIndex, &Segment)> {
        (0..).map(SegmentIndex::new).zip(&self.segments)
    }

    pub(crate) fn live_blocks(&self, queue: Queue) -> u64 {
        self.live[queue.index()]
    }

    pub(crate) fn sealed_count(&self, queue: Queue) -> u32 {
        self.lists[queue.index()].count
    }

    pub(crate) fn count_in(&self, state: SegmentState) -> u64 {
        u64::from(self.counts[state as usize])
    }

    pub(crate) fn set_state(&mut self, segment: SegmentIndex, state: SegmentState) {
        let found = &mut self.segments[segment.get() as usize];
        self.counts[found.state as usize] -= 1;
        self.counts[state as usize] += 1;
        found.state = state;
    }

    pub(crate) fn add_live(&mut self, segment: SegmentIndex, volume: VolumeId, block: SlotState) {
        let found = &mut self.segments[segment.get() as usize];
        found.live += 1;
        if !found.volumes.contains(volume) {
            found.volumes.insert(volume);
            self.holding[usize::from(volume.get())] += 1;
        }
        self.live[found.queue.index()] += 1;
        if block.is_not_clean() {
            self.add_kept(segment);
        }
    }

    pub(crate) fn remove_live(&mut self, segment: SegmentIndex, block: SlotState) {
        let found = &mut self.segments[segment.get() as usize];
        found.live -= 1;
        self.live[found.queue.index()] -= 1;
        if found.live == 0 {
            let volumes = core::mem::take(&mut found.volumes);
            volumes.iter().for_each(|volume| self.holding[usize::from(volume.get())] -= 1);
        }
        if block.is_not_clean() {
            self.remove_kept(segment);
        }
    }

    /// A segment has no live block of the volume.
    pub(crate) fn set_unused(&mut self, segment: SegmentIndex, volume: VolumeId) {
        let volumes = &mut self.segments[segment.get() as usize].volumes;
        if volumes.contains(volume) {
            volumes.remove(volume);
            self.holding[usize::from(volume.get())] -= 1;
        }
    }

    pub(crate) fn holding(&self, volume: VolumeId) -> u32 {
        self.holding[usize::from(volume.get())]
    }

    pub(crate) fn add_kept(&mut self, segment: SegmentIndex) {
        let found = &mut self.segments[segment.get() as usize];
        found.not_clean += 1;
        if found.not_clean == 1 {
            self.not_clean_headers += u64::from(found.headers);
        }
    }

    pub(crate) fn remove_kept(&mut self, segment: SegmentIndex) {
        let found = &mut self.segments[segment.get() as usize];
        found.not_clean -= 1;
        if found.not_clean == 0 {
            self.not_clean_headers -= u64::from(found.headers);
        }
    }

    pub(crate) fn set_headers(&mut self, segment: SegmentIndex, headers: u32) {
        let found = &mut self.segments[segment.get() as usize];
        if found.not_clean > 0 {
            self.not_clean_headers = self.not_clean_headers - u64::from(found.headers) + u64::from(headers);
        }
        found.headers = headers;
    }

    pub(crate) fn add_header(&mut self, segment: SegmentIndex) {
        self.set_headers(segment, self.get(segment).headers + 1);
    }

    pub(crate) fn not_clean_headers(&self) -> u64 {
        self.not_clean_headers
    }

    /// Seals a segment: it becomes the newest of its queue.
    pub(crate) fn seal(&mut self, segment: SegmentIndex) {
        let index = segment.get();
        let queue = self.get(segment).queue;
        let list = &mut self.lists[queue.index()];
        let newest = list.newest;
        list.newest = index;
        list.count += 1;
        if newest == NONE {
            list.oldest = index;
        } else {
            self.segments[newest as usize].newer = index;
        }
        self.set_state(segment, SegmentState::Sealed);
        let segment = self.get_mut(segment);
        segment.older = newest;
        segment.newer = NONE;
    }

    /// Takes a sealed segment out of its queue's order.
    ///
    /// # Panics
    /// S-2: if it is not sealed.
    pub(crate) fn unlink(&mut self, segment: SegmentIndex, next: SegmentState) {
        let Segment { state, queue, newer, older, .. } = *self.get(segment);
        assert!(state == SegmentState::Sealed, "S-2: segment {segment:?} is {state:?}");
        let list = &mut self.lists[queue.index()];
        list.count -= 1;
        if older == NONE {
            list.oldest = newer;
        } else {
            self.segments[older as usize].newer = newer;
        }
        let list = &mut self.lists[queue.index()];
        if newer == NONE {
            list.newest = older;
        } else {
            self.segments[newer as usize].older = older;
        }
        self.set_state(segment, next);
        let segment = self.get_mut(segment);
        segment.newer = NONE;
        segment.older = NONE;
    }

    /// A segment belongs to this queue from here on, and is its newest.
    ///
    /// # Panics
    /// S-2: if it is not sealed.
    pub(crate) fn move_to(&mut self, segment: SegmentIndex, queue: Queue) {
        self.unlink(segment, SegmentState::Sealing);
        let found = self.get_mut(segment);
        let before = core::mem::replace(&mut found.queue, queue);
        let live = u64::from(found.live);
        self.live[before.index()] -= live;
        self.live[queue.index()] += live;
        self.seal(segment);
    }

    /// The sealed segments of a queue, oldest first.
    pub(crate) fn oldest_first(&self, queue: Queue) -> impl Iterator<Item = SegmentIndex> {
        let oldest = self.lists[queue.index()].oldest;
        let oldest = (oldest != NONE).then_some(SegmentIndex::new(oldest));
        core::iter::successors(oldest, |segment| self.newer(*segment))
    }

    /// The next newer one in the queue of a sealed segment; `None` for the newest.
    pub(crate) fn newer(&self, segment: SegmentIndex) -> Option<SegmentIndex> {
        let newer = self.get(segment).newer;
        (newer != NONE).then_some(SegmentIndex::new(newer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_segments_keep_their_order() {
        let mut segments = Segments::new(5);
        for index in 0..5 {
            segments.seal(SegmentIndex::new(index));
        }
        segments.unlink(SegmentIndex::new(2), SegmentState::Reclaiming);
        segments.unlink(SegmentIndex::new(0), SegmentState::Reclaiming);
        segments.unlink(SegmentIndex::new(4), SegmentState::Reclaiming);
        segments.seal(SegmentIndex::new(2));
        let order: Vec<u32> = segments.oldest_first(Queue::Probation).map(SegmentIndex::get).collect();
        assert_eq!(order, [1, 3, 2]);
        assert_eq!(segments.sealed_count(Queue::Probation), 3);
        assert_eq!(segments.oldest_first(Queue::Main).count(), 0);
    }
}
