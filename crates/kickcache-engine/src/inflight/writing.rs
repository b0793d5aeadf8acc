//! A write in flight: its route, how far it has come, and what it has on its way.

use alloc::vec::Vec;

use crate::cache::BlockCopy;
use crate::ids::Ticket;
use crate::inflight::blocks::{block_extent, intersection};
use crate::policy::offload;
use crate::request::{Durability, Operation, Unmap};
use crate::task::Task;
use crate::time::Instant;
use crate::units::{BLOCK_SIZE, BlockIndex, ByteExtent, Checksum, PageIndex};

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
    /// To the origin alone, durably; then what the log holds of it that the origin lacked is *gone*.
    Supersede,
    /// To the origin alone, partial blocks merged: the cache device is out of service.
    Through,
}

impl Route {
    /// Whether the origin has the write as it is, and the log nothing of it.
    pub(crate) const fn passes_log(self) -> bool {
        matches!(self, Route::Around | Route::Supersede)
    }
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
    /// It stays: the log had something before that the origin has, but had not flushed; or a client has read it.
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

/// A write on its way into the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Logging {
    /// Whether it goes on to the origin.
    pub(crate) route: Route,
    /// Its place in the origin's queue, once all of its blocks are in the log.
    pub(crate) ticket: Option<Ticket>,
    /// What the log took.
    pub(crate) taken: Taken,
}

/// A write that the origin has, or that waits for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OriginTurn {
    /// How it came there.
    pub(crate) route: Route,
    /// Its place in the origin's queue.
    pub(crate) ticket: Ticket,
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
    Logging(Logging),
    /// The origin writes it.
    AtOrigin(OriginTurn),
    /// The origin refused it: what it put into the log is forgotten.
    Undoing {
        /// It keeps its place in the origin's queue until then.
        ticket: Ticket,
    },
    /// The origin has it durably: what the log has that is older is forgotten.
    Superseding {
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
    /// Batches that had failed when it made the log durable.
    pub(crate) failed_batches: u32,
    /// What waits until the origin ended it.
    pub(crate) afterwards: Vec<Task>,
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
            failed_batches: 0,
            afterwards: Vec::new(),
            metered: None,
        })
    }

    /// Whether it goes through the log to the origin, and is on its way there, or what it put into the log is yet to be forgotten.
    pub(crate) fn is_through_log(&self) -> bool {
        match self.phase {
            WritePhase::Logging(Logging { route, .. }) | WritePhase::AtOrigin(OriginTurn { route, .. }) => {
                route == Route::LogThrough
            }
            WritePhase::Undoing { .. } => true,
            WritePhase::Arrived
            | WritePhase::Merging { .. }
            | WritePhase::Superseding { .. }
            | WritePhase::Ended => false,
        }
    }

    /// Its place in the origin's queue, if it has one.
    pub(crate) fn place(&self) -> Option<Ticket> {
        match self.phase {
            WritePhase::Logging(logging) => logging.ticket,
            WritePhase::AtOrigin(OriginTurn { ticket, .. })
            | WritePhase::Undoing { ticket }
            | WritePhase::Superseding { ticket } => Some(ticket),
            WritePhase::Arrived | WritePhase::Merging { .. } | WritePhase::Ended => None,
        }
    }

    /// How it came to the origin, and its place in the origin's queue.
    ///
    /// # Panics
    /// If it is not there.
    pub(crate) fn at_origin(&self) -> OriginTurn {
        let WritePhase::AtOrigin(turn) = self.phase else { panic!("not at the origin: {:?}", self.phase) };
        turn
    }

    /// The log cannot take all of it.
    pub(crate) fn note_part(&mut self) {
        if let WritePhase::Logging(logging) = &mut self.phase {
            logging.taken = Taken::Part;
        }
    }

    /// The copies in the log that would not be there but for this write.
    pub(crate) fn own_copies(&self) -> Vec<BlockCopy> {
        let is_own = |written: &&Written| match written.if_refused {
            IfRefused::Forgotten => true,
            IfRefused::StaysUnflushed => mutant!(KeptForgotten),
            IfRefused::StaysDirty => mutant!(OlderDirtyForgotten),
        };
        self.written.iter().filter(is_own).map(|written| written.copy).collect()
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
