//! The purpose of a submission.

use alloc::vec::Vec;
use core::fmt;

use crate::device::DeviceOperation;
use crate::format::redo::RedoTail;
use crate::ids::{BatchSlot, FillSlot, RequestSlot, Ticket, WritebackSlot};
use crate::inflight::applying::{ApplyWrite, ChunkPart};
use crate::request::Durability;
use crate::time::Instant;
use crate::units::{BlockIndex, BlockKey, ByteExtent, Location, PageIndex, SegmentIndex, Sequence, VolumeId};

/// A submission that is ready: its operation and its purpose.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) purpose: Purpose,
    pub(crate) operation: DeviceOperation,
}

impl Prepared {
    /// Whether it is the origin's part of a write with bytes of a client.
    pub(crate) const fn is_client_write(&self) -> bool {
        matches!(
            (&self.purpose, &self.operation),
            (Purpose::RequestWrite { .. }, DeviceOperation::Write { .. })
        )
    }

    /// Replaces this write by a later client's write, which contains all of its bytes. The result is as durable as
    /// either write must be.
    pub(crate) fn overtaken_by(self, mut later: Prepared) -> Prepared {
        if let (
            Purpose::RequestWrite { request, stands_for: mut before },
            Purpose::RequestWrite { stands_for, .. },
        ) = (self.purpose, &mut later.purpose)
        {
            debug_assert!(stands_for.is_empty(), "a write that is not submitted replaces no other write yet");
            before.push(request);
            *stands_for = before;
        }
        if let (
            DeviceOperation::Write { durability: Durability::Durable, .. },
            DeviceOperation::Write { durability, .. },
        ) = (self.operation, &mut later.operation)
            && !mutant!(OvertakenVolatile)
        {
            *durability = Durability::Durable;
        }
        later
    }
}

/// Whole blocks that are adjacent on the cache device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HitRun {
    pub(crate) first: BlockKey,
    pub(crate) location: Location,
    pub(crate) count: u32,
}

/// A block that is read from the cache device into a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PagedBlock {
    pub(crate) key: BlockKey,
    pub(crate) location: Location,
    pub(crate) page: PageIndex,
}

/// The rest of a partial block, read from the origin into a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OriginRest {
    pub(crate) block: BlockIndex,
    pub(crate) page: PageIndex,
    pub(crate) ticket: Ticket,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OriginRead {
    pub(crate) ticket: Ticket,
    pub(crate) extent: ByteExtent,
}

/// A part of a cache read for writebacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WritebackPart {
    /// The block of this number of a writeback.
    Block { writeback: WritebackSlot, number: u32 },
    /// A block that is read and not used.
    Between(PageIndex),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Whole blocks for a read.
    Hit { request: RequestSlot, run: HitRun, begun: Instant },
    /// A block for a read that needs a part.
    HitPart { request: RequestSlot, block: PagedBlock, extent: ByteExtent },
    /// Clean cached blocks, read from the origin.
    Shared { request: RequestSlot, part: OriginRead },
    /// A read that bypasses the cache.
    Direct { request: RequestSlot, part: OriginRead },
    /// The origin read of a fill.
    Fill { fill: FillSlot },
    /// The rest of a partial block, from the cache.
    MergeCached { request: RequestSlot, block: PagedBlock },
    /// The rest of a partial block, from the origin.
    MergeOrigin { request: RequestSlot, rest: OriginRest },
    /// A partial block, completed.
    Merged { request: RequestSlot, block: BlockIndex, page: PageIndex },
    /// The origin's part of a write, and of the writes that it replaces, oldest first.
    RequestWrite { request: RequestSlot, stands_for: Vec<RequestSlot> },
    /// A discard of a request at the origin.
    Discard { request: RequestSlot },
    /// A batch.
    Batch { batch: BatchSlot },
    /// A journal block with records.
    Journal { block: u64, sequences: Vec<Sequence> },
    /// A summary.
    Summary { segment: SegmentIndex },
    /// A discard of an empty segment.
    SegmentDiscard { segment: SegmentIndex },
    /// A flush of the cache device.
    CacheFlush,
    /// A flush of an origin.
    OriginFlush { volume: VolumeId },
    /// A read of a stretch of the cache device with blocks for writebacks.
    WritebackRead { parts: Vec<WritebackPart> },
    /// The write of a writeback.
    WritebackWrite { writeback: WritebackSlot },
    /// Live blocks of a segment that reclaim moves.
    Reinsert { first: Location, pages: Vec<PageIndex> },
    /// A probe of the superblock.
    Probe,
    /// A chunk of a checkpoint.
    Checkpoint { block: u64 },
    /// A service mark.
    Mark { copy: u8 },
    /// The host records that the cache device is out of service.
    Note,
    /// A step of recovery.
    Recovery(RecoveryRead),
    /// Members of a chunk of a cut, by their places in the chunk, read from the cache device.
    CutRead { chunk: usize, blocks: Vec<usize> },
    /// A chunk of a cut, written to the redo journal.
    RedoChunk { chunk: usize },
    /// A flush of the redo journal.
    RedoFlush,
    /// The commit of a cut.
    RedoCommit,
    /// A tail of the redo journal.
    RedoTail(RedoTail),
    /// A part of a chunk, read from the redo journal.
    ApplyRead(ChunkPart),
    /// Blocks of a group, written to an origin.
    ApplyWrite(ApplyWrite),
    /// A flush of an origin after the writes of a group.
    ApplyFlush { volume: VolumeId },
}

impl Purpose {
    /// Whether cached blocks are read from the cache device.
    pub(crate) const fn reads_cached_blocks(&self) -> bool {
        matches!(
            self,
            Purpose::Hit { .. }
                | Purpose::HitPart { .. }
                | Purpose::MergeCached { .. }
                | Purpose::WritebackRead { .. }
                | Purpose::Reinsert { .. }
                | Purpose::CutRead { .. }
        )
    }
}

/// The step of recovery that a submission belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecoveryRead {
    /// The flush before all reads.
    Flush,
    /// A stretch of the journal.
    Journal(ByteExtent),
    /// The summary of a segment.
    Summary(SegmentIndex),
    /// A segment up to its summary.
    Scan(SegmentIndex),
    /// The first block of a segment.
    First(SegmentIndex),
    /// A single block of an extent.
    Block(u32),
    /// The write of a summary that was missing or not usable.
    Seal(SegmentIndex),
    /// Zeroes over a torn journal block.
    Erase,
}

impl fmt::Display for RecoveryRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoveryRead::Flush => write!(f, "a flush"),
            RecoveryRead::Journal(_) => write!(f, "a read of its journal"),
            RecoveryRead::Summary(segment) => write!(f, "a read of the summary of segment {}", segment.get()),
            RecoveryRead::Scan(segment) => write!(f, "a read of segment {}", segment.get()),
            RecoveryRead::First(segment) => {
                write!(f, "a read of the first block of segment {}", segment.get())
            }
            RecoveryRead::Block(number) => write!(f, "a read of block {number} alone"),
            RecoveryRead::Seal(segment) => write!(f, "a write of the summary of segment {}", segment.get()),
            RecoveryRead::Erase => write!(f, "a write of its journal"),
        }
    }
}
