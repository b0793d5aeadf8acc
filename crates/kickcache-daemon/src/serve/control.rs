//! The state of a server for reports, and the results of its verbs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use kickcache_curve::curve::HitRatioCurve;
use kickcache_engine::config::VolumeSettings;
use kickcache_engine::device::Device;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::stats::{Status, Wear};
use kickcache_engine::time::{Duration, Instant};

use crate::driver::device::BlockFile;
use crate::driver::fault::{Cause, Fault};
use crate::driver::io_engine::IoEngine;
use crate::driver::queued_device::ServerOutage;
use crate::latency::Latencies;
use crate::plan::client_cap::ClientCap;
use crate::plan::frontends::{ServedAt, Sessions};
pub use crate::serve::recovery::Recovery;
use crate::serve::times::Activity;
pub use crate::serve::volume_info::VolumeInfo;

/// The cache device for a check. The superblock may change meanwhile, as no lease is held.
pub(crate) struct DeviceInUse {
    /// The superblock that the loop uses.
    pub(crate) superblock: Superblock,
    pub(crate) cache: Arc<BlockFile>,
}

/// Mode, policies and client caps of a volume.
#[derive(Clone, PartialEq, Debug)]
pub struct NamedSettings {
    /// Its name.
    pub volume: String,
    /// The new settings; the server overwrites their volume id.
    pub settings: VolumeSettings,
    /// The caps of the volume's clients.
    pub client_cap: ClientCap,
}

/// A running recording, and its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// Bytes of the volume.
    pub volume_bytes: u64,
    /// When the recording began.
    pub started: SystemTime,
}

/// A device that is going to take over from the cache device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TakeoverBegun {
    /// The path of the new device.
    pub with: String,
    /// Bytes that are copied to the new device.
    pub bytes: u64,
}

/// The step of a device that is to take over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TakeoverStage {
    /// The new device is prepared for the copy.
    Preparing,
    /// The cache device is copied to the new device, which is then flushed.
    Copying,
    /// The copy is complete, and the new device is not the cache device yet.
    TakingOver,
}

/// The progress of the copy to a device that is to take over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TakeoverProgress {
    /// The path of the new device.
    pub with: String,
    /// The present step.
    pub stage: TakeoverStage,
    /// Bytes that have been copied.
    pub copied: u64,
    /// Bytes to copy in total.
    pub bytes: u64,
}

/// An unserved volume with blocks in the cache that its origin lacks or has not flushed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Orphan {
    /// Its name.
    pub name: String,
    /// The identity of the volume's origin.
    pub origin: String,
    /// Blocks that the origin lacks, or has not flushed.
    pub blocks: u64,
}

/// A server's use of the memory for payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryUse {
    /// Bytes of payload memory that are charged to requests.
    pub bytes: usize,
    /// Requests that wait for memory.
    pub waiting: usize,
}

/// State of a server.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerStatus {
    /// The time of this status, by the server's clock.
    pub now: Instant,
    /// The path of the cache device, also of one that is out of use.
    pub cache: PathBuf,
    /// How devices are read and written.
    pub io_engine: IoEngine,
    /// The engine's state and counters.
    pub engine: Status,
    /// Bytes written to the cache device, and the write budget.
    pub wear: Wear,
    /// Size of the cache device in bytes, according to its superblock.
    pub cache_size: u64,
    /// Size of the cache device in bytes after the growth in progress; `None` without a growth, and until that
    /// size has been checked.
    pub growing_to: Option<u64>,
    /// The progress of the copy to a device that is to take over from the cache device.
    pub takeover: Option<TakeoverProgress>,
    /// Why the last replacement failed; `None` also if a new one has begun, or if the new device was refused
    /// in its preparation and the caller received the refusal.
    pub takeover_failure: Option<String>,
    /// Whether the present cache device took over from another one since the start.
    pub has_taken_over: bool,
    /// The problem of the cache device.
    pub cache_trouble: Trouble,
    /// What the start found on the cache device.
    pub recovery: Recovery,
    /// The volumes, in the order of the configuration; an added volume takes the place of a removed one, or
    /// is last.
    pub volumes: Vec<VolumeInfo>,
    /// Unserved volumes with blocks in the cache that their origins lack or have not flushed.
    pub orphans: Vec<Orphan>,
    /// The problems of the origins, in the order of the volumes.
    pub origin_troubles: Vec<Trouble>,
    /// How long the requests of each volume took, in the same order; empty activities in a sample for metrics.
    pub activities: Vec<Activities>,
    /// The hit ratios of LRU caches of other sizes for each volume, in the same order; `None` where they were not
    /// requested.
    pub curves: Vec<Option<HitRatioCurve>>,
    /// The devices, records or requests that a stop waits for, in words; `None` while the server serves.
    pub awaited: Option<String>,
    /// The errors by device and kind; errors of removed origins and former cache devices do not count.
    pub faults: Vec<FaultCount>,
    /// Memory for payload.
    pub memory: MemoryUse,
    /// Connections of NBD clients, also in their handshake.
    pub connections: usize,
    /// Why the present files of certificates cannot be used; `None` if they can.
    pub tls_failure: Option<String>,
    /// Sessions of clients with each volume, in the same order.
    pub sessions: Vec<Sessions>,
    /// The caps of the clients of each volume, in the same order.
    pub client_caps: Vec<ClientCap>,
    /// Requests of each volume that had to wait for its cap since the volume was added, in the same order.
    pub held_requests: Vec<u64>,
    /// The number of running recordings, in the same order.
    pub recordings: Vec<usize>,
    /// Where each volume is served, in the same order.
    pub served_at: Vec<ServedAt>,
}

/// State of a server for metrics: expensive parts are omitted, and returned in turns.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerSample {
    /// The state, without activities, and with the curve of one volume only, of each volume in turn; a whole
    /// status in [`ServerSample::whole`].
    pub status: ServerStatus,
    /// How long requests took, in the order of the volumes; empty in [`ServerSample::whole`].
    pub latencies: Vec<Latencies>,
    /// How long the loop was occupied by this sample.
    pub pause: Duration,
}

impl ServerSample {
    /// A whole status, without the parts for metrics.
    pub fn whole(status: ServerStatus) -> ServerSample {
        ServerSample { status, latencies: Vec::new(), pause: Duration::from_nanos(0) }
    }
}

/// The most important numbers of a server's state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerHealth {
    /// The number of served volumes.
    pub volumes: usize,
    /// Bytes of the dirty blocks of these volumes; blocks that are written back and not flushed do not count.
    pub dirty_bytes: u64,
    /// The devices, records or requests that a stop waits for, in words; `None` while the server serves.
    pub awaited: Option<String>,
}

/// How long the requests of a volume took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Activities {
    /// The activity since the volume was added.
    pub since_start: Activity,
    /// The activity of the present interval and the interval before; an interval ends at the first counted
    /// request or query after 30 s.
    pub recent: Activity,
}

/// The problem of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trouble {
    /// The errors of the device, if it had any.
    pub errors: Option<Errors>,
    /// For how long the device has completed none of its outstanding operations, if for 10 s or longer; `None` for a
    /// cache device that only waits for the device that is to take over.
    pub silent: Option<Duration>,
    /// If the server of a remote origin is unreachable: since when, and why.
    pub away: Option<ServerOutage>,
    /// Where the data of a removed file are, see [`BlockFile::unlinked_at`].
    ///
    /// [`BlockFile::unlinked_at`]: crate::driver::device::BlockFile::unlinked_at
    pub unlinked_at: Option<String>,
}

/// The errors of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errors {
    /// The number of errors since the device was put into use, at the earliest since the start.
    pub count: u64,
    /// The last error.
    pub last: Fault,
    /// The time since the last error.
    pub ago: Duration,
}

/// Errors of a device of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultCount {
    /// The device.
    pub device: Device,
    /// The failed operation.
    pub operation: &'static str,
    /// The cause of the failure.
    pub cause: Cause,
    /// How often this error occurred since the device was put into use; for devices that are to take over, since the start.
    pub count: u64,
}
