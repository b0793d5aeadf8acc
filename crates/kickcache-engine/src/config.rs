//! Every limit and every setting, with its default.

use core::num::NonZeroU64;

use crate::rate::RateCap;
use crate::time::Duration;
use crate::units::{BLOCK_SIZE, VolumeId};

/// Volumes that one cache device can serve.
pub const VOLUME_COUNT_MAX: usize = 16;
/// The minimums of all volumes together are at most this part of the cache, in percent: reclaim needs something to take.
pub const ROOM_PERCENT_MAX: u64 = 80;
/// Longest name of a volume, in bytes of UTF-8.
pub const VOLUME_NAME_MAX: usize = 63;
/// Largest request, in bytes; larger discards and write-zeroes are fine.
pub const REQUEST_BYTES_MAX: u64 = 32 << 20;
/// Largest batch, in data blocks: what one header block can describe.
pub const BATCH_BLOCKS_MAX: u32 = 256;
/// Batches of one write head that may be in flight.
pub const BATCHES_IN_FLIGHT_MAX: usize = 4;
/// Largest fill window in bytes.
pub const FILL_WINDOW_MAX: u64 = 1 << 20;
/// Smallest fill window in bytes.
pub const FILL_WINDOW_MIN: u64 = BLOCK_SIZE;
/// Origin reads and writes of one volume in flight.
pub const ORIGIN_DEPTH_MAX: usize = 128;
/// Writebacks of one volume in flight.
pub const WRITEBACK_DEPTH_MAX: usize = 8;
/// Rest of a writeback after an error of the origin, or of a read from the cache device.
pub(crate) const WRITEBACK_BACKOFF: Duration = Duration::from_millis(1_000);
/// What a volume's writeback did not use of its cap for so long may be used at once.
pub(crate) const WRITEBACK_BURST: Duration = Duration::from_millis(100);
/// Records of what is clean wait this long for more of them, after the last flush of an origin that made some.
pub(crate) const RECORDS_AFTER: Duration = Duration::from_millis(5_000);
/// Blocks that one writeback sweep sorts by LBA.
pub const SWEEP_BLOCKS_MAX: usize = 16_384;
/// Blocks written to an origin and waiting for its flush before the flush is forced.
pub const UNFLUSHED_BLOCKS_MAX: usize = 8_192;
/// Batches that failed on the cache device before the cache is taken out of service.
pub const CACHE_WRITE_ERRORS_MAX: u32 = 8;
/// Failed reads of a dirty block, a second apart, after which it is damaged, if the cache device reads others meanwhile.
pub const UNREADABLE_TRIES: u32 = 5;
/// Reads that may fail while the log is read back, of a cache device of which only a spot is bad.
pub const FAILED_READS_MAX: u32 = 256;
/// Blocks of which a read failed that are remembered.
pub const DOUBTFUL_MAX: usize = 65_536;
/// Damaged blocks that are named.
pub const DAMAGED_NAMED_MAX: usize = 1_024;
/// Segments that only reclaim may take, so that it can always carry blocks on and make room.
pub const RESERVED_SEGMENTS: usize = 2;
/// How long the marks of a cache device that went out of service may take before the host is asked to remember it.
pub const MARK_PATIENCE: Duration = Duration::from_millis(5_000);

const _: () = assert!(FILL_WINDOW_MAX.is_multiple_of(FILL_WINDOW_MIN));

/// When a volume's write is acknowledged, and what is cached.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// Writes go to the log and to the origin before they are acknowledged.
    #[default]
    WriteThrough,
    /// Writes are acknowledged from the log and copied to the origin later.
    WriteBack,
    /// Writes go to the origin alone; reads are cached.
    WriteAround,
    /// Nothing new is cached; what is cached is still served.
    Bypass,
}

/// Which reads that miss are promoted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Admission {
    /// All misses; but under pressure, and where new blocks earn next to no hits, only blocks that were requested before.
    #[default]
    Pressure,
    /// Everything, always.
    Always,
    /// Only blocks that were requested before: halves the writes to the cache device.
    SecondTouch,
}

/// Streams are long from this length on, if nothing else is said.
pub const STREAM_BYTES: u64 = 4 << 20;

/// Which sequential streams are bypassed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SequentialCutoff {
    /// None: streams are cached too.
    Off,
    /// Those longer than this, in bytes.
    Above(u64),
    /// Of those longer than this, in bytes, the ones of which less comes back than of what they displace.
    Auto(u64),
}

impl Default for SequentialCutoff {
    fn default() -> SequentialCutoff {
        SequentialCutoff::Auto(STREAM_BYTES)
    }
}

/// What becomes of the writes that an origin acknowledged and has not flushed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OriginKind {
    /// They are lost with this machine only.
    #[default]
    Local,
    /// A server of its own: it may lose them and come back while this machine goes on, which
    /// [`crate::engine::Engine::origin_restarted`] tells. What has no copy in the log is asked to be durable when it ends, and
    /// a discard must be.
    Remote,
}

/// A part of the cache device, for a volume.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Room {
    /// In 1/1024 of what it holds.
    Share(u16),
    /// In blocks.
    Blocks(u64),
}

impl Room {
    /// Blocks of a cache device with room for `capacity` blocks.
    pub const fn blocks(self, capacity: u64) -> u64 {
        match self {
            Room::Share(share) => capacity * share as u64 / 1024,
            Room::Blocks(blocks) => blocks,
        }
    }
}

/// Blocks that the minimums of all volumes are at most, of a cache device with room for `capacity` blocks.
pub const fn room_total(capacity: u64) -> u64 {
    capacity * ROOM_PERCENT_MAX / 100
}

/// Settings of one volume; all can be changed while it is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VolumeSettings {
    /// Which volume of the superblock.
    pub volume: VolumeId,
    /// Write mode.
    pub mode: Mode,
    /// What its origin is.
    pub origin: OriginKind,
    /// Which misses are promoted.
    pub admission: Admission,
    /// Which sequential streams are bypassed.
    pub sequential_cutoff: SequentialCutoff,
    /// Upper bound of the adaptive fill window in bytes, a power of two from 4 KiB to 1 MiB.
    pub fill_window_max: u64,
    /// Share of the cache in 1/1024 above which writeback goes on beside foreground work.
    pub dirty_low: u16,
    /// Share of the cache in 1/1024 at which writeback runs at full speed.
    pub dirty_high: u16,
    /// Share of the cache in 1/1024 at which new writes go through to the origin.
    pub dirty_limit: u16,
    /// Without foreground requests for this long, dirty data is drained.
    pub idle_after: Duration,
    /// How much writeback may give the origin in a second, unless it is urgent.
    pub writeback_cap: RateCap,
    /// What others do not take from it; no more than its maximum.
    pub room_min: Option<Room>,
    /// What it has at most, but for blocks that are not clean.
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

/// What recovery does when a part of the log has rotted, or cannot be read, that says which blocks there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RottedLog {
    /// It fails: blocks could come back as they were before.
    #[default]
    Refused,
    /// It goes on with what is left. For tools.
    Accepted,
}

/// Whether a cache device is in service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Service {
    /// It is.
    #[default]
    In,
    /// It is not, which whoever opens it knows: nothing is put on record. Of its log nothing is served but dirty blocks,
    /// and these are written back, each alone: their neighbours may be older than what the origin has.
    Out,
}

/// Whether clean blocks that are cached, and long writes, may be served by the origin instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OriginOffload {
    /// Where the cache device is at its own limit, and trials show that both devices serve more than it does alone.
    #[default]
    Proven,
    /// Every other time, whatever it costs. For the fault simulation.
    Forced,
    /// Not at all.
    Never,
}

/// What is done with a segment of the cache device that was emptied, before it is written again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FreedSegments {
    /// Nothing.
    #[default]
    Kept,
    /// It is discarded, so that the device has less to carry along.
    Discarded,
}

/// Settings of an engine; all but the write budget stay as they are while it lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EngineSettings {
    /// Pages of 4 KiB that the driver gives to the engine for fills, merges, writeback and reclaim.
    pub pool_pages: u32,
    /// How long a batch of fills may gather before it is written.
    pub fill_linger: Duration,
    /// How long blocks may wait for the origin's flush that makes them clean.
    pub origin_flush_after: Duration,
    /// Whether a log of which a part has rotted will do.
    pub rotted_log: RottedLog,
    /// Whether the cache device is in service.
    pub service: Service,
    /// Whether the origin may serve what is cached.
    pub origin_offload: OriginOffload,
    /// Whether emptied segments are discarded.
    pub freed_segments: FreedSegments,
    /// Bytes that may be written to the cache device in a day, but for what clients write.
    pub write_budget: Option<NonZeroU64>,
    /// Steps that searches for the cached blocks of long extents take in a turn: 4,096 are some 20 microseconds.
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
