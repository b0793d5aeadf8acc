//! The requests in flight, each with what it waits for.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::cache::BlockCopy;
use crate::device::DeviceOperation;
use crate::ids::{RequestSlot, Ticket};
use crate::inflight::slab::Slab;
use crate::policy::offload;
use crate::request::{Durability, Errno, Operation, ReadFrom, Reply, Request, RequestId, Unmap};
use crate::time::Instant;
use crate::units::{BLOCK_SIZE, BlockIndex, BlockKey, ByteExtent, Checksum, Location, PageIndex, VolumeId};

/// Where the data of a write comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriteData {
    /// The request's memory.
    Payload,
    /// The zero page.
    Zeroes,
}

/// A partial block on its way to becoming a whole one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Merged {
    pub(crate) block: BlockIndex,
    pub(crate) page: PageIndex,
    pub(crate) checksum: Checksum,
}

/// Which way a write goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// Into the log alone.
    Log,
    /// Into the log, then to the origin.
    LogThrough,
    /// To the origin alone, after what is cached of it is *gone*.
    Around,
    /// To the origin alone, partial blocks merged: the cache device is out of service.
    Through,
}

/// A block that a write put into the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Written {
    pub(crate) copy: BlockCopy,
    /// What becomes of it if the origin refuses the write.
    pub(crate) if_refused: IfRefused,
}

/// What becomes of a block in the log if the origin refuses its write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IfRefused {
    /// It stays: the log had something before that the origin lacked.
    StaysDirty,
    /// It stays: the log had something before that the origin has, but had not flushed.
    StaysUnflushed,
    /// It is forgotten, durably, before the client is told.
    Forgotten,
}

/// How much of a write the log took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// All of it, so far.
    All,
    /// It could not take all of it: the origin must.
    Part,
}

/// How far a write has come, and what it has on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WritePhase {
    /// Nothing is done yet.
    Arrived,
    /// Partial blocks are completed.
    Merging {
        /// Where it goes then.
        route: Route,
    },
    /// Its blocks join the log, or wait for their batches to land.
    Logging {
        /// Whether it goes on to the origin.
        route: Route,
        /// Its place in the origin's queue, once all of its blocks are in the log.
        ticket: Option<Ticket>,
        /// What the log took.
        taken: Taken,
    },
    /// The origin writes it.
    AtOrigin {
        /// How it came there.
        route: Route,
        /// Its place in the origin's queue.
        ticket: Ticket,
    },
    /// The origin refused it: what it put into the log is forgotten.
    Undoing {
        /// It keeps its place in the origin's queue until then.
        ticket: Ticket,
    },
    /// All is done but the reply.
    Ended,
}

/// A long write that a device is busy with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Metered {
    pub(crate) source: offload::ServedBy,
    /// When it set out, by the cache device's time.
    pub(crate) begun: Instant,
}

/// State of a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Writing {
    pub(crate) phase: WritePhase,
    pub(crate) source: WriteData,
    pub(crate) durability: Durability,
    pub(crate) unmap: Unmap,
    /// The part of the request that is under way; the whole of it but for long ones.
    pub(crate) extent: ByteExtent,
    /// Checksums of the whole blocks of the request's payload.
    pub(crate) checksums: Vec<Checksum>,
    pub(crate) merged: Vec<Merged>,
    /// Its blocks in the log, in order.
    pub(crate) written: Vec<Written>,
    /// Copies of an earlier try that would not be in the log but for this write.
    pub(crate) earlier: Vec<BlockCopy>,
    /// The device that a long write is counted for while it is under way.
    pub(crate) metered: Option<Metered>,
}

impl Writing {
    /// A write that just arrived.
    pub(crate) fn new(operation: Operation, extent: ByteExtent, checksums: &[Checksum]) -> Option<Writing> {
        let (source, durability, unmap) = match operation {
            Operation::Write(durability) => (WriteData::Payload, durability, Unmap::Forbid),
            Operation::WriteZeroes { unmap, durability } => (WriteData::Zeroes, durability, unmap),
            Operation::Read | Operation::Flush | Operation::Discard | Operation::Promote => return None,
        };
        Some(Writing {
            phase: WritePhase::Arrived,
            source,
            durability,
            unmap,
            extent,
            checksums: checksums.to_vec(),
            merged: Vec::new(),
            written: Vec::new(),
            earlier: Vec::new(),
            metered: None,
        })
    }

    /// Whether it goes through the log to the origin, and is on its way there.
    pub(crate) fn is_through_log(&self) -> bool {
        let (WritePhase::Logging { route, .. } | WritePhase::AtOrigin { route, .. }) = self.phase else {
            return false;
        };
        route == Route::LogThrough
    }

    /// Whether it has a place in the origin's queue.
    pub(crate) fn has_place(&self) -> bool {
        match self.phase {
            WritePhase::Logging { ticket, .. } => ticket.is_some(),
            WritePhase::AtOrigin { .. } | WritePhase::Undoing { .. } => true,
            WritePhase::Arrived | WritePhase::Merging { .. } | WritePhase::Ended => false,
        }
    }

    /// How it came to the origin, and its place in the origin's queue.
    ///
    /// # Panics
    /// If it is not there.
    pub(crate) fn at_origin(&self) -> (Route, Ticket) {
        let WritePhase::AtOrigin { route, ticket } = self.phase else {
            panic!("not at the origin: {:?}", self.phase)
        };
        (route, ticket)
    }

    /// The log cannot take all of it.
    pub(crate) fn note_part(&mut self) {
        if let WritePhase::Logging { taken, .. } = &mut self.phase {
            *taken = Taken::Part;
        }
    }

    /// Remembers which copies in the log would not be there but for this write.
    pub(crate) fn remember_own(&mut self) {
        let is_own = |written: &&Written| written.if_refused == IfRefused::Forgotten;
        self.earlier.extend(self.written.iter().filter(is_own).map(|written| written.copy));
    }

    /// The completed block, if it was a partial one.
    pub(crate) fn merged(&self, block: BlockIndex) -> Option<&Merged> {
        self.merged.iter().find(|merged| merged.block == block)
    }

    /// Blocks that the part under way covers only partly: none, one or two.
    pub(crate) fn partial_blocks(&self) -> impl Iterator<Item = BlockIndex> + use<> {
        let extent = self.extent;
        let first = BlockIndex::containing(extent.start);
        let last = BlockIndex::containing(extent.end() - 1);
        let is_partial =
            move |block: &BlockIndex| intersection(extent, block_extent(*block)).length < BLOCK_SIZE;
        [Some(first), (last != first).then_some(last)].into_iter().flatten().filter(is_partial)
    }
}

/// What a request does at the moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Reads, flushes: only counts what is pending.
    Simple,
    /// A write or write-zeroes.
    Write(Box<Writing>),
    /// A long job (discard, promote): done up to this byte of the volume.
    Cursor {
        /// Next byte.
        next: u64,
        /// The origin access of the part under way.
        ticket: Option<Ticket>,
    },
}

/// A request in flight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pending {
    pub(crate) id: RequestId,
    pub(crate) volume: VolumeId,
    pub(crate) operation: Operation,
    pub(crate) extent: ByteExtent,
    /// Things that must end before the request can go on.
    pub(crate) pending_count: u32,
    pub(crate) error: Option<Errno>,
    pub(crate) read_from: ReadFrom,
    pub(crate) origin_part: OriginPart,
    pub(crate) stage: Stage,
}

/// What the origin has of a write that is not answered yet, and of which the log has no copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OriginPart {
    /// Nothing, or what is durable.
    None,
    /// A part that its next flush makes durable.
    Volatile,
    /// A part that it let go of: a flush failed. Clients that wait for flushes were told, and this one must not hear that all
    /// is well afterwards.
    LetGo,
}

/// A part of a discard that waits until its *gone* records are durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WaitingDiscard {
    pub(crate) slot: RequestSlot,
    /// What the origin is asked then.
    pub(crate) operation: DeviceOperation,
    /// What it made the cache forget that the origin lacks.
    pub(crate) forgotten: Vec<(BlockKey, Location)>,
}

impl Pending {
    /// Something that it waited for failed; the first error is the client's.
    pub(crate) fn fail(&mut self, errno: Errno) {
        self.error.get_or_insert(errno);
    }

    /// How it ends.
    pub(crate) fn result(&self) -> Result<(), Errno> {
        match (self.error, self.origin_part) {
            (Some(errno), _) => Err(errno),
            (None, OriginPart::LetGo) => Err(Errno::Io),
            (None, OriginPart::None | OriginPart::Volatile) => Ok(()),
        }
    }

    /// The write state.
    ///
    /// # Panics
    /// If the request is not a write: only the write path asks.
    pub(crate) fn writing(&mut self) -> &mut Writing {
        let Stage::Write(writing) = &mut self.stage else { panic!("not a write: {:?}", self.operation) };
        writing
    }
}

/// The blocks that an extent touches.
pub(crate) fn blocks_of(
    extent: ByteExtent,
) -> impl DoubleEndedIterator<Item = BlockIndex> + ExactSizeIterator {
    let first = extent.start / BLOCK_SIZE;
    let count = extent.end().div_ceil(BLOCK_SIZE) - first;
    (0..usize::try_from(count).expect("fits the address space"))
        .map(move |offset| BlockIndex::new(first + offset as u64))
}

/// The bytes of a block.
pub(crate) const fn block_extent(block: BlockIndex) -> ByteExtent {
    ByteExtent { start: block.byte_offset(), length: BLOCK_SIZE }
}

/// What two extents have in common.
pub(crate) fn intersection(one: ByteExtent, other: ByteExtent) -> ByteExtent {
    let start = one.start.max(other.start);
    let end = one.end().min(other.end());
    ByteExtent { start, length: end.saturating_sub(start) }
}

/// The requests in flight.
#[derive(Debug)]
pub(crate) struct Requests {
    table: Slab<Pending>,
    /// Parts of discards whose *gone* records are on the way.
    discards: Vec<WaitingDiscard>,
    /// Writes through the log that have not ended at the origin.
    pub(crate) through_count: u32,
    /// For those that ended.
    replies: VecDeque<Reply>,
}

impl Requests {
    pub(crate) const fn new() -> Requests {
        Requests { table: Slab::new(), discards: Vec::new(), through_count: 0, replies: VecDeque::new() }
    }

    pub(crate) fn insert(&mut self, request: &Request<'_>) -> RequestSlot {
        RequestSlot(self.table.insert(Pending {
            id: request.id,
            volume: request.volume,
            operation: request.operation,
            extent: request.extent,
            pending_count: 0,
            error: None,
            read_from: ReadFrom::Cache,
            origin_part: OriginPart::None,
            stage: Stage::Simple,
        }))
    }

    /// A flush of an origin failed: what it has of writes under way may be gone.
    pub(crate) fn let_go(&mut self, volume: VolumeId) {
        let is_volatile =
            |pending: &&mut Pending| pending.volume == volume && pending.origin_part == OriginPart::Volatile;
        self.iter_mut().filter(is_volatile).for_each(|pending| pending.origin_part = OriginPart::LetGo);
    }

    pub(crate) fn remove(&mut self, slot: RequestSlot) -> Pending {
        self.table.remove(slot.0).expect("a request ends once")
    }

    pub(crate) fn get(&self, slot: RequestSlot) -> &Pending {
        self.table.get(slot.0).expect("a request in flight")
    }

    pub(crate) fn get_mut(&mut self, slot: RequestSlot) -> &mut Pending {
        self.table.get_mut(slot.0).expect("a request in flight")
    }

    /// One thing more that a request waits for.
    pub(crate) fn add_pending(&mut self, slot: RequestSlot) {
        self.get_mut(slot).pending_count += 1;
    }

    /// A part of a discard waits for its records.
    pub(crate) fn wait_discard(&mut self, discard: WaitingDiscard) {
        self.discards.push(discard);
    }

    /// It waits no more.
    pub(crate) fn take_discard(&mut self, slot: RequestSlot) -> WaitingDiscard {
        let at = self.discards.iter().position(|waiting| waiting.slot == slot).expect("the part is waiting");
        self.discards.swap_remove(at)
    }

    /// A request ended.
    pub(crate) fn reply(&mut self, reply: Reply) {
        self.replies.push_back(reply);
    }

    /// The next reply for a client.
    pub(crate) fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.table.iter().map(|(_, pending)| pending)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Pending> {
        self.table.iter_mut().map(|(_, pending)| pending)
    }

    pub(crate) fn count_for(&self, volume: VolumeId) -> u64 {
        self.table.iter().filter(|(_, pending)| pending.volume == volume).count() as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_ends_with_an_error_if_the_origin_let_go_of_its_part_before_it_was_answered() {
        let mut requests = Requests::new();
        let mut insert = |volume, part| {
            let extent = ByteExtent { start: 0, length: BLOCK_SIZE };
            let operation = Operation::Write(Durability::Volatile);
            let volume = VolumeId::new(volume);
            let slot = requests.insert(&Request {
                id: RequestId::new(1),
                volume,
                operation,
                extent,
                checksums: &[],
            });
            requests.get_mut(slot).origin_part = part;
            slot
        };
        let slots = [(1, OriginPart::Volatile), (1, OriginPart::None), (2, OriginPart::Volatile)]
            .map(|(volume, part)| insert(volume, part));
        requests.let_go(VolumeId::new(1));
        let results = slots.map(|slot| requests.get(slot).result());
        assert_eq!(results, [Err(Errno::Io), Ok(()), Ok(())]);
    }
}
