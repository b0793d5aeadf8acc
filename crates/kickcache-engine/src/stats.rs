//! Counters and state of the engine.

use alloc::vec::Vec;
use core::num::NonZeroU64;

use crate::config::{Mode, VolumeSettings};
use crate::time::{Duration, Instant};
use crate::units::{BlockKey, VolumeId};

/// Counters of a served volume.
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
    /// Bytes of the read requests.
    pub read_bytes: u64,
    /// Bytes of the write requests, write-zeroes not included.
    pub write_bytes: u64,
    /// Blocks of reads that hit.
    pub hit_blocks: u64,
    /// Blocks that reads, or requests to promote, missed.
    pub miss_blocks: u64,
    /// Misses that joined an origin read already in flight.
    pub shared_blocks: u64,
    /// Clean cached blocks that were read from the origin to relieve the cache device.
    pub offloaded_blocks: u64,
    /// Blocks of misses that were not chosen for promotion, and blocks of writes that bypassed the log of a device in
    /// service.
    pub bypass_blocks: u64,
    /// Blocks of long sequential streams that were to bypass the cache.
    pub stream_blocks: u64,
    /// Blocks of fills that entered the log.
    pub promoted_blocks: u64,
    /// Blocks of fills that may be promoted, in addition to the blocks of the miss.
    pub read_ahead_blocks: u64,
    /// Read-ahead blocks that were hit later.
    pub read_ahead_hit_blocks: u64,
    /// Blocks of client writes that entered the log.
    pub logged_blocks: u64,
    /// Blocks copied to the origin by writeback, with the clean blocks between dirty ones.
    pub writeback_blocks: u64,
    /// Drains that ended.
    pub drains: u64,
    /// Origin reads (submissions).
    pub origin_reads: u64,
    /// Bytes of the reads from the origin.
    pub origin_read_bytes: u64,
    /// Origin writes and write-zeroes (submissions).
    pub origin_writes: u64,
    /// Bytes of the origin writes and write-zeroes.
    pub origin_write_bytes: u64,
    /// Origin flushes.
    pub origin_flushes: u64,
    /// Errors that the origin returned, except to discards.
    pub origin_errors: u64,
    /// Clean or unflushed blocks that were read from the origin because the cache device's copy was not readable or had
    /// a wrong checksum.
    pub healed_blocks: u64,
    /// Dirty blocks that were marked as damaged.
    pub damaged_blocks: u64,
    /// Requests within the volume that ended with an error.
    pub failed_requests: u64,
}

/// Counters of the cache device since the engine was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounters {
    /// Read submissions.
    pub reads: u64,
    /// Bytes of the reads from the cache device.
    pub read_bytes: u64,
    /// Write submissions.
    pub writes: u64,
    /// Bytes of the writes to the cache device.
    pub write_bytes: u64,
    /// Batches among the writes.
    pub batches: u64,
    /// Flushes.
    pub flushes: u64,
    /// Blocks that reclaim copied to a head of the log.
    pub reinserted_blocks: u64,
    /// Bytes that the cache device has discarded.
    pub discarded_bytes: u64,
    /// Clean blocks that reclaim chose to drop.
    pub demoted_blocks: u64,
    /// Blocks that the write budget kept out.
    pub refused_blocks: u64,
    /// Segments that reclaim began to empty.
    pub reclaimed_segments: u64,
    /// How often a segment of the main queue stayed in place in its turn.
    pub kept_segments: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Records that were added to the journal.
    pub journal_records: u64,
    /// Errors that the cache device returned, except to discards, and to the reads and the flush of recovery.
    pub errors: u64,
}

/// State of one volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VolumeStatus {
    /// Which volume.
    pub volume: VolumeId,
    /// The mode of the volume.
    pub mode: Mode,
    /// The settings of the volume.
    pub settings: VolumeSettings,
    /// Bytes of the origin.
    pub size: u64,
    /// Blocks in the cache.
    pub cached_blocks: u64,
    /// Dirty blocks.
    pub dirty_blocks: u64,
    /// When a client's write last made a block dirty while none was; before such a write, when the engine began to
    /// serve the volume. `None` without dirty blocks.
    pub dirty_since: Option<Instant>,
    /// Dirty blocks that are damaged.
    pub damaged_blocks: u64,
    /// Unflushed blocks.
    pub unflushed_blocks: u64,
    /// A drain of the volume has not ended.
    pub is_draining: bool,
    /// Until when reads are not promoted.
    pub paused_until: Instant,
    /// Fill window in bytes, before the write budget narrows it.
    pub fill_window: u64,
    /// Requests in flight.
    pub requests_in_flight: u64,
    /// The cache device is out of service, and may have newer data than the origin.
    pub is_incomplete: bool,
    /// The counters.
    pub counters: VolumeCounters,
}

/// The progress of the growth of a cache device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GrowthPhase {
    /// The cache device does not grow, or has grown.
    None,
    /// The growth is being prepared.
    Preparing,
    /// All is ready: the superblock may be written, and then [`Engine::use_grown`] is due.
    ///
    /// [`Engine::use_grown`]: crate::engine::Engine::use_grown
    Prepared,
}

/// The health of the cache device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheHealth {
    /// In service.
    #[default]
    Good,
    /// Out of service.
    OutOfService,
}

/// The place of the record that the cache device is out of service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// None is needed: the engine was opened with the device out of service.
    ByOrder,
    /// On the device itself.
    OnDevice,
    /// On the host.
    WithHost,
    /// The record is being made.
    Pending,
    /// No record could be made.
    Failed,
}

/// The blocks that the write budget keeps out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum GivenUp {
    /// None.
    #[default]
    Nothing,
    /// Some or all read-ahead.
    ReadAhead,
    /// Some or all blocks without an earlier request, too.
    UnknownBlocks,
    /// Some blocks with an earlier request, too.
    KnownBlocks,
    /// All blocks that need not be cached.
    Everything,
}

/// The bytes written to the cache device in a day.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wear {
    /// Bytes that may be written in a day, if that is bounded.
    pub budget: Option<NonZeroU64>,
    /// Bytes that were written in the last day.
    pub day_bytes: u64,
    /// The counted part of that day.
    pub counted: Duration,
    /// The blocks that the budget keeps out.
    pub given_up: GivenUp,
}

/// The recent writes to the cache device, for the next engine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WearHistory {
    /// Quarters of an hour, the oldest first, at most a day.
    pub slots: Vec<WearSlot>,
    /// Bytes that the write budget permits at once; may be negative. Without a budget, the value has no meaning.
    pub credit: i64,
    /// Time in which the bytes of the slots were written, at most a day.
    pub counted: Duration,
}

/// A quarter of an hour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WearSlot {
    /// Bytes written.
    pub written: u64,
    /// Blocks that would have been admitted without a budget, read-ahead not included; counted only while there is a
    /// budget.
    pub wanted: u64,
}

/// State of the engine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// The health of the cache device.
    pub health: CacheHealth,
    /// The place of the record that the cache device is out of service, if it is.
    pub record: Option<Record>,
    /// Segments in all.
    pub segments: u64,
    /// Segments that are free, being opened, or ready.
    pub free_segments: u64,
    /// Retired segments, which receive no new blocks.
    pub retired_segments: u64,
    /// Blocks that all segments can hold, headers of batches included.
    pub capacity_blocks: u64,
    /// Live blocks in the segments of probation.
    pub probation_blocks: u64,
    /// Live blocks in the segments of main.
    pub main_blocks: u64,
    /// The target size of probation, in blocks.
    pub probation_target: u64,
    /// Bytes of memory of the cache metadata and of the retention policy.
    pub memory_bytes: u64,
    /// The counters of the cache device.
    pub counters: CacheCounters,
    /// The volumes, by id.
    pub volumes: Vec<VolumeStatus>,
    /// Damaged dirty blocks, ascending, up to a limit.
    pub damaged: Vec<BlockKey>,
}
