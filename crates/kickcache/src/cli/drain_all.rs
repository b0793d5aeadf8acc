//! All volumes of a daemon are drained before it stops, while they are served.

use std::io::{self, Write};
use std::time::Instant;

use kickcache_daemon::control::client::Client;
use kickcache_daemon::control::report::{Report, VolumeReport};
use kickcache_daemon::words::ModeWord;

use crate::cli::awaited::Awaited;
use crate::cli::drain::{Obstacles, is_draining, left};
use crate::cli::exit::Failure;

/// Writes dirty blocks of all volumes back. Until the stop, writes in write-back go through to the origins, or new blocks would
/// become dirty.
///
/// # Errors
/// A block cannot be written back, the daemon has ended, or a signal interrupts the wait: the modes are then
/// restored.
pub(super) fn drain_all(client: &Client) -> Result<(), Failure> {
    let awaited = Awaited::new()?;
    let report = awaited.status(client, Failure::from)?;
    let write_back: Vec<&str> = volumes(&report)
        .filter(|volume| volume.mode == ModeWord::WriteBack)
        .map(|volume| volume.name.as_str())
        .collect();
    let client = &client.waiting();
    let drained = write_through(client, &write_back).and_then(|()| wait(client, &awaited));
    if drained.is_err() {
        for volume in write_back {
            // The failure that is reported has precedence.
            let _ = client.set_mode(volume, ModeWord::WriteBack);
        }
    }
    drained
}

fn volumes(report: &Report) -> impl Iterator<Item = &VolumeReport> {
    report.caches.iter().flat_map(|cache| &cache.volumes)
}

fn write_through(client: &Client, names: &[&str]) -> Result<(), Failure> {
    Ok(names.iter().try_for_each(|volume| client.set_mode(volume, ModeWord::WriteThrough))?)
}

fn wait(client: &Client, awaited: &Awaited) -> Result<(), Failure> {
    let mut obstacles = Obstacles::default();
    loop {
        let report = awaited.status(client, Failure::from)?;
        let mut is_done = true;
        for volume in volumes(&report) {
            let (name, is_draining) = (volume.name.as_str(), is_draining(&volume.name, &report));
            let is_clean = left(name, &report)? == 0;
            is_done &= is_clean && !is_draining;
            if !is_clean && !is_draining {
                client.drain(name)?;
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
