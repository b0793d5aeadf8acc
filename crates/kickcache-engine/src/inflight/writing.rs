//! A write in flight.

use alloc::vec::Vec;

use crate::cache::BlockCopy;
use crate::ids::Ticket;
use crate::inflight::blocks::{block_extent, intersection};
use crate::policy::offload;
use crate::request::{Durability, Operation, Unmap};
use crate::task::Task;
use crate::time::Instant;
use crate::units::{BLOCK_SIZE, BlockIndex, ByteExtent, Checksum, PageIndex};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriteData {
    /// The request's memory.
    Payload,
    /// Zeroes.
    Zeroes,
}

/// A partial block that was completed to a whole one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Merged {
    pub(crate) block: BlockIndex,
    pub(crate) page: PageIndex,
    pub(crate) checksum: Checksum,
}

/// The route of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// Into the log alone.
    Log,
    /// Into the log, then to the origin.
    LogThrough,
    /// To the origin only; the cached blocks of the extent are dropped before.
    Around,
    /// To the origin only, durably; the dirty and unflushed blocks of the log are dropped after.
    Supersede,
    /// To the origin only: the cache device is out of service.
    Through,
}

impl Route {
    /// Whether the origin receives the write unchanged, and the log stores no part.
    pub(crate) const fn passes_log(self) -> bool {
        matches!(self, Route::Around | Route::Supersede)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Written {
    pub(crate) copy: BlockCopy,
    pub(crate) if_refused: IfRefused,
}

/// The fate of a block in the log if the origin refuses its write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IfRefused {
    /// The block stays dirty.
    StaysDirty,
    /// The block stays, unflushed.
    StaysUnflushed,
    /// The block is dropped.
    Forgotten,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LoggedPart {
    /// All blocks.
    All,
    /// Not all blocks.
    Part,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Logging {
    pub(crate) route: Route,
    /// The write's place in the origin's queue, if it has one.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) taken: LoggedPart,
}

/// A write with a place in the origin's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OriginTurn {
    pub(crate) route: Route,
    /// The write's place in the origin's queue.
    pub(crate) ticket: Ticket,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WritePhase {
    /// No step of the current part is done yet.
    Arrived,
    /// Partial blocks are completed.
    Merging {
        /// The route after the partial blocks are complete.
        route: Route,
    },
    /// The blocks of the write join the log, or wait for their batches to land.
    Logging(Logging),
    /// The origin executes the write, or the write waits for that.
    AtOrigin(OriginTurn),
    /// The origin refused the write: its blocks in the log are dropped.
    Undoing {
        /// The write keeps this place in the origin's queue until its blocks are dropped.
        ticket: Ticket,
    },
    /// The origin has the write durably: older blocks in the log are dropped.
    Superseding {
        /// The write keeps this place in the origin's queue until the older blocks are dropped.
        ticket: Ticket,
    },
    /// The part is done at the origin, or failed.
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Metered {
    pub(crate) source: offload::ServedBy,
    /// When the write began, by the cache device's time.
    pub(crate) begun: Instant,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Writing {
    pub(crate) phase: WritePhase,
    pub(crate) source: WriteData,
    pub(crate) durability: Durability,
    pub(crate) unmap: Unmap,
    /// The part of the request in progress.
    pub(crate) extent: ByteExtent,
    /// Checksums of the whole blocks of the payload.
    pub(crate) checksums: Vec<Checksum>,
    pub(crate) merged: Vec<Merged>,
    /// The write's blocks in the log, in order.
    pub(crate) written: Vec<Written>,
    /// Batches that had failed when the write last requested that the log becomes durable.
    pub(crate) failed_batches: u32,
    /// Tasks for the time when the write has ended at the origin, or begins again.
    pub(crate) afterwards: Vec<Task>,
    pub(crate) metered: Option<Metered>,
}

impl Writing {
    /// A write that just arrived; `None` for other operations.
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

    /// Whether the write uses the log and then the origin, and is not complete there, or its blocks in the log are
    /// still to be dropped.
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

    /// The write's place in the origin's queue, if it has one.
    pub(crate) fn place(&self) -> Option<Ticket> {
        match self.phase {
            WritePhase::Logging(logging) => logging.ticket,
            WritePhase::AtOrigin(OriginTurn { ticket, .. })
            | WritePhase::Undoing { ticket }
            | WritePhase::Superseding { ticket } => Some(ticket),
            WritePhase::Arrived | WritePhase::Merging { .. } | WritePhase::Ended => None,
        }
    }

    /// The route to the origin, and the place in its queue.
    ///
    /// # Panics
    /// If it is not at the origin.
    pub(crate) fn at_origin(&self) -> OriginTurn {
        let WritePhase::AtOrigin(turn) = self.phase else { panic!("not at the origin: {:?}", self.phase) };
        turn
    }

    /// The log cannot take or keep all blocks.
    pub(crate) fn note_part(&mut self) {
        if let WritePhase::Logging(logging) = &mut self.phase {
            logging.taken = LoggedPart::Part;
        }
    }

    /// The copies in the log that exist only because of this write.
    pub(crate) fn own_copies(&self) -> Vec<BlockCopy> {
        let is_own = |written: &&Written| match written.if_refused {
            IfRefused::Forgotten => true,
            IfRefused::StaysUnflushed => mutant!(KeptForgotten),
            IfRefused::StaysDirty => mutant!(OlderDirtyForgotten),
        };
        self.written.iter().filter(is_own).map(|written| written.copy).collect()
    }

    pub(crate) fn merged(&self, block: BlockIndex) -> Option<&Merged> {
        self.merged.iter().find(|merged| merged.block == block)
    }

    /// Blocks that the current part covers only partly: none, one or two.
    pub(crate) fn partial_blocks(&self) -> impl Iterator<Item = BlockIndex> + use<> {
        let extent = self.extent;
        let first = BlockIndex::containing(extent.start);
        let last = BlockIndex::containing(extent.end() - 1);
        let is_partial =
            move |block: &BlockIndex| intersection(extent, block_extent(*block)).length < BLOCK_SIZE;
        [Some(first), (last != first).then_some(last)].into_iter().flatten().filter(is_partial)
    }
}
