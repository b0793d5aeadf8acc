//! What the engine counts, and its state at a glance.

use alloc::vec::Vec;
use core::num::NonZeroU64;

use crate::config::{Mode, VolumeSettings};
use crate::time::{Duration, Instant};
use crate::units::{BlockKey, VolumeId};

/// Counters of one volume since the engine was opened; all only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VolumeCounters {
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Flush requests.
    pub flushes: u64,
    /// Discard and write-zeroes requests.
    pub discards: u64,
    /// Bytes that clients read.
    pub read_bytes: u64,
    /// Bytes that clients wrote.
    pub write_bytes: u64,
    /// Blocks that reads found in the cache.
    pub hit_blocks: u64,
    /// Blocks that reads did not find.
    pub miss_blocks: u64,
    /// Misses that joined an origin read already in flight (part of `miss_blocks`).
    pub shared_blocks: u64,
    /// Clean cached blocks that the origin was asked for, to take load off the cache device (part of `hit_blocks`).
    pub offloaded_blocks: u64,
    /// Blocks that were served past the cache (part of `miss_blocks` for reads).
    pub bypass_blocks: u64,
    /// Blocks of long sequential streams among them.
    pub stream_blocks: u64,
    /// Blocks promoted into the log.
    pub promoted_blocks: u64,
    /// Blocks read from the origin beyond what was asked for.
    pub prefetched_blocks: u64,
    /// Prefetched blocks that were hit later.
    pub prefetch_hit_blocks: u64,
    /// Blocks of client writes that entered the log.
    pub logged_blocks: u64,
    /// Blocks copied to the origin by writeback.
    pub writeback_blocks: u64,
    /// Origin reads (submissions).
    pub origin_reads: u64,
    /// Bytes of them.
    pub origin_read_bytes: u64,
    /// Origin writes (submissions).
    pub origin_writes: u64,
    /// Bytes of them.
    pub origin_write_bytes: u64,
    /// Origin flushes.
    pub origin_flushes: u64,
    /// Errors that origin submissions returned.
    pub origin_errors: u64,
    /// Clean blocks whose checksum was wrong, read from the origin instead.
    pub healed_blocks: u64,
    /// Dirty blocks that were found damaged.
    pub damaged_blocks: u64,
    /// Requests that ended with an error.
    pub failed_requests: u64,
}

/// Counters of the cache device since the engine was opened; all only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounters {
    /// Read submissions.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Write submissions: batches, journal blocks and summaries.
    pub writes: u64,
    /// Bytes of them.
    pub write_bytes: u64,
    /// Batches among the writes.
    pub batches: u64,
    /// Flushes.
    pub flushes: u64,
    /// Blocks that reclaim copied to a head of the log.
    pub reinserted_blocks: u64,
    /// Bytes that the cache device was told it need not keep.
    pub discarded_bytes: u64,
    /// Clean blocks that reclaim forgot.
    pub demoted_blocks: u64,
    /// Blocks that the write budget kept out.
    pub refused_blocks: u64,
    /// Segments emptied for reuse.
    pub reclaimed_segments: u64,
    /// Segments of the main queue that were hot enough to stay in place.
    pub kept_segments: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Journal records written.
    pub journal_records: u64,
    /// Errors that cache device submissions returned.
    pub errors: u64,
}

/// State of one volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VolumeStatus {
    /// Which volume.
    pub volume: VolumeId,
    /// Its mode.
    pub mode: Mode,
    /// Its settings, the mode among them.
    pub settings: VolumeSettings,
    /// Bytes of the origin.
    pub size: u64,
    /// Blocks in the cache.
    pub cached_blocks: u64,
    /// Blocks whose newest data the origin does not have.
    pub dirty_blocks: u64,
    /// Since when there were some at any time, the start at the earliest; nothing without one.
    pub dirty_since: Option<Instant>,
    /// Dirty blocks that nobody can have any more: reads of them fail until they are written anew.
    pub damaged_blocks: u64,
    /// Blocks that the origin has but has not flushed.
    pub unflushed_blocks: u64,
    /// It is being drained: something is left to write back, or what says that it was is not durable yet.
    pub is_draining: bool,
    /// Until when nothing that is read is promoted; a time that is over, if that is not paused.
    pub paused_until: Instant,
    /// Fill window in bytes.
    pub fill_window: u64,
    /// Requests in flight.
    pub requests_in_flight: u64,
    /// The cache device is out of service, and the origin may lack something that it holds.
    pub is_incomplete: bool,
    /// The counters.
    pub counters: VolumeCounters,
}

/// How far the engine is with a cache device that grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GrowthPhase {
    /// It does not grow, or has grown.
    None,
    /// The journal makes room for larger checkpoints, and the tables grow.
    Preparing,
    /// All is ready: the superblock may be written, and then [`Engine::use_grown`] is due.
    ///
    /// [`Engine::use_grown`]: crate::engine::Engine::use_grown
    Prepared,
}

/// How the cache device is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheHealth {
    /// In service.
    #[default]
    Good,
    /// Taken out of service after errors: every request goes to the origin.
    OutOfService,
}

/// Where it is on record that the cache device is out of service, so that no restart takes it for one in service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// Nowhere: it was left out by order, by somebody who knows.
    ByOrder,
    /// On the device itself, in both service marks.
    OnDevice,
    /// In the host's own memory, beside the device.
    WithHost,
    /// It is on its way; what must not be undone by a restart waits.
    Pending,
    /// It could not be kept anywhere: what must not be undone by a restart fails until it can.
    Failed,
}

/// What does not come into the cache now, as the cache device was written more than its budget has for that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum GivenUp {
    /// All comes in.
    #[default]
    Nothing,
    /// Misses read less than their fill window.
    ReadAhead,
    /// Of blocks that nobody asked for before, only a part comes in, or none.
    UnknownBlocks,
    /// Of the others, too.
    KnownBlocks,
    /// Nothing comes in but what must.
    Everything,
}

/// What was written to the cache device in a day.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wear {
    /// Bytes that may be written in a day, if that is bounded.
    pub budget: Option<NonZeroU64>,
    /// Bytes that were written in the last day.
    pub day_bytes: u64,
    /// How much of that day was counted.
    pub counted: Duration,
    /// What is given up for the budget.
    pub given_up: GivenUp,
}

/// What was written to the cache device lately, to be remembered by whoever opens the engine next.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WearHistory {
    /// Quarters of an hour, the oldest first, at most a day; the last one is under way.
    pub slots: Vec<WearSlot>,
    /// Bytes that the write budget permits at once; less than 0 if it was exceeded.
    pub credit: i64,
    /// Time in which they were written, at most a day.
    pub counted: Duration,
}

/// A quarter of an hour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WearSlot {
    /// Bytes written.
    pub written: u64,
    /// Blocks that would have been written without a budget.
    pub wanted: u64,
}

/// State of the engine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// The cache device.
    pub health: CacheHealth,
    /// Where its being out of service is on record, if it is out of service.
    pub record: Option<Record>,
    /// Segments in all.
    pub segments: u64,
    /// Segments free for use.
    pub free_segments: u64,
    /// Segments that are used no more, as the device failed there; what they hold stays.
    pub retired_segments: u64,
    /// Blocks that all segments can hold.
    pub capacity_blocks: u64,
    /// Blocks in the probation queue's segments, live ones.
    pub probation_blocks: u64,
    /// Blocks in the main queue's segments, live ones.
    pub main_blocks: u64,
    /// What the policy wants probation to hold, in blocks.
    pub probation_target: u64,
    /// Bytes of memory of the engine's tables.
    pub memory_bytes: u64,
    /// The counters of the cache device.
    pub counters: CacheCounters,
    /// The volumes, by id.
    pub volumes: Vec<VolumeStatus>,
    /// Dirty blocks that nobody can have any more, ascending; of very many, some.
    pub damaged: Vec<BlockKey>,
}
