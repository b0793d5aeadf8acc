//! Work of the engine's own that goes on in pieces: reclaim, checkpoint, recovery.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::device::DeviceOperation;
use crate::error::Error;
use crate::format::batch::BatchHeader;
use crate::format::durable_range::DurableRange;
use crate::format::journal::{Record, SegmentImage};
use crate::format::summary::{Summary, SummaryEntry};
use crate::ids::RequestSlot;
use crate::policy::retention::Reason;
use crate::policy::trial::Trial;
use crate::time::Instant;
use crate::units::{BlockKey, Location, SegmentIndex, Sequence};

/// A segment that reclaim empties.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Emptying {
    pub(crate) segment: SegmentIndex,
    pub(crate) reason: Reason,
    /// Reads of blocks to carry on that are in flight.
    pub(crate) reads_in_flight: u32,
    /// The cache device answered one of them with an error.
    pub(crate) has_failed: bool,
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

/// Reclaim's state.
#[derive(Debug, Default)]
pub(crate) struct Reclaim {
    pub(crate) emptying: Vec<Emptying>,
    /// Empty segments whose next opening is not yet on record.
    pub(crate) emptied: Vec<SegmentIndex>,
    /// Openings are on their way into the journal.
    pub(crate) opening: usize,
    /// Blocks to carry on for which there was no memory or no room.
    pub(crate) postponed: Vec<Location>,
    /// No segment is emptied before: the cache device answered a read with an error.
    pub(crate) rest_until: Option<Instant>,
    /// Since when clients have waited for room.
    pub(crate) starved_since: Option<Instant>,
    /// Reclaim goes on until the upper mark is reached.
    pub(crate) active: bool,
    /// Segments of main that must show that they are used.
    pub(crate) trial: Trial,
}

/// Whether batches may follow a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Position {
    /// Work goes on.
    Between,
    /// The engine ends with it.
    Last,
}

/// A checkpoint under way.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(crate) position: Position,
    pub(crate) start: Sequence,
    /// Number of the journal block at which it began.
    pub(crate) ring: u64,
    /// Next chunk to snap.
    pub(crate) next: u32,
    /// Chunks snapped and not written.
    pub(crate) snapped: Vec<(u32, Vec<SegmentImage>)>,
    pub(crate) writes_in_flight: u32,
    /// All chunks are written; their flush is awaited.
    pub(crate) finishing: bool,
    /// A batch was lost since the chunks were snapped: what they call dead may be the block again.
    pub(crate) is_outdated: bool,
}

/// What recovery knows so far.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    pub(crate) reads_in_flight: u32,
    /// Next byte of the journal to read.
    pub(crate) journal_at: u64,
    /// Chunks of checkpoints found, by start and number, each with its journal block.
    pub(crate) chunks: BTreeMap<(Sequence, u32), (u64, Vec<SegmentImage>)>,
    /// All records found, each with its journal block.
    pub(crate) records: Vec<(u64, Record)>,
    /// The newest sequence number seen.
    pub(crate) newest: Sequence,
    /// What was durable, by the first sequence number of each life, as far as anything found tells.
    pub(crate) durable: BTreeMap<Sequence, DurableRange>,
    /// The segments as the newest whole checkpoint and the records tell them.
    pub(crate) images: Vec<Option<SegmentImage>>,
    /// Next segment to read.
    pub(crate) next_segment: u32,
    /// Sequence number of the copy at each location that is in the books.
    pub(crate) sequences: Vec<Sequence>,
    /// Segments without a summary, to be summed up at the end.
    pub(crate) unsealed: Vec<Summary>,
    /// Entries of segments without a summary whose data is not whole, each with its segment and its block there: torn,
    /// or rotted.
    pub(crate) damaged: Vec<(SegmentIndex, u32, SummaryEntry)>,
    /// Segments that hold batches, with the newest sequence number in each.
    pub(crate) sealed: Vec<(Sequence, SegmentIndex)>,
    /// Gaps between the batches of segments, each with the number of the batch behind it: a header there was torn, or has
    /// rotted.
    pub(crate) gaps: Vec<(SegmentIndex, Sequence)>,
    /// Why it cannot go on.
    pub(crate) failed: Option<Error>,
}

impl Recovery {
    /// Notes what was durable; of each life the most that anything tells.
    pub(crate) fn note_durable(&mut self, durable: DurableRange) {
        let known = self.durable.entry(durable.first).or_insert(durable);
        known.last = known.last.max(durable.last);
    }

    /// Whether what has this number was durable, as far as anything tells.
    pub(crate) fn was_durable(&self, sequence: Sequence) -> bool {
        let life = self.durable.range(..=sequence).next_back();
        life.is_some_and(|(_, durable)| durable.contains(sequence))
    }

    /// Notes the gaps between the batches of a segment in which something may live.
    pub(crate) fn note_gaps(&mut self, segment: SegmentIndex, batches: &[BatchHeader]) {
        let Some(image) = &self.images[segment.get() as usize] else { return };
        let mut end = 0;
        for header in batches {
            if (end..header.start).any(|place| image.is_live(place)) {
                self.gaps.push((segment, header.sequence));
            }
            end = header.end();
        }
    }

    /// A segment in which a header has rotted. Batches of a segment stand back to back and in order, so that one was
    /// durable that stands before one that was.
    pub(crate) fn find_rotted_header(&self) -> Option<SegmentIndex> {
        let gap = self.gaps.iter().find(|(_, behind)| self.was_durable(*behind));
        gap.map(|(segment, _)| *segment)
    }
}

/// How far the end of an engine has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    No,
    /// Requests, fills and writebacks run to their end.
    Draining,
    /// The origins are flushed, so that what they have is recorded as clean.
    FlushingOrigins,
    /// Open segments get their summaries.
    SummingUp,
    /// The last checkpoint is written.
    Checkpointing,
    /// The last records and batches become durable.
    Settling,
    Done,
}
