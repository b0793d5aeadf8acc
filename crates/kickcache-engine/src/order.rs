//! The global order of batches and journal records, and their durable part.
//!
//! Invariants:
//! * O-1: `durable` never exceeds the landed part: all writes up to it ended before the submission of a flush that
//!   succeeded.
//! * O-2: `durable_range` and `durable_blocks` do not include a number after a failure of its write or flush, nor any
//!   later number.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::device::DeviceError;
use crate::format::durable_blocks::DurableBlocks;
use crate::format::durable_range::DurableRange;
use crate::ids::RequestSlot;
use crate::units::{SegmentIndex, Sequence, VolumeId};
use crate::watermark::Watermark;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum DurableWaiter {
    /// A flush request.
    Flush(RequestSlot),
    /// A write past the log, a discard, or a refused write: records or dirty blocks of its extent may not be durable
    /// yet.
    Around(RequestSlot),
    /// Empty segments, before their opening.
    Emptied {
        segments: Vec<SegmentIndex>,
        /// The number of failed batches before.
        failed_batches: u32,
    },
    /// Segments with *opened* records in flight.
    Opening(Vec<SegmentIndex>),
    /// The checkpoint: its records or chunks are to become durable.
    Checkpoint,
    /// No waiter.
    Nobody,
    /// A drain: its *clean* records are to become durable.
    Drained(VolumeId),
    /// A volume that is removed.
    Forgotten(VolumeId),
    /// The end of the engine.
    Stop,
    /// Writeback: dirty blocks in the log are to become durable.
    Writeback,
    /// The cut of this number: its members are to become durable.
    Cut(u64),
}

/// The flush that a waiter needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// Any flush that is submitted from now on.
    NextFlush,
    /// A flush that is submitted when all batches and records up to this number have landed.
    Through(Sequence),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct FlushCount(u64);

#[derive(Debug)]
pub(crate) struct Order {
    first: Sequence,
    next: Sequence,
    in_flight: BTreeSet<Sequence>,
    durable: Sequence,
    batches: Watermark,
    first_block: u64,
    journal_blocks: Watermark,
    waiting: Vec<(Need, DurableWaiter)>,
    /// The newest number that the flush in flight covers, and its waiters.
    flushing: Option<(Sequence, Vec<DurableWaiter>)>,
    submitted: FlushCount,
    /// The count of the newest flush that succeeded.
    flushed: FlushCount,
    /// A flush would have something to do.
    unflushed: bool,
    /// A flush has failed in this life.
    has_failed: bool,
}

impl Order {
    pub(crate) fn new(next: Sequence, first_block: u64) -> Order {
        Order {
            first: next,
            next,
            in_flight: BTreeSet::new(),
            durable: Sequence::new(next.get() - 1),
            batches: Watermark::new(next.get()),
            first_block,
            journal_blocks: Watermark::new(first_block),
            waiting: Vec::new(),
            flushing: None,
            submitted: FlushCount::default(),
            flushed: FlushCount::default(),
            unflushed: false,
            has_failed: false,
        }
    }

    pub(crate) fn assign(&mut self) -> Sequence {
        let sequence = self.next;
        self.next = sequence.next();
        self.in_flight.insert(sequence);
        sequence
    }

    pub(crate) fn assign_batch(&mut self) -> Sequence {
        let sequence = self.assign();
        self.batches.begin(sequence.get());
        sequence
    }

    pub(crate) fn newest(&self) -> Sequence {
        Sequence::new(self.next.get() - 1)
    }

    /// The write of this number has ended, or will not happen: no flush waits for it any more.
    pub(crate) fn land(&mut self, sequence: Sequence) {
        let was_in_flight = self.in_flight.remove(&sequence);
        debug_assert!(was_in_flight, "O-1: {sequence:?} landed twice");
        self.batches.end(sequence.get());
        self.unflushed = true;
    }

    pub(crate) fn fail_batch(&mut self, sequence: Sequence) {
        self.batches.fail(sequence.get());
        self.land(sequence);
    }

    /// The durable batches of this life (O-2).
    pub(crate) fn durable_range(&self) -> DurableRange {
        let last = Sequence::new(self.batches.durable_end() - 1);
        let last = if mutant!(DurableTooEarly) { self.newest() } else { last };
        DurableRange { first: self.first, last }
    }

    /// The durable journal blocks of this life (O-2).
    pub(crate) fn durable_blocks(&self) -> DurableBlocks {
        DurableBlocks { first: self.first_block, end: self.journal_blocks.durable_end() }
    }

    pub(crate) fn begin_journal_block(&mut self, number: u64) {
        self.journal_blocks.begin(number);
    }

    pub(crate) fn end_journal_block(&mut self, number: u64, result: Result<(), DeviceError>) {
        match result {
            Ok(()) => self.journal_blocks.end(number),
            Err(_) => self.journal_blocks.fail(number),
        }
    }

    /// The write of a structure without a number has ended.
    pub(crate) fn land_unnumbered(&mut self) {
        self.unflushed = true;
    }

    fn landed(&self) -> Sequence {
        self.in_flight.first().map_or_else(|| self.newest(), |first| Sequence::new(first.get() - 1))
    }

    pub(crate) fn is_durable(&self, sequence: Sequence) -> bool {
        sequence <= self.durable
    }

    pub(crate) fn flush_count(&self) -> FlushCount {
        self.submitted
    }

    /// Whether a flush that was submitted after this count succeeded.
    pub(crate) fn has_flushed_since(&self, count: FlushCount) -> bool {
        self.flushed > count
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether all writes of the cache device that ended were flushed, and no flush of it is in flight.
    pub(crate) fn is_flushed(&self) -> bool {
        !self.unflushed && (self.flushing.is_none() || mutant!(FlushInFlightCounts))
    }

    pub(crate) fn wait(&mut self, need: Need, waiter: DurableWaiter) {
        self.waiting.push((need, waiter));
    }

    /// Begins a flush if one is due; `true` if it must be submitted.
    #[inline]
    pub(crate) fn begin_flush(&mut self) -> bool {
        !self.waiting.is_empty() && self.flushing.is_none() && self.begin_flush_of_waiting()
    }

    fn begin_flush_of_waiting(&mut self) -> bool {
        let landed = self.landed();
        let is_served = |need: Need| match need {
            Need::NextFlush => true,
            Need::Through(sequence) => sequence <= landed,
        };
        let served = self.waiting.extract_if(.., |(need, _)| is_served(*need));
        let served: Vec<_> = served.map(|(_, waiter)| waiter).collect();
        if served.is_empty() {
            return false;
        }
        self.batches.begin_flush();
        self.journal_blocks.begin_flush();
        self.submitted.0 += 1;
        self.flushing = Some((landed, served));
        self.unflushed = false;
        true
    }

    /// The flush in flight succeeded; returns its waiters.
    pub(crate) fn end_flush(&mut self) -> Vec<DurableWaiter> {
        let (covered, served) = self.flushing.take().expect("a flush is in flight");
        self.durable = self.durable.max(covered);
        self.flushed = self.submitted;
        self.batches.end_flush();
        self.journal_blocks.end_flush();
        served
    }

    /// The flush in flight failed; returns its waiters.
    pub(crate) fn fail_flush(&mut self) -> Vec<DurableWaiter> {
        self.unflushed = true;
        self.has_failed = true;
        self.batches.fail_flush();
        self.journal_blocks.fail_flush();
        let (_, served) = self.flushing.take().expect("a flush is in flight");
        served
    }

    /// Takes the waiters that are not part of a flush in flight.
    pub(crate) fn give_up(&mut self) -> Vec<DurableWaiter> {
        self.waiting.drain(..).map(|(_, waiter)| waiter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_covers_only_earlier_landed_writes() {
        let mut order = Order::new(Sequence::new(10), 0);
        let (first, second) = (order.assign(), order.assign());
        order.wait(Need::Through(second), DurableWaiter::Checkpoint);
        order.land(second);
        assert!(!order.begin_flush(), "the first one is still in flight");
        order.land(first);
        assert!(order.begin_flush());
        let late = order.assign();
        order.land(late);
        assert_eq!(order.end_flush(), [DurableWaiter::Checkpoint]);
        assert!(order.is_durable(second) && !order.is_durable(late));
        assert!(!order.is_flushed());
    }

    fn flush(order: &mut Order) {
        order.wait(Need::NextFlush, DurableWaiter::Nobody);
        assert!(order.begin_flush());
        order.end_flush();
    }

    #[test]
    fn the_durable_range_starts_with_the_life_and_follows_flushes() {
        let mut order = Order::new(Sequence::new(10), 0);
        let first = order.assign_batch();
        order.land(first);
        assert!(!order.durable_range().contains(first), "it landed, and no flush covers it");
        flush(&mut order);
        let late = order.assign_batch();
        let range = order.durable_range();
        assert!(range.contains(first) && !range.contains(late) && !range.contains(Sequence::new(9)));
    }

    #[test]
    fn a_gathering_record_does_not_delay_the_durable_range() {
        let mut order = Order::new(Sequence::new(10), 0);
        let _record = order.assign();
        let batch = order.assign_batch();
        order.land(batch);
        flush(&mut order);
        assert!(order.durable_range().contains(batch) && !order.is_durable(batch));
    }

    #[test]
    fn a_failed_write_ends_the_durable_range() {
        let mut order = Order::new(Sequence::new(10), 0);
        let [good, bad, after] = [(); 3].map(|()| order.assign_batch());
        order.land(good);
        order.fail_batch(bad);
        order.land(after);
        flush(&mut order);
        assert!(order.is_durable(after));
        assert_eq!(order.durable_range(), DurableRange { first: good, last: good });
    }

    #[test]
    fn writes_covered_by_a_failed_flush_are_not_durable() {
        let mut order = Order::new(Sequence::new(10), 0);
        let early = order.assign_batch();
        order.land(early);
        flush(&mut order);
        let lost = order.assign_batch();
        order.land(lost);
        order.wait(Need::NextFlush, DurableWaiter::Nobody);
        assert!(order.begin_flush());
        order.fail_flush();
        assert!(!order.is_flushed(), "a flush request has something to do");
        flush(&mut order);
        assert_eq!(order.durable_range(), DurableRange { first: early, last: early });
    }
}
