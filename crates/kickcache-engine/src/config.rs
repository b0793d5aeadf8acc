//! Limits of the engine that several modules or its users need, and all settings with their defaults.

use core::num::NonZeroU64;

use crate::rate::RateCap;
use crate::time::Duration;
use crate::units::{BLOCK_SIZE, VolumeId};

/// The most volumes of one cache device, served or not.
pub const VOLUME_COUNT_MAX: usize = 16;
/// The minimums of all volumes together are at most this part of the cache, in percent: reclaim needs segments that it
/// can empty.
pub const ROOM_PERCENT_MAX: u64 = 80;
/// Longest name of a volume, in bytes of UTF-8.
pub const VOLUME_NAME_MAX: usize = 63;
/// The largest read or write, in bytes; other requests may be longer.
pub const REQUEST_BYTES_MAX: u64 = 32 << 20;
/// Largest batch, in data blocks: the most entries of a header block.
pub const BATCH_BLOCKS_MAX: u32 = 256;
/// The most batches of one head of the log in flight, unless all blocks that have gathered must be written at once.
pub const BATCHES_IN_FLIGHT_MAX: usize = 4;
/// Largest fill window in bytes.
pub const FILL_WINDOW_MAX: u64 = 1 << 20;
/// Smallest fill window in bytes.
pub const FILL_WINDOW_MIN: u64 = BLOCK_SIZE;
/// The most reads, writes, write-zeroes and discards of one origin in flight.
pub const ORIGIN_DEPTH_MAX: usize = 128;
/// The most writebacks of one volume in flight; if the cache device is slow, more writebacks, which have at most about
/// as many blocks together.
pub const WRITEBACK_DEPTH_MAX: usize = 8;
/// Pause of writeback after a failed writeback or flush of the origin, if the cache device cannot make its blocks
/// durable, or if the list of unreadable blocks is full. After an error of the origin, also the pause of flushes that
/// no request waits for.
pub(crate) const WRITEBACK_BACKOFF: Duration = Duration::from_millis(1_000);
/// Time over which a volume's unused writeback cap accumulates; the sum may be used at once.
pub(crate) const WRITEBACK_BURST: Duration = Duration::from_millis(100);
/// Records that have gathered are made durable if no origin flush or durable writeback ends for this long after the
/// last one.
pub(crate) const RECORDS_AFTER: Duration = Duration::from_millis(5_000);
/// About the most blocks that one writeback sweep sorts by LBA.
pub const SWEEP_BLOCKS_MAX: usize = 16_384;
/// The number of blocks that wait for the next flush of an origin and force it; a small cache has a lower one.
pub const UNFLUSHED_BLOCKS_MAX: usize = 8_192;
/// The number of failed batches at which the cache device is put out of service.
pub const CACHE_WRITE_ERRORS_MAX: u32 = 8;
/// The number of failed reads, at least a second apart, at which a dirty block is damaged, if the cache device
/// completes other reads in between.
pub const UNREADABLE_TRIES: u32 = 5;
/// The most reads that may fail with an I/O error in one recovery: with one more, recovery fails. A read with another
/// error, or a failed flush, fails it at once.
pub const FAILED_READS_MAX: u32 = 256;
/// The most blocks with failed reads that are listed, to be read alone.
pub const DOUBTFUL_MAX: usize = 65_536;
/// The most damaged blocks that are listed.
pub const DAMAGED_NAMED_MAX: usize = 1_024;
/// The last ready segments: only blocks that reclaim moves and that are not clean, and blocks of failed batches, may
/// use them.
pub const RESERVED_SEGMENTS: usize = 2;
/// How long the marks of a cache device that was put out of service may take before the host is requested to record the
/// state.
pub const MARK_PATIENCE: Duration = Duration::from_millis(5_000);

const _: () = assert!(FILL_WINDOW_MAX.is_multiple_of(FILL_WINDOW_MIN));

/// The time at which a volume's write is acknowledged, and the blocks that are cached.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// Writes are acknowledged when the origin has completed them; most writes enter the log before that.
    #[default]
    WriteThrough,
    /// Most writes are acknowledged from the log and copied to the origin later.
    WriteBack,
    /// Writes go to the origin; a write enters the log before that only if it is not aligned to sectors, or if
    /// the log must keep blocks of its extent. Reads are cached.
    WriteAround,
    /// Writes as in write-around; misses are not cached, and cached blocks are still served.
    Bypass,
}

/// Which reads that miss are promoted, unless another limit excludes them, such as the write budget or the bypass of
/// streams.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Admission {
    /// All misses; but under pressure, or if new blocks earn next to no hits, only misses with a block that was
    /// requested before, and while the main queue is frozen, only a few.
    #[default]
    Pressure,
    /// All misses, also under pressure, and while the main queue is frozen.
    Always,
    /// Only misses with a block that was requested before, which saves writes to the cache device; while the main queue
    /// is frozen, as with [`Admission::Pressure`].
    SecondTouch,
}

/// The default length in bytes above which a stream is long.
pub const STREAM_BYTES: u64 = 4 << 20;

/// Which sequential streams are bypassed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SequentialCutoff {
    /// None: streams are cached too.
    Off,
    /// Streams longer than this, in bytes.
    Above(u64),
    /// Streams longer than this, in bytes, after such streams have earned fewer hits than the blocks that they
    /// displaced.
    Auto(u64),
}

impl Default for SequentialCutoff {
    fn default() -> SequentialCutoff {
        SequentialCutoff::Auto(STREAM_BYTES)
    }
}

/// The fate of writes that an origin acknowledged and has not flushed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OriginKind {
    /// Such writes are lost only if this machine fails.
    #[default]
    Local,
    /// A remote server, which may lose them and restart while this machine continues;
    /// [`crate::engine::Engine::origin_restarted`] reports that. Writes without a copy in the log must be durable when
    /// they end, and discards too.
    Remote,
}

/// A part of the cache device, for a volume.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Room {
    /// In 1/1024 of the capacity of the cache device.
    Share(u16),
    /// In blocks.
    Blocks(u64),
}

impl Room {
    /// Blocks for a cache device with a capacity of `capacity` blocks.
    pub const fn blocks(self, capacity: u64) -> u64 {
        match self {
            Room::Share(share) => capacity * share as u64 / 1024,
            Room::Blocks(blocks) => blocks,
        }
    }
}

/// The most blocks that the minimums of all volumes may have together, on a cache device with a capacity of `capacity`
/// blocks.
pub const fn room_total(capacity: u64) -> u64 {
    capacity * ROOM_PERCENT_MAX / 100
}

/// Settings of one volume; all but `volume` and `origin` can be changed while it is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VolumeSettings {
    /// The volume in the superblock.
    pub volume: VolumeId,
    /// Write mode.
    pub mode: Mode,
    /// The kind of the volume's origin.
    pub origin: OriginKind,
    /// Which misses are promoted.
    pub admission: Admission,
    /// Which sequential streams are bypassed.
    pub sequential_cutoff: SequentialCutoff,
    /// Upper bound of the adaptive fill window in bytes, a power of two from 4 KiB to 1 MiB.
    pub fill_window_max: u64,
    /// Share of the cache in 1/1024 above which writeback runs alongside foreground work.
    pub dirty_low: u16,
    /// Share of the cache in 1/1024 above which client writes are delayed to match the rate of writeback.
    pub dirty_high: u16,
    /// Share of the cache in 1/1024 at which writes go through to the origin, except writes that only replace dirty or
    /// unflushed blocks.
    pub dirty_limit: u16,
    /// If no client request arrives for this long, the volume counts as idle: dirty blocks are written back without
    /// another reason.
    pub idle_after: Duration,
    /// The most that writeback may send to the origin per second on average, unless it is urgent or the high dirty mark
    /// is reached.
    pub writeback_cap: RateCap,
    /// Cache space reserved for this volume: while it uses no more, reclaim drops its blocks only if they are stale or
    /// cannot be moved, or if no other segment gives room while room is short or clients wait.
    pub room_min: Option<Room>,
    /// The most cache space of the volume: above it, by more than a quarter of a segment, reclaim drops clean blocks of
    /// the volume. Dirty and unflushed blocks stay.
    pub room_max: Option<Room>,
}

impl VolumeSettings {
    /// The defaults for a volume.
    pub const fn new(volume: VolumeId) -> VolumeSettings {
        VolumeSettings {
            volume,
            mode: Mode::WriteThrough,
            origin: OriginKind::Local,
            admission: Admission::Pressure,
            sequential_cutoff: SequentialCutoff::Auto(STREAM_BYTES),
            fill_window_max: FILL_WINDOW_MAX,
            dirty_low: 307,
            dirty_high: 512,
            dirty_limit: 716,
            idle_after: Duration::from_millis(500),
            writeback_cap: RateCap { bytes: None, requests: None },
            room_min: None,
            room_max: None,
        }
    }
}

/// The reaction of recovery if a part of the log that lists blocks has rotted, or is unreadable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RottedLog {
    /// Recovery fails: blocks could return to an earlier state.
    #[default]
    Refused,
    /// Recovery continues with the rest of the log. For tools.
    Accepted,
}

/// Whether a cache device is in service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Service {
    /// The cache device is in service.
    #[default]
    In,
    /// It is out of service, and the opener has the record of that already: no record is made. Only the dirty blocks of
    /// its log are served and written back, without the clean blocks between them, which may be older than the
    /// origin's.
    Out,
}

/// Whether the origin may serve cached clean blocks and long writes instead of the cache device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OriginOffload {
    /// If the cache device is at its limit, and trials show that both devices together serve more than it alone.
    #[default]
    Proven,
    /// Every second time, at any cost. For the fault simulation.
    Forced,
    /// Never.
    Never,
}

/// The treatment of an emptied segment of the cache device before it is written again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FreedSegments {
    /// No treatment: the device preserves the segment's old data.
    #[default]
    Kept,
    /// The segment is discarded, unless a discard failed before, so that the device has less data to preserve.
    Discarded,
}

/// Settings of an engine; all except the write budget are constant during its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EngineSettings {
    /// Pages of 4 KiB that the driver gives to the engine for fills, merges, reads of a part of a block, writeback and
    /// reclaim; one page holds zeroes.
    pub pool_pages: u32,
    /// How long a batch may gather before it is closed; it is closed earlier if it is full, or if a waiter needs it.
    pub fill_linger: Duration,
    /// The age of the oldest unflushed write at which the origin is flushed without another reason; on a busy volume
    /// the flush may wait longer.
    pub origin_flush_after: Duration,
    /// Whether recovery accepts a log with a rotten or unreadable part.
    pub rotted_log: RottedLog,
    /// Whether the cache device is in service.
    pub service: Service,
    /// Whether the origin may serve reads of cached blocks, and long writes that the log would take.
    pub origin_offload: OriginOffload,
    /// Whether emptied segments are discarded.
    pub freed_segments: FreedSegments,
    /// Bytes that may be written to the cache device in a day. All writes to the device count; as the budget runs out,
    /// only blocks of read misses, and write-through writes that can bypass the log, are kept out.
    pub write_budget: Option<NonZeroU64>,
    /// Steps of a slice of the searches for cached blocks, one at least: 4,096 steps take some 20 microseconds.
    pub search_steps: u32,
}

impl Default for EngineSettings {
    fn default() -> EngineSettings {
        EngineSettings {
            pool_pages: 8_192,
            fill_linger: Duration::from_millis(200),
            origin_flush_after: Duration::from_millis(2_000),
            rotted_log: RottedLog::Refused,
            service: Service::In,
            origin_offload: OriginOffload::default(),
            freed_segments: FreedSegments::default(),
            write_budget: None,
            search_steps: 4_096,
        }
    }
}
