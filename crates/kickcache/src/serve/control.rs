//! What other threads ask of the event loop.

use std::path::PathBuf;
use std::sync::mpsc::Sender;

use kickcache_engine::config::Mode;
use kickcache_engine::stats::Status;
use kickcache_engine::units::VolumeId;

use crate::export::nbd::ExportInfo;
use crate::serve::error::ServeError;

/// A command to the event loop; the answer goes back through the sender in it.
pub(crate) enum Control {
    Status(Sender<ServerStatus>),
    SetMode(String, Mode, Sender<Result<(), ServeError>>),
    Drain(String, Sender<Result<(), ServeError>>),
    Resize(String, Sender<Result<u64, ServeError>>),
    Stop,
}

/// State of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerStatus {
    /// The cache device.
    pub cache: PathBuf,
    /// The engine's state and counters.
    pub engine: Status,
    /// The volumes, in the order of the configuration.
    pub volumes: Vec<VolumeInfo>,
    /// Connections of clients.
    pub connections: usize,
    /// Where NBD is served.
    pub addresses: Vec<String>,
}

/// What is fixed about a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeInfo {
    /// Its name.
    pub name: String,
    /// Its id in the engine's status.
    pub id: VolumeId,
    /// Bytes.
    pub size: u64,
    /// What the cache device recognises the origin by.
    pub origin: String,
    /// Whether clients may only read.
    pub read_only: bool,
}

impl VolumeInfo {
    /// What NBD clients are told.
    pub(crate) fn export(&self) -> ExportInfo {
        ExportInfo {
            name: self.name.clone(),
            description: format!("{} behind a kickcache", self.origin),
            size: self.size,
            read_only: self.read_only,
            rotational: false,
        }
    }
}
