//! The drain of all volumes before a stop.

use std::io::{self, Write};
use std::time::Instant;

use kickcache_command::exit::Failure;
use kickcache_daemon::control::client::{Client, ClientError};
use kickcache_daemon::control::report::{Report, VolumeReport};
use kickcache_daemon::control::wire::Request;
use kickcache_daemon::words::ModeWord;

use crate::cli::daemon_wait::DaemonWait;
use crate::cli::drain::{Obstacles, is_draining, left};

/// The modes of the volumes in write-back or write-through before the drain.
pub(super) struct Modes(Vec<(String, ModeWord)>);

impl Modes {
    pub(super) fn restore(&self, client: &Client) {
        for (volume, mode) in &self.0 {
            // The caller reports the failure that led here.
            let _ = set_mode(client, volume, *mode);
        }
    }
}

/// Writes dirty blocks of all volumes back. Writes go around the cache until the stop, so that the drain ends
/// under load.
///
/// # Errors
/// If a block cannot be written back, the daemon has ended, or after a signal.
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
        let undrained = undrained(&report)?;
        if undrained.is_empty() {
            return Ok(());
        }
        for UndrainedVolume { name, is_draining } in undrained {
            if !is_draining {
                let () = client.request(&Request::Drain { volume: name.into() })?;
            }
            if let Some(line) = obstacles.tell(Instant::now(), name, &report) {
                let _ = writeln!(io::stderr(), "{line}");
            }
        }
        awaited.pause()?;
    }
}

#[derive(PartialEq, Eq, Debug)]
struct UndrainedVolume<'a> {
    name: &'a str,
    is_draining: bool,
}

/// Fails if all dirty blocks of a volume are damaged.
fn undrained(report: &Report) -> anyhow::Result<Vec<UndrainedVolume<'_>>> {
    let mut found = Vec::new();
    for volume in volumes(report) {
        let name = volume.name.as_str();
        let is_draining = is_draining(name, report);
        if left(name, report)? > 0 || is_draining {
            found.push(UndrainedVolume { name, is_draining });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::status::tests::report;

    fn undrained_of(dirty: [u64; 2], unflushed: [u64; 2], draining: [bool; 2]) -> Vec<(usize, bool)> {
        let mut report = report(0);
        let all = report.caches[0].volumes.iter_mut().enumerate();
        all.for_each(|(at, volume)| {
            (volume.dirty_bytes, volume.unflushed_bytes) = (dirty[at], unflushed[at]);
            (volume.draining, volume.damaged_bytes) = (draining[at], 0);
        });
        let place = |name: &str| volumes(&report).position(|volume| volume.name == name).unwrap();
        undrained(&report).unwrap().iter().map(|found| (place(found.name), found.is_draining)).collect()
    }

    #[test]
    fn a_stop_waits_for_each_volume() {
        let none = [false, false];
        assert_eq!(undrained_of([0, 0], [0, 0], none), []);
        assert_eq!(undrained_of([4096, 0], [0, 0], none), [(0, false)]);
        assert_eq!(undrained_of([0, 4096], [0, 0], none), [(1, false)]);
        assert_eq!(undrained_of([4096, 4096], [0, 0], none), [(0, false), (1, false)]);
        assert_eq!(undrained_of([0, 0], [4096, 0], none), [(0, false)], "its origin has not flushed");
        assert_eq!(undrained_of([4096, 0], [0, 0], [true, false]), [(0, true)]);
        assert_eq!(undrained_of([0, 0], [0, 0], [true, false]), [(0, true)], "its records are not durable");
        assert_eq!(undrained_of([0, 0], [0, 0], [false, true]), [(1, true)]);
    }

    #[test]
    fn damaged_blocks_end_a_drain_with_an_error() {
        let mut report = report(0);
        let volume = &mut report.caches[0].volumes[0];
        (volume.dirty_bytes, volume.unflushed_bytes, volume.damaged_bytes) = (4096, 0, 4096);
        assert!(undrained(&report).is_err());
    }
}
