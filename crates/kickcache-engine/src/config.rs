//! Limits and settings of the engine.

use core::num::NonZeroU64;

use crate::rate::RateCap;
use crate::time::Duration;
use crate::units::{BLOCK_SIZE, VolumeId};

/// The most volumes of one cache device.
pub const VOLUME_COUNT_MAX: usize = 16;
/// The most that the minimums of all volumes may have together, in percent of the cache.
pub const ROOM_PERCENT_MAX: u64 = 80;
/// Longest name of a volume, in bytes of UTF-8.
pub const VOLUME_NAME_MAX: usize = 63;
/// The largest read or write, in bytes.
pub const REQUEST_BYTES_MAX: u64 = 32 << 20;
/// Largest batch, in data blocks.
pub const BATCH_BLOCKS_MAX: u32 = 256;
/// The usual limit of batches in flight for one head of the log.
pub const BATCHES_IN_FLIGHT_MAX: usize = 4;
/// Largest fill window in bytes.
pub const FILL_WINDOW_MAX: u64 = 1 << 20;
/// Smallest fill window in bytes.
pub const FILL_WINDOW_MIN: u64 = BLOCK_SIZE;
/// The most reads, writes, write-zeroes and discards of one origin in flight.
pub const ORIGIN_DEPTH_MAX: usize = 128;
/// The usual limit of writebacks in flight for one volume.
pub const WRITEBACK_DEPTH_MAX: usize = 8;
/// Pause of writeback after a failure.
pub(crate) const WRITEBACK_BACKOFF: Duration = Duration::from_millis(1_000);
/// Time over which a volume's unused writeback cap accumulates.
pub(crate) const WRITEBACK_BURST: Duration = Duration::from_millis(100);
/// Gathered records are written at the latest this long after the last origin flush or durable writeback.
pub(crate) const RECORDS_AFTER: Duration = Duration::from_millis(5_000);
/// About the most blocks that one writeback sweep sorts by LBA.
pub const SWEEP_BLOCKS_MAX: usize = 16_384;
/// The number of blocks that wait for the next flush of an origin and force it; a small cache has a lower one.
pub const UNFLUSHED_BLOCKS_MAX: usize = 8_192;
/// The number of failed batches at which the cache device is put out of service.
pub const CACHE_WRITE_ERRORS_MAX: u32 = 8;
/// The number of counted failed reads at which a dirty block is damaged.
pub const UNREADABLE_TRIES: u32 = 5;
/// The most reads that may fail with an I/O error in one recovery.
pub const FAILED_READS_MAX: u32 = 256;
/// The most blocks with failed reads that are listed.
pub const DOUBTFUL_MAX: usize = 65_536;
/// The most damaged blocks that are listed.
pub const DAMAGED_NAMED_MAX: usize = 1_024;
/// The number of ready segments that are reserved for reclaim.
pub const RESERVED_SEGMENTS: usize = 2;
/// How long the marks of a cache device that was put out of service may take before the host is requested to record the
/// state.
pub const MARK_PATIENCE: Duration = Duration::from_millis(5_000);

const _: () = assert!(FILL_WINDOW_MAX.is_multiple_of(FILL_WINDOW_MIN));

/// The write mode of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// Writes are acknowledged after the origin has completed them.
    #[default]
    WriteThrough,
    /// Most writes are acknowledged from the log and copied to the origin later.
    WriteBack,
    /// Most writes go to the origin only. Reads are cached.
    WriteAround,
    /// Writes as in write-around; misses are not cached.
    Bypass,
}

/// Which reads that miss may be promoted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Admission {
    /// While new blocks are not worth their room, only misses with a block that was requested before.
    #[default]
    Pressure,
    /// All misses, also under pressure.
    Always,
    /// Misses with a block that was requested before.
    SecondTouch,
}

/// The default length in bytes above which a stream is long.
pub const STREAM_BYTES: u64 = 4 << 20;

/// Which sequential streams bypass the cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SequentialCutoff {
    /// None.
    Off,
    /// Streams longer than this, in bytes.
    Above(u64),
    /// Streams longer than this, in bytes, while such streams earn too few hits and no room is unused.
    Auto(u64),
}

impl Default for SequentialCutoff {
    fn default() -> SequentialCutoff {
        SequentialCutoff::Auto(STREAM_BYTES)
    }
}

/// Whether the origin can restart while this machine continues.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OriginKind {
    /// It can lose unflushed writes without an error only if this machine fails.
    #[default]
    Local,
    /// A remote server, which may lose unflushed writes and restart while this machine continues.
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
    /// Its blocks on a cache device of `capacity` blocks.
    pub const fn blocks(self, capacity: u64) -> u64 {
        match self {
            Room::Share(share) => capacity * share as u64 / 1024,
            Room::Blocks(blocks) => blocks,
        }
    }
}

/// The most blocks that the minimums of all volumes may have together, on a cache device of `capacity` blocks.
pub const fn room_total(capacity: u64) -> u64 {
    capacity * ROOM_PERCENT_MAX / 100
}

/// Settings of one volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VolumeSettings {
    /// The volume in the superblock.
    pub volume: VolumeId,
    /// Write mode.
    pub mode: Mode,
    /// The kind of the volume's origin.
    pub origin: OriginKind,
    /// Which misses may be promoted.
    pub admission: Admission,
    /// Which sequential streams bypass the cache.
    pub sequential_cutoff: SequentialCutoff,
    /// Upper bound of the fill window in bytes, a power of two from 4 KiB to 1 MiB.
    pub fill_window_max: u64,
    /// Share of the cache in 1/1024 above which writeback runs alongside foreground work.
    pub dirty_low: u16,
    /// High mark of the dirty share, in 1/1024 of the cache.
    pub dirty_high: u16,
    /// Share of the cache in 1/1024 at which writes that add dirty blocks go to the origin.
    pub dirty_limit: u16,
    /// The time without a client request after which the volume counts as idle.
    pub idle_after: Duration,
    /// The most that writeback may send to the origin per second on average; urgent writeback may exceed it.
    pub writeback_cap: RateCap,
    /// Cache space reserved for this volume.
    pub room_min: Option<Room>,
    /// The most cache space that the volume is to use.
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

/// The reaction of recovery to a rotten or unreadable part of the log that lists blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RottedLog {
    /// Recovery fails: blocks could return to an earlier state.
    #[default]
    Refused,
    /// Recovery continues with the rest of the log.
    Accepted,
}

/// Whether a cache device is in service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Service {
    /// The cache device is in service.
    #[default]
    In,
    /// It is out of service, and the opener has the record of that already. Its dirty blocks are served and written
    /// back.
    Out,
}

/// Whether the origin may take over work of the cache device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OriginOffload {
    /// In trials, and while they show a benefit.
    #[default]
    Proven,
    /// Regularly. For the fault simulation.
    Forced,
    /// Never.
    Never,
}

/// The treatment of an emptied segment of the cache device before it is written again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FreedSegments {
    /// No treatment.
    #[default]
    Kept,
    /// The segment is discarded, unless a discard failed before.
    Discarded,
}

/// Settings of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EngineSettings {
    /// Pages of 4 KiB in the memory that the driver gives to the engine.
    pub pool_pages: u32,
    /// How long a batch may gather.
    pub fill_linger: Duration,
    /// The age of an unflushed write from which a flush of the origin may be due by itself.
    pub origin_flush_after: Duration,
    /// Whether recovery accepts a log with a rotten or unreadable part.
    pub rotted_log: RottedLog,
    /// Whether the cache device is in service.
    pub service: Service,
    /// Whether the origin may take over work of the cache device.
    pub origin_offload: OriginOffload,
    /// Whether emptied segments are discarded.
    pub freed_segments: FreedSegments,
    /// Bytes that may be written to the cache device in a day.
    pub write_budget: Option<NonZeroU64>,
    /// Steps of a slice of the searches for cached blocks, one at least.
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
