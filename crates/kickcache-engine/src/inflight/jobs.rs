//! Work of the engine itself that is done in pieces: reclaim, checkpoint, the end.

use alloc::vec::Vec;

use crate::format::geometry::Geometry;
use crate::format::journal::SegmentImage;
use crate::order::FlushCount;
use crate::policy::retention::Reason;
use crate::policy::shift::Shift;
use crate::time::Instant;
use crate::units::{Location, SegmentIndex, Sequence};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Emptying {
    pub(crate) segment: SegmentIndex,
    pub(crate) reason: Reason,
    /// Reads in flight of blocks that are moved.
    pub(crate) reads_in_flight: u32,
    /// A read of a single block of this segment failed.
    pub(crate) has_failed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Reclaim {
    pub(crate) emptying: Vec<Emptying>,
    /// Empty segments without a record of their next opening.
    pub(crate) emptied: Vec<SegmentIndex>,
    /// Segments on the way from `emptied` to ready.
    pub(crate) opening: usize,
    /// Live blocks that the next run of reclaim treats again.
    pub(crate) postponed: Vec<Location>,
    /// Reclaim empties no further segment before this time.
    pub(crate) rest_until: Option<Instant>,
    /// The time since which clients have waited for room.
    pub(crate) starved_since: Option<Instant>,
    /// A discard of the cache device failed: no other is submitted.
    pub(crate) cannot_discard: bool,
    /// No segment below this one is free, except segments in `emptied` and on the way to ready.
    pub(crate) first_free: u32,
    /// Reclaim continues until the upper mark is reached.
    pub(crate) active: bool,
    /// The shift of the working set in progress.
    pub(crate) shift: Shift,
}

/// Whether batches may follow a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Position {
    /// Requests continue.
    Between,
    /// The engine ends with this checkpoint.
    Last,
}

#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(crate) position: Position,
    /// The layout when the checkpoint began.
    pub(crate) geometry: Geometry,
    pub(crate) start: Sequence,
    /// Number of the journal block at which the checkpoint began.
    pub(crate) ring: u64,
    pub(crate) next: u32,
    /// Chunks snapped and not written.
    pub(crate) snapped: Vec<(u32, Vec<SegmentImage>)>,
    pub(crate) writes_in_flight: u32,
    /// Chunks that the device has completed without an error.
    pub(crate) landed: u32,
    /// The flush count at the end of the last write.
    pub(crate) landed_at: FlushCount,
    /// All chunks are written.
    pub(crate) finishing: bool,
    /// A batch failed: the snapped chunks may be outdated.
    pub(crate) is_outdated: bool,
    /// The checkpoint declares blocks clean that have no *clean* record.
    pub(crate) tells_clean: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    No,
    /// Requests, fills and writebacks run to their end.
    Draining,
    /// The origins are flushed.
    FlushingOrigins,
    /// Open segments get their summaries.
    WritingSummaries,
    /// The last checkpoint is written.
    Checkpointing,
    /// The last records and batches become durable.
    MakingDurable,
    Done,
}
