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

/// A volume that is to go.
pub(super) struct Removal {
    served: Served,
    volume: String,
    /// What it goes back to if it stays.
    mode: Option<Mode>,
    clients: Clients,
    dirty: DirtyFate,
}

impl Removal {
    /// Looks at what is in its way at the moment, before anything is done for it.
    ///
    /// # Errors
    /// It has clients that are to be respected, or its server is stopping.
    pub(super) fn check(
        served: &Served,
        volume: &str,
        clients: Clients,
        dirty: DirtyFate,
    ) -> Result<Removal, ControlError> {
        let mut served = served.clone();
        served.look_at_modes();
        let spec = served.cache.volumes.iter().find(|spec| spec.name == volume);
        let mode = spec.map(|spec| spec.mode.into());
        let removal = Removal { served, volume: volume.into(), mode, clients, dirty };
        removal.check_clients()?;
        Ok(removal)
    }

    fn check_clients(&self) -> Result<(), ControlError> {
        let status = self.served.handle.status().map_err(|_| ControlError::Stopped)?;
        let Some(index) = status.volumes.iter().position(|info| info.name == self.volume) else {
            return Ok(());
        };
        match in_use(&self.volume, status.sessions[index], self.clients) {
            Some(what) => Err(ControlError::Refused(format!("volume {}: {what}", self.volume))),
            None => Ok(()),
        }
    }

    /// Which it is.
    pub(super) fn volume(&self) -> &str {
        &self.volume
    }

    /// Writes back what is dirty and is not to be abandoned, while the volume is served: new writes go through to the origin
    /// meanwhile.
    ///
    /// # Errors
    /// It gets nowhere, or the server stops.
    pub(super) fn drain(&self) -> Result<(), ControlError> {
        if self.dirty == DirtyFate::Abandoned {
            return Ok(());
        }
        if self.mode == Some(Mode::WriteBack) {
            self.served.handle.set_mode(&self.volume, Mode::WriteThrough).map_err(|error| refuse(&error))?;
        }
        self.drain_until_clean()
    }

    /// The mode as it was before: the volume stays.
    pub(super) fn restore_mode(&self) {
        let (Some(mode), volume) = (self.mode, &self.volume) else { return };
        if let Err(error) = self.served.handle.set_mode(volume, mode) {
            tracing::warn!(
                event = "mode_not_restored",
                volume,
                "the mode of {volume} stays write-through: {error}"
            );
        }
    }

    fn drain_until_clean(&self) -> Result<(), ControlError> {
        let (mut least, mut since) = (u64::MAX, Instant::now());
        loop {
            let left = self.left()?;
            if left.blocks == 0 {
                return Ok(());
            }
            if left.blocks < least {
                (least, since) = (left.blocks, Instant::now());
            }
            if since.elapsed() >= STUCK_MAX {
                return Err(ControlError::Refused(format!(
                    "volume {}: {} cannot be written back ({} s without any; the log and the status show what is wrong with \
                     its origin); mend that, or say --abandon-dirty",
                    self.volume,
                    counted(left.blocks, "dirty block"),
                    STUCK_MAX.as_secs()
                )));
            }
            if !left.is_draining {
                self.served.handle.drain(&self.volume).map_err(|error| refuse(&error))?;
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn left(&self) -> Result<Left, ControlError> {
        let status = self.served.handle.status().map_err(|_| ControlError::Stopped)?;
        if status.awaited.is_some() {
            return Err(ControlError::Stopped);
        }
        let info = status.volumes.iter().find(|info| info.name == self.volume);
        let found = info.and_then(|info| status.engine.volumes.iter().find(|found| found.volume == info.id));
        Ok(found.map_or(Left { blocks: 0, is_draining: false }, |found| Left {
            blocks: found.dirty_blocks + found.unflushed_blocks,
            is_draining: found.is_draining,
        }))
    }

    /// Lets go of it, by now.
    ///
    /// # Errors
    /// It stays.
    pub(super) fn part(&self) -> Result<Removed, ControlError> {
        self.check_clients()?;
        self.drain()?;
        let parted = self.served.handle.part_volume(&self.volume, self.clients, self.dirty);
        Ok(Removed { lost_bytes: parted.map_err(|error| refuse(&error))?.lost_blocks * BLOCK_SIZE })
    }
}

fn refuse(error: &ServeError) -> ControlError {
    ControlError::Refused(error.to_string())
}

/// What a drain has before it.
struct Left {
    /// That the origin lacks, or has not flushed.
    blocks: u64,
    is_draining: bool,
}
