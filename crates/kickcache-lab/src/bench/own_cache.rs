//! A target that the bench serves itself: a cache device in front of an origin, by the server that the daemon runs.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use kickcache_command::interrupt::{Interrupt, LOOK_EVERY};
use kickcache_daemon::devices::cache_device::{CacheDevice, Overwrite};
use kickcache_daemon::plan::address::NbdAddress;
use kickcache_daemon::plan::cache_spec::CacheSpec;
use kickcache_daemon::plan::frontends::FrontendSpecs;
use kickcache_daemon::plan::nbd_uri::NbdUri;
use kickcache_daemon::plan::volume_spec::VolumeSpec;
use kickcache_daemon::serve::config::ServerConfig;
use kickcache_daemon::serve::server::{Server, ServerHandle};
use kickcache_units::Size;

use crate::bench::options::Data;
use crate::bench::spec::CacheTarget;

pub(super) const VOLUME: &str = "bench";

/// The least time between two checks of the origin.
const ORIGIN_EVERY: Duration = Duration::from_secs(1);
/// How long the origin may be unreachable, or not answer, before the bench ends with an error.
const AWAY_MAX: Duration = Duration::from_secs(30);
/// How long the server may take to stop; then [`OwnCache::stop`] fails and leaves it behind.
const STOP_MAX: Duration = Duration::from_secs(30);
/// As [`STOP_MAX`], once the origin was unreachable or did not answer for [`AWAY_MAX`].
const STOP_MAX_AWAY: Duration = Duration::from_secs(3);
/// As [`STOP_MAX`], once the bench is interrupted.
const STOP_MAX_INTERRUPTED: Duration = Duration::from_millis(500);

pub(super) struct OwnCache {
    spec: CacheTarget,
    socket: PathBuf,
    is_new: bool,
    /// Whether the next [`OwnCache::down`] removes the cache file, because [`OwnCache::up`] creates it.
    is_made: bool,
    overwrite: Overwrite,
    server: Option<ServerHandle>,
    interrupt: Arc<Interrupt>,
    /// The time of the last check of the origin; at first, that of the creation of this value.
    looked_at: Cell<Instant>,
    /// Whether the origin was once unreachable, or did not answer, for [`AWAY_MAX`].
    is_away: Cell<bool>,
}

impl OwnCache {
    pub(super) fn new(
        spec: &CacheTarget,
        directory: &Path,
        data: Data,
        interrupt: &Arc<Interrupt>,
    ) -> OwnCache {
        let overwrite = if data == Data::Destroy { Overwrite::Allow } else { Overwrite::Refuse };
        let is_new = spec.cache.symlink_metadata().is_err();
        let (spec, socket, interrupt) = (spec.clone(), directory.join("nbd.sock"), Arc::clone(interrupt));
        OwnCache {
            spec,
            socket,
            is_new,
            is_made: false,
            overwrite,
            server: None,
            interrupt,
            looked_at: Cell::new(Instant::now()),
            is_away: Cell::new(false),
        }
    }

    /// Takes down a cache that is up, formats the cache device, and serves it.
    ///
    /// # Errors
    /// If it holds data that may not be overwritten, another program created its file meanwhile, or it cannot be
    /// formatted or served.
    pub(super) fn up(&mut self) -> anyhow::Result<()> {
        self.down()?;
        ensure!(
            !self.is_new || self.spec.cache.symlink_metadata().is_err(),
            "{} was made meanwhile, as by another bench; let that one end first, or choose another cache file",
            self.spec.cache.display()
        );
        self.is_made = self.is_new;
        let size = self.spec.size.map(Size::bytes);
        CacheDevice::format(&self.spec.cache, size, self.overwrite).map_err(|error| {
            let sentence = error.to_string();
            // The flag of the bench has another name than that of the other commands.
            if sentence.contains("--force") {
                anyhow::Error::msg(sentence.replace("--force", "--destroy-data"))
            } else {
                error.into()
            }
        })?;
        // From now on, the content of the cache device is the bench's own.
        self.overwrite = Overwrite::Allow;
        self.start()
    }

    /// Serves the cache device as it is.
    ///
    /// # Errors
    /// If it cannot be served.
    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        let volume = VolumeSpec {
            mode: self.spec.mode,
            frontends: FrontendSpecs::nbd(vec![NbdAddress::Unix(self.socket.clone())]),
            ..VolumeSpec::new(VOLUME, self.spec.origin.clone())
        };
        let cache = CacheSpec::new(&self.spec.cache, vec![volume]);
        // The start contacts the server of an origin, which may take long to answer.
        let start = move || Server::start(ServerConfig::new(cache)).context("the volume cannot be served");
        self.server = Some(self.interrupt.wait_for(start)?);
        Ok(())
    }

    /// Stops serving. A server that does not stop in time is left behind: it ends with this process.
    ///
    /// # Errors
    /// The error that ended the server, or that it does not stop.
    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
        let Some(server) = self.server.take() else { return Ok(()) };
        server.stop();
        let (sender, ended) = mpsc::channel();
        // The receiver may be dropped.
        let end = move || drop(sender.send(server.join()));
        thread::Builder::new().name("stopping".into()).spawn(end).context("cannot start a thread")?;
        let begun = Instant::now();
        loop {
            match ended.recv_timeout(LOOK_EVERY) {
                Ok(result) => {
                    result?;
                    return Ok(());
                }
                Err(RecvTimeoutError::Disconnected) => bail!("the server of the volume ended by a panic"),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let most = match (self.interrupt.signal(), self.is_away.get()) {
                (Some(_), _) => STOP_MAX_INTERRUPTED,
                (None, true) => STOP_MAX_AWAY,
                (None, false) => STOP_MAX,
            };
            if begun.elapsed() > most {
                let (origin, seconds) = (&self.spec.origin, most.as_secs_f64());
                bail!("the server of the volume did not stop within {seconds} s: it waits for {origin}");
            }
        }
    }

    /// Fails if the origin has been unreachable, or has not answered, for [`AWAY_MAX`]. Checks at most once in
    /// [`ORIGIN_EVERY`], and only while the cache is served.
    ///
    /// # Errors
    /// A sentence that names the origin, or the error of a server that gives no status.
    pub(super) fn check_origin(&self) -> anyhow::Result<()> {
        let Some(server) = &self.server else { return Ok(()) };
        if self.looked_at.get().elapsed() < ORIGIN_EVERY {
            return Ok(());
        }
        self.looked_at.set(Instant::now());
        let status = server.status()?;
        let (origin, troubles) = (&self.spec.origin, &status.origin_troubles);
        let away = troubles.iter().find_map(|trouble| trouble.away.as_ref());
        let silent = troubles.iter().find_map(|trouble| trouble.silent);
        let silent = silent.map(|span| Duration::from_nanos(span.as_nanos()));
        // An origin that does not respond may be detected as unreachable only later.
        let sentence = match (away, silent) {
            (Some(away), _) if away.span >= AWAY_MAX => {
                format!(
                    "the origin {origin} has been unreachable for {} s: {}",
                    away.span.as_secs(),
                    away.why
                )
            }
            (_, Some(silent)) if silent >= AWAY_MAX => {
                format!("the origin {origin} has not answered for {} s", silent.as_secs())
            }
            _ => return Ok(()),
        };
        self.is_away.set(true);
        bail!(sentence)
    }

    /// Stops serving, and removes the cache file if the bench made it.
    ///
    /// # Errors
    /// As [`OwnCache::stop`].
    pub(super) fn down(&mut self) -> anyhow::Result<()> {
        let stopped = self.stop();
        if std::mem::take(&mut self.is_made) {
            let _ = std::fs::remove_file(&self.spec.cache);
        }
        stopped
    }

    pub(super) fn uri(&self) -> anyhow::Result<NbdUri> {
        Ok(NbdUri::parse(&NbdAddress::Unix(self.socket.clone()).uri(VOLUME))?)
    }

    /// The server; `None` while the cache is not up.
    pub(super) fn server(&self) -> Option<&ServerHandle> {
        self.server.as_ref()
    }

    /// Bytes of the cache device; `None` if it cannot be opened.
    pub(super) fn cache_bytes(&self) -> Option<u64> {
        std::fs::File::open(&self.spec.cache)
            .ok()
            .and_then(|file| rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).ok())
    }
}

impl Drop for OwnCache {
    fn drop(&mut self) {
        // There is no caller for an error.
        let _ = self.down();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::spec::{TargetKind, TargetSpec};

    #[test]
    fn a_cache_device_with_data_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        std::fs::write(&cache, vec![7; 32 << 20]).unwrap();
        let spec: TargetSpec = format!("k=cache:{},origin:/nowhere", cache.display()).parse().unwrap();
        let TargetKind::Cache(target) = spec.kind else { panic!("{spec:?}") };
        let interrupt = Arc::new(Interrupt::listen("interrupted").unwrap());
        let mut cache = OwnCache::new(&target, folder.path(), Data::Keep, &interrupt);
        let refused = cache.up().unwrap_err().to_string();
        assert!(refused.contains("use --destroy-data") && !refused.contains("--force"), "{refused}");
    }
}
