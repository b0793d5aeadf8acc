//! Operations on a server in this process, with its devices in a folder.

mod additions;
mod insertion;

use std::path::PathBuf;

use kickcache_nbd::client::{Client, ConnectOptions};
use kickcache_units::Size;

use crate::devices::state::{OriginRecord, StateStore};
use crate::plan::address::NbdAddress;
use crate::plan::cache_spec::{CacheService, CacheSpec};
use crate::plan::frontends::FrontendSpecs;
use crate::plan::origin_source::OriginSource;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::config::{ServerConfig, StatePlace};
use crate::serve::server::{Server, ServerHandle};
use crate::words::ModeWord;

/// A folder with devices and records.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir_in("/var/tmp").unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn state(&self) -> StatePlace {
        StatePlace::Directory(self.path("state"))
    }

    /// A volume in write-back whose dirty blocks stay dirty; its origin of 8 MiB is made if it is missing.
    fn volume(&self, name: &str) -> VolumeSpec {
        let origin = self.path(name);
        if !origin.exists() {
            std::fs::write(&origin, vec![1; 8 << 20]).unwrap();
        }
        VolumeSpec {
            mode: ModeWord::WriteBack,
            idle_after: std::time::Duration::from_secs(86_400),
            frontends: FrontendSpecs::nbd(vec![self.address(name)]),
            ..VolumeSpec::new(name, OriginSource::Path(origin))
        }
    }

    fn address(&self, name: &str) -> NbdAddress {
        NbdAddress::Unix(self.path(&format!("{name}.sock")))
    }

    fn start(&self, volumes: Vec<VolumeSpec>, service: CacheService) -> ServerHandle {
        let size = Some(Size::from_bytes(8 << 20));
        let cache = CacheSpec { size, service, ..CacheSpec::new(&self.path("cache"), volumes) };
        Server::start(ServerConfig { state: self.state(), ..ServerConfig::new(cache) }).unwrap()
    }

    fn client(&self, name: &str) -> Client {
        let options = ConnectOptions { export: name.into(), ..ConnectOptions::default() };
        Client::connect_unix(self.path(&format!("{name}.sock")), &options).unwrap()
    }

    /// The records of all origins.
    fn records(&self) -> Vec<OriginRecord> {
        StateStore::new(&self.path("state")).origins().unwrap().records
    }
}

fn stop(server: &ServerHandle) {
    server.stop();
    server.join().unwrap();
}
