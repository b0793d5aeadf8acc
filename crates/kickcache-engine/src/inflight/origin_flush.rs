//! The flushes of one origin, and the blocks that each will make clean.
//!
//! Invariants:
//! * I-3: a block becomes clean when a flush succeeded that was submitted after the origin's write of the block had
//!   ended.

use alloc::vec::Vec;

use crate::cache::BlockCopy;
use crate::ids::RequestSlot;
use crate::inflight::blocks::block_extent;
use crate::inflight::origin_witnesses::OriginWitnesses;
use crate::policy::flush_budget::{FLUSH_PART, FlushBudget};
use crate::policy::load::work_of;
use crate::request::Durability;
use crate::task::Task;
use crate::time::Instant;
use crate::units::ByteExtent;

/// The coverage of a flush while the cache device is out of service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Covered {
    /// Perhaps not all acknowledged data.
    #[default]
    Something,
    /// All acknowledged data.
    Everything,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct EndedFlush {
    /// The flush requests that this flush completes, with success or its error.
    pub(crate) waiters: Vec<RequestSlot>,
    /// After success, the blocks that are clean now; after a failure, all unflushed blocks, which must be written
    /// again.
    pub(crate) blocks: Vec<BlockCopy>,
}

/// Writes to an origin since the last submission of a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct UnflushedWrites {
    /// Work of volatile writes that ended.
    volatile: u64,
    /// Work of volatile client writes that bypassed the log.
    bypassed: u64,
    /// Bytes of writebacks, and of volatile client writes with a block in the log.
    bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct OriginFlush {
    /// A client's write or discard needs the next flush.
    acknowledged: bool,
    /// An event since the submission of the last flush made a flush necessary.
    written: bool,
    in_flight: Option<Vec<RequestSlot>>,
    waiting: Vec<RequestSlot>,
    /// Blocks that the next flush makes clean.
    gathering: Vec<BlockCopy>,
    /// Blocks that the flush in flight makes clean.
    flushing: Vec<BlockCopy>,
    /// When the first write or block began to wait for the next flush.
    since: Option<Instant>,
    given: UnflushedWrites,
    flushing_work: u64,
    /// Work of volatile writebacks in flight.
    volatile_in_flight: u64,
    begun: Instant,
    budget: FlushBudget,
    wanted: bool,
    /// The flush in flight covers writes or discards of clients.
    covers_clients: bool,
    /// The next flush request fails: acknowledged data may be lost.
    unreported: bool,
    covered: Covered,
    /// Tasks that wait until blocks are clean, or dirty again.
    afterwards: Vec<Task>,
    pub(crate) witnesses: OriginWitnesses,
}

impl OriginFlush {
    /// The origin ended a volatile client write of this many bytes that bypassed the log.
    pub(crate) fn on_bypassing_write(&mut self, now: Instant, bytes: u64) {
        self.given.bypassed += work_of(1, bytes);
        self.given.volatile += work_of(1, bytes);
        self.acknowledged = true;
        self.on_write(now);
    }

    /// The origin ended a volatile client write of this many bytes with a copy in the log, or a discard (0 bytes); or
    /// an earlier process may have left such a write.
    pub(crate) fn on_client_write(&mut self, now: Instant, bytes: u64) {
        self.acknowledged = true;
        self.given.volatile += work_of(1, bytes);
        self.given.bytes += bytes;
        self.on_write(now);
    }

    pub(crate) fn on_write(&mut self, now: Instant) {
        self.written = true;
        self.since.get_or_insert(now);
    }

    /// The durability of a writeback of this many bytes. `room` is an upper bound of the unflushed work.
    pub(crate) fn choose_durability(&self, bytes: u64, room: u64, part: u64) -> Durability {
        let room = self.budget.allowed().min(room);
        let work = work_of(1, bytes);
        let is_last = self.given.bytes + room / work * bytes >= self.flush_part(part);
        if is_last && self.unflushed() + work <= room { Durability::Volatile } else { Durability::Durable }
    }

    /// Work of unflushed writes, and of volatile ones in flight.
    fn unflushed(&self) -> u64 {
        self.given.volatile + self.flushing_work + self.volatile_in_flight
    }

    /// Bytes of writeback before a flush: none until the limit is accurate.
    fn flush_part(&self, part: u64) -> u64 {
        if self.budget.is_accurate() { part } else { 0 }
    }

    /// Whether a flush is worth its time.
    pub(crate) fn is_worthwhile(&self, part: u64) -> bool {
        self.given.volatile > 0 && self.is_short() && self.given.bytes >= self.flush_part(part)
    }

    /// Whether bypassing writes stay within the limit, so that a flush is short.
    pub(crate) fn is_short(&self) -> bool {
        self.given.bypassed <= self.budget.allowed()
    }

    pub(crate) fn is_at_limit(&self) -> bool {
        self.given.volatile >= self.budget.allowed()
    }

    pub(crate) fn has_much(&self) -> bool {
        self.given.bytes >= FLUSH_PART
    }

    pub(crate) fn begin_writeback(&mut self, bytes: u64, durability: Durability) {
        if durability == Durability::Volatile {
            self.volatile_in_flight += work_of(1, bytes);
        }
    }

    pub(crate) fn end_writeback(&mut self, bytes: u64, durability: Durability) {
        self.given.bytes += bytes;
        if durability == Durability::Volatile {
            let work = work_of(1, bytes);
            self.volatile_in_flight -= work;
            self.given.volatile += work;
        }
    }

    /// A block that the origin holds now, unflushed. If no write ended since the submission of the flush in flight,
    /// this flush covers the block.
    pub(crate) fn add(&mut self, copy: BlockCopy, now: Instant) {
        if self.in_flight.is_some() && (!self.written || mutant!(WrittenDuringFlushIsClean)) {
            self.flushing.push(copy);
            return;
        }
        self.gathering.push(copy);
        self.since.get_or_insert(now);
    }

    pub(crate) fn gathered(&self) -> usize {
        self.gathering.len()
    }

    /// Whether the origin may have data that no flush has made durable.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.written || self.in_flight.is_some() || !self.gathering.is_empty()
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Whether a client's write or discard may not be durable at the origin. Blocks that were written back do not
    /// count: the log has them until a flush succeeds.
    pub(crate) fn owes_clients(&self) -> bool {
        self.acknowledged || (self.in_flight.is_some() && self.covers_clients)
    }

    pub(crate) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn wait(&mut self, request: RequestSlot) {
        self.waiting.push(request);
    }

    /// A task waits until a block is clean, or dirty again.
    pub(crate) fn wait_for_blocks(&mut self, task: Task) {
        self.afterwards.push(task);
        self.want();
    }

    pub(crate) fn take_afterwards(&mut self) -> Vec<Task> {
        core::mem::take(&mut self.afterwards)
    }

    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// When the first write or block began to wait for the next flush; `None` while a flush is in flight.
    pub(crate) fn due(&self) -> Option<Instant> {
        if self.in_flight.is_some() { None } else { self.since }
    }

    /// Whether a flush may begin.
    #[inline]
    pub(crate) fn may_begin(&self) -> bool {
        self.in_flight.is_none() && (!self.waiting.is_empty() || self.is_unsettled())
    }

    /// Begins a flush if there is a reason; `true` if it must be submitted.
    pub(crate) fn begin(&mut self, now: Instant, covered: Covered) -> bool {
        let has_reason = !self.waiting.is_empty() || (self.wanted && self.is_unsettled());
        if self.in_flight.is_some() || !has_reason {
            return false;
        }
        self.in_flight = Some(core::mem::take(&mut self.waiting));
        self.covered = covered;
        self.covers_clients = self.acknowledged;
        self.flushing = core::mem::take(&mut self.gathering);
        self.witnesses.begin_flush();
        self.begun = now;
        self.flushing_work = core::mem::take(&mut self.given).volatile;
        self.acknowledged = false;
        self.written = false;
        self.wanted = false;
        self.since = None;
        true
    }

    pub(crate) fn covered(&self) -> Covered {
        self.covered
    }

    pub(crate) fn end(&mut self, now: Instant) -> EndedFlush {
        self.budget.on_flushed(self.flushing_work, now.since(self.begun));
        self.finish()
    }

    fn finish(&mut self) -> EndedFlush {
        self.flushing_work = 0;
        self.witnesses.end_flush();
        let waiters = self.in_flight.take().expect("a flush is in flight");
        EndedFlush { waiters, blocks: core::mem::take(&mut self.flushing) }
    }

    /// The flush failed: writes that ended before its end may never reach the medium, even those that ended after it
    /// began, because an error is reported once. Requests that wait for the next flush receive the error as well: the
    /// next flush does not cover writes that this one dropped.
    pub(crate) fn fail(&mut self, now: Instant) -> EndedFlush {
        let is_owed = self.owes_clients();
        self.acknowledged = is_owed;
        self.on_write(now);
        self.witnesses.forget_unflushed();
        let mut ended = self.finish();
        if !mutant!(FailedOriginFlushNotTold) {
            ended.waiters.append(&mut self.waiting);
        }
        if !mutant!(GatheredOutliveFailedFlush) {
            ended.blocks.append(&mut self.gathering);
        }
        self.unreported |= is_owed && ended.waiters.is_empty();
        ended
    }

    /// The origin may have lost unflushed data: returns the blocks that must be written again. A flush in flight proves
    /// nothing about them.
    pub(crate) fn restart(&mut self) -> Vec<BlockCopy> {
        self.witnesses.forget_unflushed();
        let mut blocks = core::mem::take(&mut self.gathering);
        if !self.written {
            // No write has ended since the last flush: no flush is due.
            self.since = None;
        }
        if !mutant!(FlushOutlivesRestart) {
            blocks.append(&mut self.flushing);
        }
        blocks
    }

    /// The next flush, and the one in flight, do not make the blocks of an extent clean.
    pub(crate) fn let_go(&mut self, extent: ByteExtent) {
        let is_left = |copy: &BlockCopy| !block_extent(copy.key.block()).overlaps(extent);
        self.gathering.retain(is_left);
        self.flushing.retain(is_left);
    }

    /// A durable write failed. An origin reports an error once, and this may be the error of acknowledged writes that no
    /// flush has covered.
    pub(crate) fn on_durable_error(&mut self) {
        self.unreported |= self.owes_clients();
    }

    /// Acknowledged data is lost: the next flush request fails.
    pub(crate) fn note_loss(&mut self) {
        self.unreported = true;
    }

    /// Whether the next flush request must fail; the caller must fail its request.
    pub(crate) fn take_unreported(&mut self) -> bool {
        core::mem::take(&mut self.unreported) && !mutant!(FailedOriginFlushNotTold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::format::geometry::Geometry;
    use crate::units::{BlockIndex, BlockKey, Location, VolumeId};

    fn failed(prepare: impl FnOnce(&mut OriginFlush)) -> OriginFlush {
        let mut flush = OriginFlush::default();
        prepare(&mut flush);
        flush.want();
        assert!(flush.begin(Instant::ZERO, Covered::Something));
        flush.fail(Instant::ZERO);
        flush
    }

    #[test]
    fn a_failure_without_a_witness_is_reported_to_one_client() {
        let mut flush = failed(|flush| flush.on_client_write(Instant::ZERO, 4096));
        assert!(flush.take_unreported());
        assert!(!flush.take_unreported());
        assert!(flush.owes_clients(), "and the next flush uses the origin again");
    }

    #[test]
    fn a_block_gathered_behind_a_flush_needs_another_one() {
        let mut flush = OriginFlush::default();
        flush.on_write(Instant::ZERO);
        flush.want();
        assert!(flush.begin(Instant::ZERO, Covered::Something));
        let cache = Cache::new(Geometry::for_device(8 << 20).unwrap());
        let copy = |block| {
            let key = BlockKey::new(VolumeId::new(0), BlockIndex::new(block));
            cache.copy_at(key, Location::new(u32::try_from(block).unwrap()))
        };
        flush.add(copy(0), Instant::ZERO);
        flush.on_write(Instant::ZERO);
        flush.add(copy(1), Instant::ZERO);
        assert_eq!(flush.end(Instant::ZERO).blocks, [copy(0)], "the flush covers data of earlier writes");
        assert_eq!((flush.due(), flush.gathered()), (Some(Instant::ZERO), 1));
    }

    #[test]
    fn a_flush_overtaken_by_a_restart_cleans_no_blocks() {
        let mut flush = OriginFlush::default();
        let cache = Cache::new(Geometry::for_device(8 << 20).unwrap());
        let copy = |block| {
            let key = BlockKey::new(VolumeId::new(0), BlockIndex::new(block));
            cache.copy_at(key, Location::new(u32::try_from(block).unwrap()))
        };
        flush.add(copy(1), Instant::ZERO);
        flush.wait(RequestSlot(7));
        assert!(flush.begin(Instant::ZERO, Covered::Everything));
        flush.add(copy(2), Instant::ZERO);
        assert_eq!(flush.restart(), [copy(1), copy(2)]);
        assert_eq!((flush.since, flush.covers_clients), (None, false));
        let told = EndedFlush { waiters: alloc::vec![RequestSlot(7)], blocks: Vec::new() };
        assert_eq!(flush.end(Instant::ZERO), told, "the waiter gets the error");
    }

    #[test]
    fn waiters_for_the_next_flush_get_this_result() {
        let slot = RequestSlot;
        let mut flush = OriginFlush::default();
        flush.on_client_write(Instant::ZERO, 4096);
        flush.wait(slot(1));
        assert!(flush.begin(Instant::ZERO, Covered::Something));
        flush.wait(slot(2));
        assert_eq!(flush.fail(Instant::ZERO).waiters, [slot(1), slot(2)]);
        assert!(!flush.take_unreported());
        assert!(!flush.begin(Instant::ZERO, Covered::Something), "no request waits any more");
    }

    #[test]
    fn a_failure_without_clients_is_dropped() {
        let mut flush = failed(|flush| flush.on_write(Instant::ZERO));
        assert!(!flush.owes_clients());
        assert!(!flush.take_unreported());
        flush.want();
        assert!(flush.begin(Instant::ZERO, Covered::Something), "the origin is flushed again nevertheless");
        assert!(!flush.owes_clients(), "nor does that one owe anything while it is in flight");
        flush.fail(Instant::ZERO);
        assert!(!flush.take_unreported());
    }

    #[test]
    fn writes_that_end_during_a_failed_flush_are_lost() {
        let mut flush = OriginFlush::default();
        flush.on_write(Instant::ZERO);
        flush.want();
        assert!(flush.begin(Instant::ZERO, Covered::Something));
        let cache = Cache::new(Geometry::for_device(8 << 20).unwrap());
        let copy = cache.copy_at(BlockKey::new(VolumeId::new(0), BlockIndex::new(0)), Location::new(0));
        flush.add(copy, Instant::ZERO);
        flush.on_client_write(Instant::ZERO, 4096);
        assert_eq!(flush.fail(Instant::ZERO), EndedFlush { waiters: Vec::new(), blocks: alloc::vec![copy] });
        assert!(flush.take_unreported(), "the client's write may be lost as well");
    }
}
