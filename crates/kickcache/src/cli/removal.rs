//! A volume that a daemon serves is drained, and let go of.

use std::thread;
use std::time::{Duration, Instant};

use kickcache_daemon::control::ControlError;
use kickcache_daemon::control::wire::Removed;
use kickcache_daemon::plan::removal::{Clients, DirtyFate, in_use};
use kickcache_daemon::serve::error::ServeError;
use kickcache_engine::config::Mode;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_units::counted;

use crate::cli::start::Served;

/// How often it is looked at how far a drain is, and how long one may get nowhere.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const STUCK_MAX: Duration = Duration::from_secs(30);

/// What is in the way of a removal at the moment, before anything is done for it.
///
/// # Errors
/// It has clients that are to be respected, or its server is stopping.
pub(super) fn check(served: &Served, volume: &str, clients: Clients) -> Result<(), ControlError> {
    let status = served.handle.status().map_err(|_| ControlError::Stopped)?;
    let Some(index) = status.volumes.iter().position(|info| info.name == volume) else { return Ok(()) };
    match in_use(status.sessions[index], clients) {
        Some(what) => Err(ControlError::Refused(format!("volume {volume}: {what}"))),
        None => Ok(()),
    }
}

/// Writes back what is dirty, while the volume is served: new writes go through to the origin meanwhile.
///
/// # Errors
/// It gets nowhere, or the server stops. The volume is served as before.
pub(super) fn drain(served: &Served, volume: &str) -> Result<(), ControlError> {
    let refuse = |error: ServeError| ControlError::Refused(error.to_string());
    if mode_of(served, volume) == Some(Mode::WriteBack) {
        served.handle.set_mode(volume, Mode::WriteThrough).map_err(refuse)?;
    }
    drain_until_clean(served, volume).inspect_err(|_| restore_mode(served, volume))
}

/// The mode as it was before: the volume stays.
pub(super) fn restore_mode(served: &Served, volume: &str) {
    let Some(mode) = mode_of(served, volume) else { return };
    if let Err(error) = served.handle.set_mode(volume, mode) {
        tracing::warn!(
            event = "mode_not_restored",
            volume,
            "the mode of {volume} stays write-through: {error}"
        );
    }
}

fn mode_of(served: &Served, volume: &str) -> Option<Mode> {
    served.cache.volumes.iter().find(|spec| spec.name == volume).map(|spec| spec.mode.into())
}

fn drain_until_clean(served: &Served, volume: &str) -> Result<(), ControlError> {
    let (mut least, mut since) = (u64::MAX, Instant::now());
    loop {
        let left = left(served, volume)?;
        if left == 0 {
            return Ok(());
        }
        if left < least {
            (least, since) = (left, Instant::now());
        }
        if since.elapsed() >= STUCK_MAX {
            return Err(ControlError::Refused(format!(
                "volume {volume}: {} cannot be written back ({} s without any; the log and the status show what is wrong with \
                 its origin); mend that, or say --abandon-dirty",
                counted(left, "dirty block"),
                STUCK_MAX.as_secs()
            )));
        }
        served.handle.drain(volume).map_err(|error| ControlError::Refused(error.to_string()))?;
        thread::sleep(LOOK_EVERY);
    }
}

/// Blocks that the origin lacks, or has not flushed.
fn left(served: &Served, volume: &str) -> Result<u64, ControlError> {
    let status = served.handle.status().map_err(|_| ControlError::Stopped)?;
    if status.awaited.is_some() {
        return Err(ControlError::Stopped);
    }
    let info = status.volumes.iter().find(|info| info.name == volume);
    let found = info.and_then(|info| status.engine.volumes.iter().find(|found| found.volume == info.id));
    Ok(found.map_or(0, |found| found.dirty_blocks + found.unflushed_blocks))
}

/// Lets go of a volume.
///
/// # Errors
/// It stays, in the mode that it had.
pub(super) fn remove(
    served: &mut Served,
    volume: &str,
    clients: Clients,
    dirty: DirtyFate,
) -> Result<Removed, ControlError> {
    check(served, volume, clients)?;
    if dirty == DirtyFate::WrittenBack {
        drain(served, volume)?;
    }
    let parted = served.handle.part_volume(volume, clients, dirty);
    let parted = parted.inspect_err(|_| restore_mode(served, volume));
    let parted = parted.map_err(|error| ControlError::Refused(error.to_string()));
    let lost_bytes = parted?.lost_blocks * BLOCK_SIZE;
    served.cache.volumes.retain(|spec| spec.name != volume);
    Ok(Removed { lost_bytes })
}
