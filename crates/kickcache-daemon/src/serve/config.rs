//! The parameters of a server: volumes, addresses and limits.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kickcache_engine::config::EngineSettings;
use kickcache_engine::units::BlockKey;

use crate::devices::state::{StateStore, default_directory};
use crate::driver::io_engine::IoEngine;
use crate::driver::payload_memory::PayloadMemory;
use crate::plan::Exposure;
use crate::plan::cache_spec::CacheSpec;
use crate::plan::memory_limit::MemoryLimit;
use crate::plan::tls_plan::TlsPlan;
use crate::serve::stop_wish::StopWish;

pub struct ServerConfig {
    pub cache: CacheSpec,
    pub io_engine: IoEngine,
    pub engine: EngineSettings,
    pub limits: Limits,
    pub memory: PayloadMemory,
    /// Whether TCP addresses other than loopback are accepted; TLS that requires a certificate of each client permits them, too.
    pub exposure: Exposure,
    pub tls: TlsPlan,
    pub state: StatePlace,
    pub inherited: InheritedSockets,
    pub control: Option<PathBuf>,
    /// Blocks on a cache device being only drained for which the origins have newer data.
    pub overtaken: Vec<BlockKey>,
    /// Ends waits for the server of an origin.
    pub stop_wish: StopWish,
}

impl ServerConfig {
    /// The volumes of a cache device, with default settings; TCP on loopback only.
    pub fn new(cache: CacheSpec) -> ServerConfig {
        let memory = PayloadMemory::new(MemoryLimit::default().bytes(), cache.volumes.len());
        ServerConfig {
            cache,
            memory,
            io_engine: IoEngine::default(),
            engine: EngineSettings::default(),
            limits: Limits::default(),
            exposure: Exposure::default(),
            tls: TlsPlan::default(),
            inherited: InheritedSockets::default(),
            state: StatePlace::default(),
            control: None,
            overtaken: Vec::new(),
            stop_wish: StopWish::default(),
        }
    }
}

/// Sockets that the process was started with, for the first volume.
#[derive(Debug, Default)]
pub struct InheritedSockets {
    /// Sockets that listen for NBD clients.
    pub nbd: Vec<OwnedFd>,
    /// A socket that listens for a virtual machine, or is connected to one.
    pub vhost_user: Option<OwnedFd>,
}

/// The place of the records about cache devices and origins.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum StatePlace {
    #[default]
    NotKept,
    Directory(PathBuf),
    /// The records should be kept, but no directory is available.
    Missing,
}

impl StatePlace {
    /// The named directory, or the default one; [`StatePlace::Missing`] if there is neither.
    pub fn named(directory: Option<&Path>) -> StatePlace {
        match directory.map(Path::to_path_buf).or_else(default_directory) {
            Some(directory) => StatePlace::Directory(directory),
            None => StatePlace::Missing,
        }
    }

    pub fn store(&self) -> Option<StateStore> {
        match self {
            StatePlace::Directory(directory) => Some(StateStore::new(directory)),
            StatePlace::NotKept | StatePlace::Missing => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// If an NBD listener has this many clients past their handshake, further connections are closed at once.
    pub connections_max: usize,
    /// The most clients of an NBD listener in their handshake; one more ends the oldest handshake.
    pub handshakes_max: usize,
    /// The most requests in flight of one NBD connection; a read is in flight until its data is sent.
    pub requests_max: u32,
    /// The most payload bytes in flight of one NBD connection or virtual machine; a request that is alone in
    /// flight may be larger.
    pub connection_bytes_max: u64,
    /// The longest time from the acceptance of an NBD client to the end of its handshake.
    pub handshake_max: Duration,
    /// Time after which a slow NBD client that holds memory is disconnected, if requests wait for this
    /// memory.
    pub reply_max: Duration,
    /// Time that NBD clients have to take their last replies, from the end of the engine on.
    pub goodbye_max: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 128,
            handshakes_max: 32,
            requests_max: 256,
            connection_bytes_max: 32 << 20,
            handshake_max: Duration::from_secs(10),
            reply_max: Duration::from_secs(30),
            goodbye_max: Duration::from_secs(1),
        }
    }
}
