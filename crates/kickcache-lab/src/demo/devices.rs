//! The demo's devices in a temporary directory, and the servers over them.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use kickcache_command::interrupt::Interrupt;
use kickcache_daemon::plan::address::NbdAddress;
use kickcache_daemon::plan::cache_spec::CacheSpec;
use kickcache_daemon::plan::cutoff::Cutoff;
use kickcache_daemon::plan::frontends::FrontendSpecs;
use kickcache_daemon::plan::origin_source::OriginSource;
use kickcache_daemon::plan::origin_source::outside::OutsideSource;
use kickcache_daemon::plan::volume_spec::VolumeSpec;
use kickcache_daemon::serve::config::ServerConfig;
use kickcache_daemon::serve::server::{Server, ServerHandle};
use kickcache_daemon::words::ModeWord;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_nbd::client::{Client, ConnectOptions};
use kickcache_units::Size;
use rustix::fs::statvfs;
use tempfile::TempDir;

use crate::demo::content::Content;
use crate::demo::result::Phase;
use crate::demo::slow_disk::SlowDisk;
use crate::demo::workload::Scale;

pub(crate) const DATA: &str = "data";
/// The export whose blocks fill the cache before the run with stale data.
const STALE: &str = "stale";
const PIECE: usize = 1 << 20;
const STALE_READS: u32 = 2;

#[derive(Debug)]
pub(crate) struct DemoDevices {
    directory: TempDir,
    scale: Scale,
    seed: u64,
}

impl DemoDevices {
    /// Makes the directory and writes the fast file.
    ///
    /// # Errors
    /// If there is no room, a file cannot be written, or the demo was interrupted.
    pub(crate) fn set_up(
        directory: Option<&Path>,
        scale: Scale,
        seed: u64,
        interrupt: &Interrupt,
    ) -> anyhow::Result<DemoDevices> {
        let parent = directory.map_or_else(default_directory, Path::to_path_buf);
        check_room(&parent, scale)?;
        let directory = tempfile::Builder::new()
            .prefix("kickcache-demo-")
            .tempdir_in(&parent)
            .with_context(|| format!("cannot make a directory in {}", parent.display()))?;
        let devices = DemoDevices { directory, scale, seed };
        devices.write_fast_file(interrupt)?;
        Ok(devices)
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("nbd.sock")
    }

    fn fast_file(&self) -> PathBuf {
        self.directory.path().join("fast.img")
    }

    fn write_fast_file(&self, interrupt: &Interrupt) -> anyhow::Result<()> {
        let path = self.fast_file();
        let failed = || format!("cannot write {}", path.display());
        let mut file = File::create_new(&path).with_context(failed)?;
        let mut piece = vec![0; PIECE];
        let blocks = self.scale.device_bytes() / BLOCK_SIZE;
        let step = PIECE / usize::try_from(BLOCK_SIZE).expect("small");
        for block in (0..blocks).step_by(step) {
            interrupt.check()?;
            Content::FastFile.fill(block, &mut piece);
            file.write_all(&piece).with_context(failed)?;
        }
        file.sync_all().with_context(failed)
    }

    /// Starts the server of a phase; for [`Phase::Stale`], fills its cache with stale data.
    ///
    /// # Errors
    /// If it cannot start, or the stale data cannot be brought in.
    pub(crate) fn start(&self, phase: Phase, interrupt: &Interrupt) -> anyhow::Result<ServerHandle> {
        let server = Server::start(self.config(phase))?;
        if phase == Phase::Stale {
            self.bring_stale_data_in(interrupt)?;
        }
        Ok(server)
    }

    /// Stops the server of a phase in order, and removes its cache device, except after [`Phase::Stale`].
    ///
    /// # Errors
    /// The error that ended the server, or of the removal.
    pub(crate) fn stop(&self, phase: Phase, server: &ServerHandle) -> anyhow::Result<()> {
        server.stop();
        server.join()?;
        if phase != Phase::Stale {
            std::fs::remove_file(self.cache(phase))?;
        }
        Ok(())
    }

    pub(crate) fn content(phase: Phase) -> Content {
        match phase {
            Phase::FastFile => Content::FastFile,
            Phase::SlowDisk | Phase::Cold | Phase::Stale | Phase::Restart => Content::SlowDisk,
        }
    }

    fn cache(&self, phase: Phase) -> PathBuf {
        let name = match phase {
            Phase::SlowDisk | Phase::FastFile => "unused.cache",
            Phase::Cold => "cold.cache",
            Phase::Stale | Phase::Restart => "stale.cache",
        };
        self.directory.path().join(name)
    }

    fn config(&self, phase: Phase) -> ServerConfig {
        ServerConfig::new(self.cache_spec(phase))
    }

    pub(crate) fn cache_spec(&self, phase: Phase) -> CacheSpec {
        let (bytes, seed) = (self.scale.device_bytes(), self.seed);
        let slow = || OriginSource::Outside(OutsideSource::new(move || Box::new(SlowDisk::new(bytes, seed))));
        let fast = || OriginSource::Path(self.fast_file());
        let volumes = match phase {
            Phase::SlowDisk => vec![self.volume(DATA, slow(), ModeWord::Bypass)],
            Phase::FastFile => vec![self.volume(DATA, fast(), ModeWord::Bypass)],
            Phase::Cold => vec![self.volume(DATA, slow(), ModeWord::WriteThrough)],
            Phase::Stale | Phase::Restart => {
                let mut stale = self.volume(STALE, fast(), ModeWord::WriteThrough);
                stale.sequential_cutoff = Cutoff::Off;
                vec![self.volume(DATA, slow(), ModeWord::WriteThrough), stale]
            }
        };
        let size = Some(Size::from_bytes(self.scale.cache_bytes));
        CacheSpec { size, ..CacheSpec::new(&self.cache(phase), volumes) }
    }

    fn volume(&self, name: &str, origin: OriginSource, mode: ModeWord) -> VolumeSpec {
        let frontends = FrontendSpecs::nbd(vec![NbdAddress::Unix(self.socket())]);
        VolumeSpec { mode, frontends, ..VolumeSpec::new(name, origin) }
    }

    fn bring_stale_data_in(&self, interrupt: &Interrupt) -> anyhow::Result<()> {
        let options = ConnectOptions { export: STALE.into(), ..ConnectOptions::default() };
        let mut client = Client::connect_unix(self.socket(), &options)?;
        let mut piece = vec![0; PIECE];
        for _ in 0..STALE_READS {
            for offset in (0..self.scale.device_bytes()).step_by(PIECE) {
                interrupt.check()?;
                client.read_at(offset, &mut piece)?;
            }
        }
        Ok(client.disconnect()?)
    }
}

/// `$TMPDIR`, or a directory that is on a disk on almost every system.
fn default_directory() -> PathBuf {
    std::env::var_os("TMPDIR")
        .filter(|value| !value.is_empty())
        .map_or_else(|| "/var/tmp".into(), PathBuf::from)
}

fn check_room(directory: &Path, scale: Scale) -> anyhow::Result<()> {
    let name = directory.display();
    let system = statvfs(directory).with_context(|| format!("{name} cannot be used for the demo's files"))?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let needed = scale.device_bytes() + scale.cache_bytes + (16 << 20);
    if free < needed {
        let mebibytes = |bytes: u64| bytes >> 20;
        let (free, needed) = (mebibytes(free), mebibytes(needed));
        anyhow::bail!(
            "{name} has {free} MiB free and the demo needs {needed} MiB; name another one with --dir"
        );
    }
    Ok(())
}
