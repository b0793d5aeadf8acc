//! The state of a server for reports, and the data of its verbs.

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

/// The cache device, without a lease of its superblock.
pub(crate) struct DeviceInUse {
    pub(crate) superblock: Superblock,
    pub(crate) cache: Arc<BlockFile>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct NamedSettings {
    pub volume: String,
    /// The new settings; the server overwrites their volume id.
    pub settings: VolumeSettings,
    pub client_cap: ClientCap,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recorded {
    pub volume_bytes: u64,
    pub started: SystemTime,
}

/// A device that is going to take over from the cache device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TakeoverBegun {
    pub with: String,
    pub bytes: u64,
}

/// The step of a device that is to take over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TakeoverStage {
    Preparing,
    /// The cache device is copied to the new device, which is then flushed.
    Copying,
    /// The copy is complete, and the new device is not the cache device yet.
    TakingOver,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TakeoverProgress {
    pub with: String,
    pub stage: TakeoverStage,
    pub copied: u64,
    pub bytes: u64,
}

/// An unserved volume with blocks in the cache that its origin lacks or has not flushed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Orphan {
    pub name: String,
    /// The identity of the volume's origin.
    pub origin: String,
    pub blocks: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryUse {
    /// Bytes of payload memory that are charged to requests.
    pub bytes: usize,
    pub waiting: usize,
}

#[derive(Clone, PartialEq, Debug)]
pub struct ServerStatus {
    /// The time of this status, by the server's clock.
    pub now: Instant,
    /// The path of the cache device, also of one that is out of use.
    pub cache: PathBuf,
    pub io_engine: IoEngine,
    pub engine: Status,
    pub wear: Wear,
    /// Size of the cache device in bytes, according to its superblock.
    pub cache_size: u64,
    /// Size of the cache device in bytes after the growth in progress; `None` without a growth, and until that
    /// size has been checked.
    pub growing_to: Option<u64>,
    pub takeover: Option<TakeoverProgress>,
    /// Why the last replacement failed; `None` also while a new one runs, and for a refused
    /// command.
    pub takeover_failure: Option<String>,
    /// Whether the present cache device took over from another one since the start.
    pub has_taken_over: bool,
    pub cache_trouble: Trouble,
    pub recovery: Recovery,
    /// The volumes; an added volume takes the place of a removed one, or is last.
    pub volumes: Vec<VolumeInfo>,
    pub orphans: Vec<Orphan>,
    /// The problems of the origins, in the order of the volumes.
    pub origin_troubles: Vec<Trouble>,
    /// By volume.
    pub activities: Vec<Activities>,
    /// By volume; `None` where no curve was requested.
    pub curves: Vec<Option<HitRatioCurve>>,
    /// The reason why a stop waits, in words; `None` while the server serves.
    pub awaited: Option<String>,
    /// The errors by device and kind; errors of removed origins and former cache devices do not count.
    pub faults: Vec<FaultCount>,
    pub memory: MemoryUse,
    /// Connections of NBD clients, also in their handshake.
    pub connections: usize,
    /// Why the present files of certificates cannot be used; `None` if they can.
    pub tls_failure: Option<String>,
    /// By volume.
    pub sessions: Vec<Sessions>,
    /// By volume.
    pub client_caps: Vec<ClientCap>,
    /// By volume: requests that had to wait for its cap since the volume was added.
    pub held_requests: Vec<u64>,
    /// By volume.
    pub recordings: Vec<usize>,
    /// By volume.
    pub served_at: Vec<ServedAt>,
}

/// State of a server for metrics.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerSample {
    /// The state: without activities and with at most one curve, except in [`ServerSample::whole`].
    pub status: ServerStatus,
    /// By volume: how long requests took; empty in [`ServerSample::whole`].
    pub latencies: Vec<Latencies>,
    /// How long the loop was occupied by this sample.
    pub pause: Duration,
}

impl ServerSample {
    pub fn whole(status: ServerStatus) -> ServerSample {
        ServerSample { status, latencies: Vec::new(), pause: Duration::from_nanos(0) }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerHealth {
    pub volumes: usize,
    /// Bytes of the dirty blocks of served volumes; blocks that are written back and not flushed do not
    /// count.
    pub dirty_bytes: u64,
    pub awaited: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Activities {
    /// The activity since the volume was added.
    pub since_start: Activity,
    /// The activity of the present interval and the interval before.
    pub recent: Activity,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trouble {
    pub errors: Option<Errors>,
    /// For how long the device has completed none of its outstanding operations, if for 10 s or
    /// longer; `None` for a cache device while clients wait for the device that is to take over.
    pub silent: Option<Duration>,
    /// If the server of a remote origin is unreachable: since when, and why.
    pub away: Option<ServerOutage>,
    /// Where the data of a removed file are, see [`BlockFile::unlinked_at`].
    ///
    /// [`BlockFile::unlinked_at`]: crate::driver::device::BlockFile::unlinked_at
    pub unlinked_at: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errors {
    /// The number of errors since the device was put into use, at the earliest since the start.
    pub count: u64,
    pub last: Fault,
    pub ago: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultCount {
    pub device: Device,
    pub operation: &'static str,
    pub cause: Cause,
    /// How often this error occurred since the device was put into use; for devices that are to take over, since the start.
    pub count: u64,
}
