//! What to serve, where, and within which limits.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use kickcache_engine::config::{EngineSettings, VolumeSettings};

use crate::driver::executor::IoEngine;
use crate::serve::origin::source::OriginSource;
use crate::state::StateStore;

/// Everything that a server needs to start.
pub struct ServerConfig {
    /// The cache device.
    pub cache: CacheConfig,
    /// The volumes, at least one.
    pub volumes: Vec<VolumeConfig>,
    /// Which way to the devices.
    pub io_engine: IoEngine,
    /// Memory and timing of the engine.
    pub engine: EngineSettings,
    /// Limits on clients.
    pub limits: Limits,
    /// Whether TCP addresses other than loopback are accepted.
    pub tcp: TcpPolicy,
    /// Where it is kept what must be known when the cache device is missing.
    pub state: StatePlace,
    /// The control socket of the daemon, if it has one: messages name it.
    pub control: Option<PathBuf>,
}

impl ServerConfig {
    /// Volumes behind a cache device, served by what fits the machine until the handle stops the server; TCP on
    /// loopback only.
    pub fn new(cache: CacheConfig, volumes: Vec<VolumeConfig>) -> ServerConfig {
        ServerConfig {
            cache,
            volumes,
            io_engine: IoEngine::default(),
            engine: EngineSettings::default(),
            limits: Limits::default(),
            tcp: TcpPolicy::default(),
            state: StatePlace::default(),
            control: None,
        }
    }
}

/// Where the cache lies.
pub struct CacheConfig {
    /// File or block device.
    pub path: PathBuf,
    /// Bytes of a file that does not exist yet or is empty.
    pub size: Option<u64>,
    /// Whether it is used.
    pub service: CacheService,
    /// Whether it may take the place of one that may hold dirty blocks.
    pub replacement: Replacement,
}

/// Whether a cache device may take the place of one that may hold blocks which the origins lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replacement {
    /// It may not: the other one is missing, and should be looked for.
    #[default]
    Refuse,
    /// The user wants it; what the other one holds is lost.
    Accept,
}

/// Where it is kept which cache device an origin was served with, and whether that is out of service.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum StatePlace {
    /// Nowhere; for servers that nobody depends on.
    #[default]
    NotKept,
    /// In this directory.
    Directory(PathBuf),
    /// It should be kept, and there is no place for it.
    Missing,
}

impl StatePlace {
    /// The store of the directory, if there is one.
    pub fn store(&self) -> Option<StateStore> {
        match self {
            StatePlace::Directory(directory) => Some(StateStore::new(directory)),
            StatePlace::NotKept | StatePlace::Missing => None,
        }
    }
}

/// Whether a cache device is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheService {
    /// It is.
    #[default]
    InService,
    /// It is not even opened: the volumes are served from their origins alone.
    LeftOut,
    /// It is out of service, and its dirty blocks are written back all the same. For tools.
    WrittenBackOnly,
}

/// One volume.
pub struct VolumeConfig {
    /// Its name on the cache device and as an export.
    pub name: String,
    /// The slow device.
    pub origin: OriginSource,
    /// Mode and policies; the id in it is overwritten.
    pub settings: VolumeSettings,
    /// Where it is served; one address may serve several volumes. Nowhere: its dirty blocks are written back.
    pub exports: Vec<NbdAddress>,
    /// Where a virtual machine finds it, if it may.
    pub vhost_user: Option<VhostUserPort>,
    /// Whether clients may write.
    pub write_access: WriteAccess,
    /// Whether an origin of another name is accepted from now on.
    pub origin_move: OriginMove,
    /// Whether an origin that is larger than before is accepted.
    pub origin_growth: OriginGrowth,
    /// Whether somebody else wrote to the origin since it was served last.
    pub origin_content: OriginContent,
    /// Whether the origin may carry the superblock of a cache device.
    pub origin_cache: OriginCache,
    /// Whether the origin can be flushed.
    pub origin_flush: OriginFlush,
}

impl VolumeConfig {
    /// A volume that is served nowhere yet; its origin must be as the cache device knows it.
    pub fn new(name: &str, origin: OriginSource, settings: VolumeSettings) -> VolumeConfig {
        VolumeConfig {
            name: name.into(),
            origin,
            settings,
            exports: Vec::new(),
            vhost_user: None,
            write_access: WriteAccess::default(),
            origin_move: OriginMove::default(),
            origin_growth: OriginGrowth::default(),
            origin_content: OriginContent::default(),
            origin_cache: OriginCache::default(),
            origin_flush: OriginFlush::default(),
        }
    }
}

/// Where, and as what, a virtual machine finds a volume.
#[derive(Debug)]
pub struct VhostUserPort {
    /// A unix socket, or one that was inherited.
    pub address: NbdAddress,
    /// Bytes of a logical block that the guest is told: 512 or 4096.
    pub block_size: u32,
}

/// Where NBD is served.
#[derive(Debug)]
pub enum NbdAddress {
    /// A unix socket, made with mode 0600.
    Unix(PathBuf),
    /// TCP.
    Tcp(SocketAddr),
    /// A listening socket that the process was started with; see
    /// [`crate::driver::inherited::inherited_sockets`].
    Inherited(OwnedFd),
}

/// Whether clients may write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WriteAccess {
    /// Yes.
    #[default]
    ReadWrite,
    /// No; the origin is opened read-only.
    ReadOnly,
}

/// Whether an origin may have moved to another path or device name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OriginMove {
    /// An origin of another name is refused.
    #[default]
    Refuse,
    /// It is accepted if its size is that of the known one.
    Accept,
}

/// Whether an origin may have been extended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OriginGrowth {
    /// One of another size is refused.
    #[default]
    Refuse,
    /// A larger one is accepted.
    Accept,
}

/// Whether an origin still holds what the cache device knows of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OriginContent {
    /// Nobody wrote to it.
    #[default]
    Kept,
    /// Somebody did: what is cached is worthless. Refused while blocks are dirty.
    Changed,
}

/// Whether an origin that the cache device does not know may be a cache device itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OriginCache {
    /// It may not: writes would destroy what is cached there.
    #[default]
    Refuse,
    /// The user wants it.
    Accept,
}

/// Whether an origin can be flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OriginFlush {
    /// It must be: a flush is what makes a block clean, and keeps what a client flushed.
    #[default]
    Needed,
    /// The user says that it need not: what it was given counts as durable.
    Assumed,
}

/// Which TCP addresses are accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TcpPolicy {
    /// Loopback.
    #[default]
    LoopbackOnly,
    /// Any: there is neither encryption nor authentication.
    Insecure,
}

/// Limits on clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections at once.
    pub connections_max: usize,
    /// Requests of one connection in flight.
    pub requests_max: u32,
    /// Payload bytes of one connection in flight.
    pub connection_bytes_max: u64,
    /// Payload bytes of all connections in flight; each may have one request beyond it.
    pub total_bytes_max: usize,
    /// Time that a client has for its handshake.
    pub handshake_max: Duration,
    /// Time that clients have to take their last replies when the server stops.
    pub goodbye_max: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 128,
            requests_max: 256,
            connection_bytes_max: 32 << 20,
            total_bytes_max: 256 << 20,
            handshake_max: Duration::from_secs(10),
            goodbye_max: Duration::from_secs(1),
        }
    }
}
