//! Accesses to one origin; if two accesses overlap and one is a write, they are executed in the order in which they
//! were added.
//!
//! A ready client's write that covers a ready earlier one, and waits for no other access, may replace it.
//!
//! Invariants:
//! * I-6: a write and another access to an overlapping extent are never in flight together.

use alloc::vec::Vec;

use crate::config::ORIGIN_DEPTH_MAX;
use crate::device::DeviceOperation;
use crate::ids::Ticket;
use crate::inflight::purpose::{Prepared, Purpose};
use crate::units::ByteExtent;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OriginAccess {
    Read,
    Write,
}

/// The requester of an access: a client, or writeback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Priority {
    /// A client waits for the access.
    Foreground,
    Background,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AccessRequest {
    pub(crate) extent: ByteExtent,
    pub(crate) access: OriginAccess,
    pub(crate) priority: Priority,
}

#[derive(Debug)]
struct Entry {
    ticket: Ticket,
    request: AccessRequest,
    /// Earlier entries that this entry must wait for.
    blockers: u32,
    /// The submission of the entry, once it is ready.
    prepared: Option<Prepared>,
    in_flight: bool,
    /// The entry is not combined with other writes.
    is_apart: bool,
}

impl Entry {
    /// Whether the entry is a ready client's write that may be combined with other writes.
    fn goes_with_others(&self) -> bool {
        !self.is_apart && self.prepared.as_ref().is_some_and(Prepared::is_client_write)
    }
}

#[derive(Debug)]
pub(crate) struct OriginQueue {
    entries: Vec<Entry>,
    next: u64,
    in_flight: usize,
    foreground_reads: usize,
    foreground: usize,
}

fn conflict(one: &AccessRequest, other: &AccessRequest) -> bool {
    let both_read = one.access == OriginAccess::Read && other.access == OriginAccess::Read;
    !both_read && one.extent.overlaps(other.extent) && !mutant!(OverlapsUnordered)
}

impl OriginQueue {
    pub(crate) const fn new() -> OriginQueue {
        OriginQueue { entries: Vec::new(), next: 0, in_flight: 0, foreground_reads: 0, foreground: 0 }
    }

    pub(crate) fn foreground_reads(&self) -> usize {
        self.foreground_reads
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an access to the order; it is not submitted before [`OriginQueue::set_ready`].
    pub(crate) fn enqueue(&mut self, request: AccessRequest) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        let blockers = self.entries.iter().filter(|entry| conflict(&entry.request, &request)).count();
        let blockers = u32::try_from(blockers).expect("fewer than 2^32 accesses");
        self.count(&request, 1);
        self.entries.push(Entry {
            ticket,
            request,
            blockers,
            prepared: None,
            in_flight: false,
            is_apart: false,
        });
        ticket
    }

    /// The newest read, queued or in flight, of any bytes of the extent.
    pub(crate) fn last_read(&self, extent: ByteExtent) -> Option<Ticket> {
        let reads = self.entries.iter().filter(|entry| entry.request.access == OriginAccess::Read);
        reads.filter(|read| read.request.extent.overlaps(extent)).map(|read| read.ticket).max()
    }

    /// The part of `window` around `wanted` without queued writes except to blocks of `wanted`, in whole blocks.
    pub(crate) fn undisturbed(&self, wanted: ByteExtent, window: ByteExtent) -> ByteExtent {
        let (mut start, mut end) = (window.start, window.end());
        let writes = self.entries.iter().map(|entry| entry.request);
        let writes = writes.filter(|request| request.access == OriginAccess::Write);
        for write in writes.map(|request| request.extent.widened_to_blocks()) {
            if write.end() <= wanted.start {
                start = start.max(write.end());
            } else if write.start >= wanted.end() {
                end = end.min(write.start);
            }
        }
        ByteExtent { start, length: end - start }
    }

    fn count(&mut self, request: &AccessRequest, by: isize) {
        if request.priority == Priority::Foreground {
            self.foreground = self.foreground.strict_add_signed(by);
            if request.access == OriginAccess::Read {
                self.foreground_reads = self.foreground_reads.strict_add_signed(by);
            }
        }
    }

    fn position(&self, ticket: Ticket) -> usize {
        self.entries.iter().position(|entry| entry.ticket == ticket).expect("a ticket is released once")
    }

    /// The access may be submitted as soon as no earlier access blocks it.
    pub(crate) fn set_ready(&mut self, ticket: Ticket, operation: DeviceOperation, purpose: Purpose) {
        let at = self.position(ticket);
        self.entries[at].prepared = Some(Prepared { purpose, operation });
    }

    /// Takes the next access that no earlier access blocks, if fewer than [`ORIGIN_DEPTH_MAX`] are in flight.
    pub(crate) fn take_startable(&mut self) -> Option<Prepared> {
        if self.in_flight >= ORIGIN_DEPTH_MAX {
            return None;
        }
        let is_startable = |entry: &Entry| entry.blockers == 0 && entry.prepared.is_some();
        let mut at = self.entries.iter().position(is_startable)?;
        let may_be_overtaken = self.entries[at].goes_with_others();
        let mut next = self.entries[at].prepared.take()?;
        let mut overtaken = 0;
        while may_be_overtaken && let Some(later) = self.successor(at, overtaken) {
            next = next.overtaken_by(self.entries[later].prepared.take()?);
            (at, overtaken) = (later, overtaken + 1);
        }
        self.entries[at].in_flight = true;
        self.in_flight += 1;
        Some(next)
    }

    /// A later client's write that may replace the one at this place.
    fn successor(&self, at: usize, overtaken: u32) -> Option<usize> {
        let extent = self.entries[at].request.extent;
        let is_it = |later: &Entry| {
            (later.blockers == overtaken + 1 || mutant!(OvertakenAcrossRead))
                && later.request.extent.contains(extent)
                && later.goes_with_others()
        };
        (at + 1..self.entries.len()).find(|later| is_it(&self.entries[*later]))
    }

    /// The access will be ready again, and is submitted alone.
    pub(crate) fn set_apart(&mut self, ticket: Ticket) {
        let at = self.position(ticket);
        let entry = &mut self.entries[at];
        entry.is_apart = true;
        self.in_flight -= usize::from(core::mem::take(&mut entry.in_flight));
    }

    /// The access ended, or was abandoned before its submission.
    pub(crate) fn release(&mut self, ticket: Ticket) {
        let at = self.position(ticket);
        let gone = self.entries.remove(at);
        self.in_flight -= usize::from(gone.in_flight);
        self.count(&gone.request, -1);
        for later in &mut self.entries[at..] {
            later.blockers -= u32::from(conflict(&gone.request, &later.request));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, Memory, Piece, Pieces};
    use crate::ids::RequestSlot;
    use crate::request::{Durability, RequestId};
    use crate::units::VolumeId;

    fn ask(start: u64, access: OriginAccess) -> AccessRequest {
        AccessRequest { extent: ByteExtent { start, length: 4096 }, access, priority: Priority::Foreground }
    }

    fn ready(queue: &mut OriginQueue, ticket: Ticket) {
        let flush = DeviceOperation::Flush { device: Device::Origin(VolumeId::new(0)) };
        queue.set_ready(ticket, flush, Purpose::CacheFlush);
    }

    fn blocks(start: u64, count: u64) -> ByteExtent {
        ByteExtent { start: start * 4096, length: count * 4096 }
    }

    #[test]
    fn overlapping_accesses_keep_their_order() {
        let mut queue = OriginQueue::new();
        let read = queue.enqueue(ask(0, OriginAccess::Read));
        let write = queue.enqueue(ask(0, OriginAccess::Write));
        let late = queue.enqueue(ask(0, OriginAccess::Read));
        let other = queue.enqueue(ask(8192, OriginAccess::Write));
        for ticket in [read, write, late, other] {
            ready(&mut queue, ticket);
        }
        assert!(queue.take_startable().is_some() && queue.take_startable().is_some());
        assert!(queue.take_startable().is_none(), "write and late read wait for the first read");
        queue.release(read);
        assert!(queue.take_startable().is_some());
        assert!(queue.take_startable().is_none());
        queue.release(write);
        assert!(queue.take_startable().is_some());
        assert_eq!(queue.foreground_reads(), 1);
        queue.release(late);
        queue.release(other);
        assert!(queue.is_empty());
    }

    #[test]
    fn the_last_read_of_an_extent_follows_earlier_requests() {
        let mut queue = OriginQueue::new();
        queue.enqueue(ask(0, OriginAccess::Read));
        let first = queue.enqueue(ask(0, OriginAccess::Write));
        let extent = ByteExtent { start: 0, length: 4096 };
        queue.enqueue(ask(4096, OriginAccess::Read));
        assert!(queue.last_read(extent).unwrap() < first);
        queue.enqueue(ask(0, OriginAccess::Read));
        let second = queue.enqueue(ask(0, OriginAccess::Write));
        assert!(queue.last_read(extent).is_some_and(|read| first < read && read < second));
        assert_eq!(queue.last_read(ByteExtent { start: 8192, length: 4096 }), None);
    }

    #[test]
    fn a_wider_read_ends_at_neighbouring_writes() {
        let mut queue = OriginQueue::new();
        let (wanted, window) = (blocks(5, 1), blocks(0, 16));
        queue.enqueue(ask(4096, OriginAccess::Read));
        queue.enqueue(ask(20 * 4096, OriginAccess::Write));
        queue.enqueue(ask(5 * 4096, OriginAccess::Write));
        assert_eq!(
            queue.undisturbed(wanted, window),
            window,
            "writes outside, and writes that block the read anyway"
        );
        for block in [1, 3, 12, 9] {
            queue.enqueue(ask(block * 4096, OriginAccess::Write));
        }
        assert_eq!(queue.undisturbed(wanted, window), blocks(4, 5));
        for start in [4 * 4096 + 512, 6 * 4096 + 1024] {
            let sector = ByteExtent { start, length: 512 };
            queue.enqueue(AccessRequest { extent: sector, ..ask(0, OriginAccess::Write) });
        }
        assert_eq!(queue.undisturbed(wanted, window), wanted);
    }

    #[test]
    fn an_access_that_is_not_ready_still_holds_its_place() {
        let mut queue = OriginQueue::new();
        let first = queue.enqueue(ask(0, OriginAccess::Write));
        let second = queue.enqueue(ask(0, OriginAccess::Write));
        ready(&mut queue, second);
        assert!(queue.take_startable().is_none());
        queue.release(first);
        assert!(queue.take_startable().is_some());
    }

    fn write(queue: &mut OriginQueue, number: u32, extent: ByteExtent, durability: Durability) -> Ticket {
        let ticket = queue.enqueue(AccessRequest { extent, ..ask(0, OriginAccess::Write) });
        prepare(queue, ticket, number, extent, durability);
        ticket
    }

    fn prepare(
        queue: &mut OriginQueue,
        ticket: Ticket,
        number: u32,
        extent: ByteExtent,
        durability: Durability,
    ) {
        let id = RequestId::new(number);
        let memory = Memory::Request { id, offset: 0 };
        let length = u32::try_from(extent.length).unwrap();
        let device = Device::Origin(VolumeId::new(0));
        let pieces = Pieces::One(Piece { memory, length });
        let operation = DeviceOperation::Write { device, offset: extent.start, pieces, durability };
        let purpose = Purpose::RequestWrite { request: RequestSlot(number), stands_for: Vec::new() };
        queue.set_ready(ticket, operation, purpose);
    }

    /// The next write: its request, the requests that it replaces, and its durability.
    fn next(queue: &mut OriginQueue) -> Option<(u32, Vec<u32>, Durability)> {
        let Prepared { purpose, operation } = queue.take_startable()?;
        let Purpose::RequestWrite { request, stands_for } = purpose else { panic!("{purpose:?}") };
        let DeviceOperation::Write { durability, .. } = operation else { panic!("{operation:?}") };
        Some((request.0, stands_for.into_iter().map(|slot| slot.0).collect(), durability))
    }

    #[test]
    fn the_last_waiting_write_replaces_earlier_ones_of_its_bytes() {
        use Durability::{Durable, Volatile};
        let mut queue = OriginQueue::new();
        let mut tickets = alloc::vec![write(&mut queue, 1, blocks(0, 1), Volatile)];
        assert_eq!(next(&mut queue), Some((1, alloc::vec![], Volatile)));
        for (number, count, durability) in [(2, 1, Volatile), (3, 1, Durable), (4, 2, Volatile)] {
            tickets.push(write(&mut queue, number, blocks(0, count), durability));
        }
        let other = write(&mut queue, 5, blocks(8, 1), Volatile);
        let late = queue.enqueue(ask(0, OriginAccess::Read));
        ready(&mut queue, late);
        assert_eq!(next(&mut queue), Some((5, alloc::vec![], Volatile)));
        assert_eq!(next(&mut queue), None, "one write of a block is in flight");
        queue.release(tickets[0]);
        assert_eq!(next(&mut queue), Some((4, alloc::vec![2, 3], Durable)));
        assert!(queue.take_startable().is_none());
        [other].iter().chain(&tickets[1..]).for_each(|ticket| queue.release(*ticket));
        assert!(queue.take_startable().is_some(), "the read behind them all");
        queue.release(late);
        assert!(queue.is_empty() && queue.in_flight == 0);
    }

    #[test]
    fn writes_that_failed_together_go_one_after_the_other() {
        let mut queue = OriginQueue::new();
        let volatile = Durability::Volatile;
        let tickets = [1, 2].map(|number| write(&mut queue, number, blocks(0, 1), volatile));
        assert_eq!(next(&mut queue), Some((2, alloc::vec![1], volatile)));
        let late = write(&mut queue, 3, blocks(0, 1), volatile);
        for (ticket, number) in tickets.into_iter().zip(1..) {
            queue.set_apart(ticket);
            prepare(&mut queue, ticket, number, blocks(0, 1), volatile);
        }
        for (number, ticket) in (1..).zip([tickets[0], tickets[1], late]) {
            assert_eq!(next(&mut queue), Some((number, alloc::vec![], volatile)));
            assert_eq!(next(&mut queue), None);
            queue.release(ticket);
        }
        assert!(queue.is_empty() && queue.in_flight == 0);
    }

    #[test]
    fn a_write_replaces_no_larger_or_separate_write() {
        let alone = |number| Some((number, Vec::new(), Durability::Volatile));
        let cases: [fn(&mut OriginQueue); 4] = [
            |queue| _ = write(queue, 2, blocks(1, 1), Durability::Volatile),
            |queue| {
                queue.enqueue(ask(4096, OriginAccess::Read));
                write(queue, 2, blocks(0, 2), Durability::Volatile);
            },
            |queue| {
                queue.enqueue(ask(8192, OriginAccess::Write));
                write(queue, 2, blocks(0, 3), Durability::Volatile);
            },
            |queue| _ = queue.enqueue(ask(0, OriginAccess::Write)),
        ];
        for (at, follow) in cases.into_iter().enumerate() {
            let mut queue = OriginQueue::new();
            write(&mut queue, 1, blocks(0, 2), Durability::Volatile);
            follow(&mut queue);
            assert_eq!((next(&mut queue), next(&mut queue)), (alone(1), None), "case {at}");
        }
    }
}
