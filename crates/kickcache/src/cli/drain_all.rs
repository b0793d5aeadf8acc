//! All volumes of a daemon are drained before it stops, while they are served.

use std::io::{self, Write};
use std::time::Instant;

use kickcache_command::exit::Failure;
use kickcache_daemon::control::client::{Client, ClientError};
use kickcache_daemon::control::report::{Report, VolumeReport};
use kickcache_daemon::control::wire::Request;
use kickcache_daemon::words::ModeWord;

use crate::cli::daemon_wait::DaemonWait;
use crate::cli::drain::{Obstacles, is_draining, left};

/// The modes before a drain of the volumes in write-back or write-through.
pub(super) struct Modes(Vec<(String, ModeWord)>);

impl Modes {
    /// Restores the modes, so that volumes that stay served cache as before.
    pub(super) fn restore(&self, client: &Client) {
        for (volume, mode) in &self.0 {
            // The caller reports the failure that led here, not this one.
            let _ = set_mode(client, volume, *mode);
        }
    }
}

/// Writes dirty blocks of all volumes back. Until the stop, writes go around the cache: in write-back new blocks would become
/// dirty, and in write-through a write in flight counts as dirty, so that a client that always writes would never let it end.
///
/// # Errors
/// If a block cannot be written back, the daemon has ended, or a signal interrupts the wait: the modes are then
/// restored.
pub(super) fn drain_all(client: &Client) -> Result<Modes, Failure> {
    let awaited = DaemonWait::new()?;
    let report = awaited.status(client, Failure::from)?;
    let caching = volumes(&report)
        .filter(|volume| matches!(volume.mode, ModeWord::WriteBack | ModeWord::WriteThrough))
        .map(|volume| (volume.name.clone(), volume.mode));
    let modes = Modes(caching.collect());
    let client = &client.waiting();
    let drained = write_around(client, &modes).and_then(|()| wait(client, &awaited));
    match drained {
        Ok(()) => Ok(modes),
        Err(error) => {
            modes.restore(client);
            Err(error)
        }
    }
}

fn set_mode(client: &Client, volume: &str, mode: ModeWord) -> Result<(), ClientError> {
    client.request(&Request::Mode { volume: volume.into(), mode })
}

fn volumes(report: &Report) -> impl Iterator<Item = &VolumeReport> {
    report.caches.iter().flat_map(|cache| &cache.volumes)
}

fn write_around(client: &Client, Modes(modes): &Modes) -> Result<(), Failure> {
    Ok(modes.iter().try_for_each(|(volume, _)| set_mode(client, volume, ModeWord::WriteAround))?)
}

fn wait(client: &Client, awaited: &DaemonWait) -> Result<(), Failure> {
    let mut obstacles = Obstacles::default();
    loop {
        let report = awaited.status(client, Failure::from)?;
        let mut is_done = true;
        for volume in volumes(&report) {
            let (name, is_draining) = (volume.name.as_str(), is_draining(&volume.name, &report));
            let is_clean = left(name, &report)? == 0;
            is_done &= is_clean && !is_draining;
            if !is_clean && !is_draining {
                let () = client.request(&Request::Drain { volume: name.into() })?;
            }
            if let Some(line) = obstacles.tell(Instant::now(), name, &report) {
                let _ = writeln!(io::stderr(), "{line}");
            }
        }
        if is_done {
            return Ok(());
        }
        awaited.pause()?;
    }
}
