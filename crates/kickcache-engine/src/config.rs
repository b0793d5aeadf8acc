//! Limits of the engine that several modules or its users need, and all settings with their defaults.

use core::num::NonZeroU64;

use crate::rate::RateCap;
use crate::time::Duration;
use crate::units::{BLOCK_SIZE, VolumeId};

/// Volumes that one cache device can serve.
pub const VOLUME_COUNT_MAX: usize = 16;
/// The minimums of all volumes together are at most this part of the cache, in percent: reclaim needs segments that it
/// can empty.
pub const ROOM_PERCENT_MAX: u64 = 80;
/// Longest name of a volume, in bytes of UTF-8.
pub const VOLUME_NAME_MAX: usize = 63;
/// Largest request, in bytes; larger discards and write-zeroes are fine.
pub const REQUEST_BYTES_MAX: u64 = 32 << 20;
/// Largest batch, in data blocks: as many as one header block can describe.
pub const BATCH_BLOCKS_MAX: u32 = 256;
/// Batches of one write head that may be in flight, unless a waiter needs all batches to be durable.
pub const BATCHES_IN_FLIGHT_MAX: usize = 4;
/// Largest fill window in bytes.
pub const FILL_WINDOW_MAX: u64 = 1 << 20;
/// Smallest fill window in bytes.
pub const FILL_WINDOW_MIN: u64 = BLOCK_SIZE;
/// Origin reads and writes of one volume in flight.
pub const ORIGIN_DEPTH_MAX: usize = 128;
/// Writebacks of one volume in flight; more of them, and shorter ones, if the cache device is slow.
pub const WRITEBACK_DEPTH_MAX: usize = 8;
/// Pause of writeback after an error of the origin, after a failed flush of the cache device, or if the list of
/// unreadable blocks is full.
pub(crate) const WRITEBACK_BACKOFF: Duration = Duration::from_millis(1_000);
/// Time over which a volume's unused writeback cap accumulates; the sum may be used at once.
pub(crate) const WRITEBACK_BURST: Duration = Duration::from_millis(100);
/// *Clean* records wait this long for more of them, after the last flush of an origin that caused such records.
pub(crate) const RECORDS_AFTER: Duration = Duration::from_millis(5_000);
/// About the most blocks that one writeback sweep sorts by LBA.
pub const SWEEP_BLOCKS_MAX: usize = 16_384;
/// Blocks written to an origin and waiting for its flush before the flush is forced.
pub const UNFLUSHED_BLOCKS_MAX: usize = 8_192;
/// Failed batches before the cache device is put out of service.
pub const CACHE_WRITE_ERRORS_MAX: u32 = 8;
/// Failed reads of a dirty block, a second apart, after which it is damaged, if the cache device reads others meanwhile.
pub const UNREADABLE_TRIES: u32 = 5;
/// Reads that may fail while the log is read back, on a cache device with only a few bad blocks.
pub const FAILED_READS_MAX: u32 = 256;
/// Blocks with a failed read that are remembered.
pub const DOUBTFUL_MAX: usize = 65_536;
/// Damaged blocks that are listed.
pub const DAMAGED_NAMED_MAX: usize = 1_024;
/// Segments that only reclaim may use, so that it can always move blocks and make space.
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

/// Which reads that miss are promoted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Admission {
    /// All misses; but under pressure, and where new blocks earn next to no hits, only blocks that were requested before.
    #[default]
    Pressure,
    /// All misses, also under pressure; the write budget and the bypass of streams still apply.
    Always,
    /// Only blocks that were requested before, which saves writes to the cache device.
    SecondTouch,
}

/// The default minimum length of a long stream.
pub const STREAM_BYTES: u64 = 4 << 20;

/// Which sequential streams are bypassed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SequentialCutoff {
    /// None: streams are cached too.
    Off,
    /// Streams longer than this, in bytes.
    Above(u64),
    /// Streams longer than this, in bytes, if they earn fewer hits than the blocks that they displace.
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

/// Settings of one volume; all can be changed while it is served.
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
    /// Share of the cache in 1/1024 at which new writes go through to the origin.
    pub dirty_limit: u16,
    /// Without foreground requests for this long, dirty data is drained.
    pub idle_after: Duration,
    /// The most that writeback may send to the origin in a second, unless it is urgent or the high dirty mark is
    /// reached.
    pub writeback_cap: RateCap,
    /// Cache space that other volumes do not use; at most this volume's maximum.
    pub room_min: Option<Room>,
    /// Cache space limit; blocks that are not clean do not count.
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
    /// The segment is discarded, so that the device has less data to preserve.
    Discarded,
}

/// Settings of an engine; all except the write budget are constant during its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EngineSettings {
    /// Pages of 4 KiB that the driver gives to the engine for fills, merges, writeback and reclaim.
    pub pool_pages: u32,
    /// How long a batch of fills may gather before it is written.
    pub fill_linger: Duration,
    /// How long blocks may wait for the origin's flush that makes them clean.
    pub origin_flush_after: Duration,
    /// Whether recovery accepts a log with a rotten or unreadable part.
    pub rotted_log: RottedLog,
    /// Whether the cache device is in service.
    pub service: Service,
    /// Whether the origin may serve cached blocks.
    pub origin_offload: OriginOffload,
    /// Whether emptied segments are discarded.
    pub freed_segments: FreedSegments,
    /// Bytes that may be written to the cache device in a day. All writes count, but client writes in write-back mode
    /// may exceed the limit.
    pub write_budget: Option<NonZeroU64>,
    /// Steps of a slice of the searches for the cached blocks of long extents: 4,096 steps take some 20 microseconds.
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
