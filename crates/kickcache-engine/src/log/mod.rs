//! The heads of the log: blocks gather into batches, batches fill segments front to back.
//!
//! A block has its location from the moment it joins a batch; until the batch has landed, its data is in memory.
//!
//! Invariants:
//! * L-1: a batch gets its sequence number when it is submitted; entries of blocks that died before are void.
//! * L-2: batches of one segment are adjacent, in the order in which they were begun.

mod batch;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::cache::cut_search::SegmentEnd;
use crate::config::{BATCH_BLOCKS_MAX, BATCHES_IN_FLIGHT_MAX};
use crate::device::{Memory, Piece};
use crate::format::batch::{BatchEntry, BatchHeader};
use crate::format::durable::Durable;
use crate::format::geometry::Geometry;
use crate::format::summary::{Summary, SummaryEntry};
use crate::ids::{BatchSlot, RequestSlot};
use crate::inflight::slab::Slab;
pub(crate) use crate::log::batch::{Append, Batch, Entry};
use crate::pool::joined;
use crate::queue::Queue;
use crate::request::Durability;
use crate::task::Task;
use crate::time::{Duration, Instant};
use crate::units::{Generation, Location, SegmentIndex, Sequence};

/// Blocks at which a gathering batch with waiters is closed although other batches of its head are closed or in flight.
const WORTH_A_WRITE: usize = 64;
/// The rest of a segment is left unused to keep a stretch together, if the stretch is at most one part in this many of
/// a segment.
const TOGETHER_SHARE: u32 = 16;
/// A head leaves a segment when its sequence numbers span more than this; its summary stores 32-bit distances.
const SEQUENCE_SPAN_MAX: u64 = 1 << 31;

#[derive(Debug)]
struct OpenSegment {
    segment: SegmentIndex,
    generation: Generation,
    queue: Queue,
    /// Next block that a batch may take.
    position: u32,
    full: bool,
    summary: Vec<Option<SummaryEntry>>,
    base: Option<Sequence>,
    /// Batches begun that have neither landed nor failed.
    pending: u32,
    failed: bool,
}

#[derive(Debug, Default)]
struct Head {
    segment: Option<SegmentIndex>,
    gathering: Option<BatchSlot>,
    closed: VecDeque<BatchSlot>,
    in_flight: usize,
}

#[derive(Debug)]
pub(crate) struct Log {
    uuid: [u8; 16],
    geometry: Geometry,
    heads: [Head; 2],
    batches: Slab<Batch>,
    open: Vec<OpenSegment>,
    ready: VecDeque<(SegmentIndex, Generation)>,
    linger: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PendingKind {
    /// A clean block of a fill or of reclaim.
    Clean,
    /// Any other block.
    Dirty,
}

/// How many batches of a head may be in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Depth {
    /// A limited number.
    Bounded,
    /// Any number.
    All,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Appended {
    pub(crate) location: Location,
    /// A segment that the head opened for the appended block.
    pub(crate) opened: Option<SegmentIndex>,
    /// The segment in which a batch began for the appended block.
    pub(crate) header: Option<SegmentIndex>,
    /// Whether the waiter waits for one more batch than before.
    pub(crate) joined: bool,
}

struct GatheringBatch {
    slot: BatchSlot,
    opened: Option<SegmentIndex>,
    /// Whether this append began the batch.
    is_new: bool,
}

#[derive(Debug)]
pub(crate) struct BatchWrite {
    pub(crate) slot: BatchSlot,
    pub(crate) offset: u64,
    pub(crate) header: Vec<u8>,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) durability: Durability,
    pub(crate) segment: SegmentIndex,
}

struct PendingPlace {
    batch: u32,
    at: usize,
}

impl Log {
    pub(crate) fn new(uuid: [u8; 16], geometry: Geometry, linger: Duration) -> Log {
        Log {
            uuid,
            geometry,
            heads: [Head::default(), Head::default()],
            batches: Slab::new(),
            open: Vec::new(),
            ready: VecDeque::new(),
            linger,
        }
    }

    pub(crate) fn add_ready(&mut self, segment: SegmentIndex, generation: Generation) {
        self.ready.push_back((segment, generation));
    }

    pub(crate) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// The most blocks that can be appended to a head before it needs another segment.
    pub(crate) fn room(&self, queue: Queue) -> u32 {
        let Some(segment) = self.heads[queue.index()].segment else { return 0 };
        let open = self.open_segment(segment);
        let left = self.geometry.batch_blocks() - open.position;
        left.saturating_sub(u32::from(self.heads[queue.index()].gathering.is_none()))
    }

    fn open_segment(&self, segment: SegmentIndex) -> &OpenSegment {
        self.open.iter().find(|open| open.segment == segment).expect("the segment is open")
    }

    fn open_segment_mut(&mut self, segment: SegmentIndex) -> &mut OpenSegment {
        self.open.iter_mut().find(|open| open.segment == segment).expect("the segment is open")
    }

    /// Appends a block; `None` if the head needs a segment and none is ready.
    pub(crate) fn append(&mut self, now: Instant, append: Append) -> Option<Appended> {
        let GatheringBatch { slot, opened, is_new } = self.gathering(now, append.queue)?;
        let batch = self.batches.get_mut(slot.0).expect("a gathering batch");
        batch.entries.push(append.entry);
        let joined = batch.join(&append);
        let (segment, count) = (batch.segment, batch.entries.len());
        let open = self.open_segment_mut(segment);
        let offset = open.position;
        open.position += 1;
        let is_full = open.position == self.geometry.batch_blocks();
        let location = self.geometry.first_location(segment).plus(offset);
        if is_full || count == BATCH_BLOCKS_MAX as usize {
            self.close(append.queue);
        }
        Some(Appended { location, opened, header: is_new.then_some(segment), joined })
    }

    /// Makes the next `count` blocks of a head adjacent, if that is cheap.
    pub(crate) fn keep_together(&mut self, queue: Queue, count: u32) {
        if count < 2 {
            return;
        }
        let head = &self.heads[queue.index()];
        let Some(segment) = head.segment else { return };
        let left = self.geometry.batch_blocks() - self.open_segment(segment).position;
        let gathered =
            head.gathering.and_then(|slot| self.batches.get(slot.0)).map(|batch| batch.entries.len());
        let header = u32::from(gathered.is_none());
        if count * TOGETHER_SHARE <= self.geometry.batch_blocks() && left < count + header {
            self.close(queue);
            self.close_segment(queue);
        } else if gathered.is_some_and(|gathered| gathered + count as usize > BATCH_BLOCKS_MAX as usize) {
            self.close(queue);
        }
    }

    /// The gathering batch of a head; begins one if there is none. `None` if no segment is ready.
    fn gathering(&mut self, now: Instant, queue: Queue) -> Option<GatheringBatch> {
        if let Some(slot) = self.heads[queue.index()].gathering {
            return Some(GatheringBatch { slot, opened: None, is_new: false });
        }
        let (segment, opened) = match self.heads[queue.index()].segment {
            Some(segment) => (segment, None),
            None => {
                let segment = self.take_segment(queue)?;
                (segment, Some(segment))
            }
        };
        let open = self.open_segment_mut(segment);
        let start = open.position;
        open.position += 1;
        open.pending += 1;
        let slot = BatchSlot(self.batches.insert(Batch {
            queue,
            segment,
            start,
            entries: Vec::new(),
            waiters: Vec::new(),
            reads: Vec::new(),
            durability: Durability::Volatile,
            begun: now,
            sequence: None,
        }));
        self.heads[queue.index()].gathering = Some(slot);
        Some(GatheringBatch { slot, opened, is_new: true })
    }

    fn take_segment(&mut self, queue: Queue) -> Option<SegmentIndex> {
        let (segment, generation) = self.ready.pop_front()?;
        self.heads[queue.index()].segment = Some(segment);
        self.open.push(OpenSegment {
            segment,
            generation,
            queue,
            position: 0,
            full: false,
            summary: vec![None; self.geometry.batch_blocks() as usize],
            base: None,
            pending: 0,
            failed: false,
        });
        Some(segment)
    }

    fn close(&mut self, queue: Queue) {
        let head = &mut self.heads[queue.index()];
        let Some(slot) = head.gathering.take() else { return };
        head.closed.push_back(slot);
        let Some(segment) = head.segment else { return };
        let room_for_a_batch = self.open_segment(segment).position + 2 <= self.geometry.batch_blocks();
        if !room_for_a_batch {
            self.close_segment(queue);
        }
    }

    fn close_segment(&mut self, queue: Queue) {
        if let Some(segment) = self.heads[queue.index()].segment.take() {
            self.open_segment_mut(segment).full = true;
        }
    }

    /// Ends the open segments: later blocks use other segments.
    pub(crate) fn close_segments(&mut self) {
        Queue::ALL.into_iter().for_each(|queue| self.close_segment(queue));
    }

    pub(crate) fn close_all(&mut self) {
        Queue::ALL.into_iter().for_each(|queue| self.close(queue));
    }

    pub(crate) fn close_due(&mut self, now: Instant) {
        for queue in Queue::ALL {
            let head = &self.heads[queue.index()];
            let Some(slot) = head.gathering else { continue };
            let batch = self.batches.get(slot.0).expect("a gathering batch");
            let is_idle = head.in_flight == 0 && head.closed.is_empty();
            let is_wanted = !batch.waiters.is_empty() && (is_idle || batch.entries.len() >= WORTH_A_WRITE);
            if is_wanted || now >= batch.begun.plus(self.linger) {
                self.close(queue);
            }
        }
    }

    /// When the next gathering batch is old enough to be closed.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let begun = |head: &Head| Some(self.batches.get(head.gathering?.0)?.begun.plus(self.linger));
        self.heads.iter().filter_map(begun).min()
    }

    /// The head whose closed batch may be written next.
    pub(crate) fn next_write(&self, depth: Depth) -> Option<Queue> {
        Queue::ALL.into_iter().find(|queue| {
            let head = &self.heads[queue.index()];
            !head.closed.is_empty() && (depth == Depth::All || head.in_flight < BATCHES_IN_FLIGHT_MAX)
        })
    }

    /// The next block that a batch of an open segment may take. `None` if the segment is not open.
    pub(crate) fn position_of(&self, segment: SegmentIndex) -> Option<u32> {
        let open = self.open.iter().find(|open| open.segment == segment)?;
        Some(if open.full { self.geometry.batch_blocks() } else { open.position })
    }

    /// The first block of a segment in a batch that is not yet submitted.
    pub(crate) fn first_unwritten(&self, segment: SegmentIndex) -> Option<u32> {
        let batches = self.batches.iter().map(|(_, batch)| batch);
        let unwritten = batches.filter(|batch| batch.segment == segment && batch.sequence.is_none());
        unwritten.map(|batch| batch.start).min()
    }

    /// Takes the next closed batch of a head for writing, under its sequence number.
    pub(crate) fn take_write(&mut self, queue: Queue, sequence: Sequence, durable: Durable) -> BatchWrite {
        let head = &mut self.heads[queue.index()];
        let slot = head.closed.pop_front().expect("a closed batch");
        head.in_flight += 1;
        let batch = self.batches.get_mut(slot.0).expect("a closed batch");
        batch.sequence = Some(sequence);
        let (segment, start, durability) = (batch.segment, batch.start, batch.durability);
        let entries: Vec<BatchEntry> = batch
            .entries
            .iter()
            .map(|entry| BatchEntry { key: entry.key, dirty: entry.dirty, checksum: entry.checksum })
            .collect();
        let pieces = joined(batch.entries.iter().map(|entry| entry.memory));
        let open = self.open_segment_mut(segment);
        note(open, start, &entries, sequence);
        let generation = open.generation;
        let uuid = self.uuid;
        let header =
            BatchHeader { uuid, segment, generation, sequence, start, queue, durable, entries }.encode();
        let offset = self.geometry.byte_offset(self.geometry.first_location(segment).plus(start));
        let base = self.open_segment(segment).base.unwrap_or(sequence);
        if sequence.get() - base.get() > SEQUENCE_SPAN_MAX
            && self.heads[queue.index()].segment == Some(segment)
        {
            self.close(queue);
            self.close_segment(queue);
        }
        BatchWrite { slot, offset, header, pieces, durability, segment }
    }

    pub(crate) fn land(&mut self, slot: BatchSlot) -> Batch {
        let batch = self.batches.remove(slot.0).expect("a batch lands once");
        self.heads[batch.queue.index()].in_flight -= 1;
        self.open_segment_mut(batch.segment).pending -= 1;
        batch
    }

    /// The write of a batch failed: its segment accepts no more.
    pub(crate) fn fail(&mut self, slot: BatchSlot) -> Batch {
        let batch = self.land(slot);
        self.open_segment_mut(batch.segment).failed = true;
        if self.heads[batch.queue.index()].segment == Some(batch.segment) {
            self.close(batch.queue);
            self.close_segment(batch.queue);
        }
        batch
    }

    /// Takes the summary of a full segment after the writes of all its batches have ended; `Err` names a segment with a
    /// failed batch.
    pub(crate) fn take_finished(&mut self) -> Option<Result<Summary, SegmentIndex>> {
        let done = |open: &OpenSegment| open.full && open.pending == 0;
        let at = self.open.iter().position(done)?;
        let OpenSegment { segment, generation, queue, summary, failed, .. } = self.open.swap_remove(at);
        if failed {
            return Some(Err(segment));
        }
        let durable = Durable::NOTHING;
        Some(Ok(Summary { uuid: self.uuid, segment, generation, queue, durable, entries: summary }))
    }

    fn pending_entry(&self, location: Location) -> Option<PendingPlace> {
        let segment = self.geometry.segment_of(location);
        let offset = location.get() - self.geometry.first_location(segment).get();
        self.batches.iter().find_map(|(number, batch)| {
            let at = offset.checked_sub(batch.start + 1)? as usize;
            (batch.segment == segment && at < batch.entries.len())
                .then_some(PendingPlace { batch: number, at })
        })
    }

    /// The memory of the data of a location, if its batch has not landed.
    pub(crate) fn memory_of(&self, location: Location) -> Option<Memory> {
        let PendingPlace { batch: number, at } = self.pending_entry(location)?;
        Some(self.batches.get(number)?.entries[at].memory)
    }

    /// Delays a read of a client's write until the batch of the write has landed or failed: if the write is lost, no
    /// client may have read it. Returns whether the read is delayed.
    pub(crate) fn await_landing(&mut self, location: Location, read: Task) -> bool {
        let Some(PendingPlace { batch: number, at }) = self.pending_entry(location) else { return false };
        let batch = self.batches.get_mut(number).expect("just found");
        let entry = &batch.entries[at];
        let is_written = entry.dirty && entry.page.is_none() && !mutant!(ReadBeforeLanding);
        if is_written {
            batch.reads.push(read);
        }
        is_written
    }

    /// The kind of the block at a location, if its batch is not yet submitted.
    pub(crate) fn pending_kind(&self, location: Location) -> Option<PendingKind> {
        let PendingPlace { batch: number, at } = self.pending_entry(location)?;
        let batch = self.batches.get(number)?;
        if batch.sequence.is_some() {
            return None;
        }
        let entry = &batch.entries[at];
        Some(if entry.page.is_some() && !entry.dirty { PendingKind::Clean } else { PendingKind::Dirty })
    }

    /// Makes a waiter wait for all batches that are not yet submitted; returns their number.
    pub(crate) fn attach(&mut self, waiter: RequestSlot) -> u32 {
        let gathering: Vec<BatchSlot> = self.heads.iter().filter_map(|head| head.gathering).collect();
        let closed = self.heads.iter().flat_map(|head| head.closed.iter().copied());
        let slots: Vec<BatchSlot> = gathering.into_iter().chain(closed).collect();
        for slot in &slots {
            self.batches.get_mut(slot.0).expect("a batch of a head").waiters.push(waiter);
        }
        u32::try_from(slots.len()).expect("a few batches")
    }

    /// The copy that superseded a lost one gets the older copy; returns its batch.
    pub(crate) fn pass_on(&mut self, lost: Location, older: Option<Location>) -> Option<BatchSlot> {
        self.batches.iter_mut().find_map(|(number, batch)| {
            let heir = batch.entries.iter_mut().find(|entry| entry.older == Some(lost))?;
            heir.older = older;
            Some(BatchSlot(number))
        })
    }

    /// Makes a waiter wait for one more batch; `false` if that batch is not durable enough.
    pub(crate) fn wait_for(&mut self, slot: BatchSlot, waiter: RequestSlot, durability: Durability) -> bool {
        let batch = self.batches.get_mut(slot.0).expect("a batch in flight");
        if batch.sequence.is_none() && durability == Durability::Durable {
            batch.durability = durability;
        }
        batch.waiters.push(waiter);
        durability == Durability::Volatile || batch.durability == durability
    }

    /// Voids the entry of a dead block in a batch that is not yet submitted (L-1).
    pub(crate) fn void(&mut self, location: Location) {
        let Some(PendingPlace { batch: number, at }) = self.pending_entry(location) else { return };
        let batch = self.batches.get_mut(number).expect("just found");
        if batch.sequence.is_none() {
            batch.entries[at].key = None;
        }
    }

    /// Replaces the data of a block in a batch that is not yet submitted; `None` if that is not possible.
    pub(crate) fn absorb(&mut self, location: Location, append: &Append) -> Option<Appended> {
        let PendingPlace { batch: number, at } = self.pending_entry(location)?;
        let batch = self.batches.get_mut(number).expect("just found");
        let entry = &mut batch.entries[at];
        let is_written = batch.sequence.is_some() && !mutant!(AbsorbedTooLate);
        if is_written || entry.page.is_some() || append.entry.page.is_some() {
            return None;
        }
        *entry = Entry { older: entry.older, ..append.entry };
        let joined = batch.join(append);
        Some(Appended { location, opened: None, header: None, joined })
    }

    /// The segments that heads write, or with a batch that has neither landed nor failed, and the number of their
    /// blocks that batches have taken.
    pub(crate) fn open_ends(&self) -> Vec<SegmentEnd> {
        self.open.iter().map(|open| SegmentEnd { segment: open.segment, end: open.position }).collect()
    }

    /// The sequence number under which a block of an open segment was submitted; `None` if it was not, or if the
    /// segment is not open.
    pub(crate) fn sequence_of(&self, segment: SegmentIndex, location: Location) -> Option<Sequence> {
        let open = self.open.iter().find(|open| open.segment == segment)?;
        let offset = location.get() - self.geometry.first_location(segment).get();
        open.summary.get(offset as usize)?.map(|entry| entry.sequence)
    }

    /// Whether [`Log::take_finished`] has still to return a segment.
    pub(crate) fn is_open(&self, segment: SegmentIndex) -> bool {
        self.open.iter().any(|open| open.segment == segment)
    }
}

fn note(open: &mut OpenSegment, start: u32, entries: &[BatchEntry], sequence: Sequence) {
    open.base.get_or_insert(sequence);
    let places = open.summary.iter_mut().skip(start as usize + 1);
    for (place, entry) in places.zip(entries) {
        *place =
            entry.key.map(|key| SummaryEntry { key, dirty: entry.dirty, checksum: entry.checksum, sequence });
    }
}
