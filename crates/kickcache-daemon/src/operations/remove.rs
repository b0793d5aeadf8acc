//! Drains and removes a volume of a running daemon.

use std::thread;
use std::time::Duration;

use kickcache_engine::config::Mode;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_units::counted;

use crate::control::ControlError;
use crate::control::wire::Removed;
use crate::driver::clock::WatchedTime;
use crate::operations::volume_removal::{RemovalOrder, part};
use crate::plan::removal::{Clients, DirtyFate, in_use};
use crate::serve::error::ServeError;
use crate::start::servers::PlannedServer;

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a drain may make no progress.
const STUCK_MAX: Duration = Duration::from_secs(30);

pub(crate) struct RemoveOperation {
    served: PlannedServer,
    volume: String,
    /// The mode to restore if the volume stays.
    mode: Option<Mode>,
    clients: Clients,
    dirty: DirtyFate,
}

impl RemoveOperation {
    /// Checks for present obstacles.
    ///
    /// # Errors
    /// If the volume has clients that are to be respected, the file of its origin was removed and its data
    /// are not to be lost, or its server is stopping.
    pub(crate) fn check(
        served: &PlannedServer,
        volume: &str,
        clients: Clients,
        dirty: DirtyFate,
    ) -> Result<RemoveOperation, ControlError> {
        let mut served = served.clone();
        served.look_at_modes();
        let spec = served.cache.volumes.iter().find(|spec| spec.name == volume);
        let mode = spec.map(|spec| spec.mode.into());
        let removal = RemoveOperation { served, volume: volume.into(), mode, clients, dirty };
        removal.check_obstacles()?;
        Ok(removal)
    }

    fn check_obstacles(&self) -> Result<(), ControlError> {
        let status = self.served.handle.status().map_err(|_| ControlError::Stopped)?;
        let Some(index) = status.volumes.iter().position(|info| info.name == self.volume) else {
            return Ok(());
        };
        let refuse = |what| ControlError::Refused(format!("volume {}: {what}", self.volume));
        if let Some(what) = in_use(&self.volume, status.sessions[index], self.clients) {
            return Err(refuse(what));
        }
        match &status.origin_troubles[index].unlinked_at {
            Some(at) if self.dirty == DirtyFate::WrittenBack => Err(refuse(format!(
                "the file of its origin was removed, and its data are lost with the volume: drain it, and copy them \
                 (`cp --sparse=always {at} FILE`), or use --abandon-dirty"
            ))),
            Some(_) | None => Ok(()),
        }
    }

    /// The dirty and the lost blocks of a removal, which is not carried out.
    ///
    /// # Errors
    /// If the server stops.
    pub(crate) fn forecast(&self) -> Result<Removed, ControlError> {
        let dirty_bytes = self.left()?.blocks * BLOCK_SIZE;
        let lost_bytes = if self.dirty == DirtyFate::Abandoned { dirty_bytes } else { 0 };
        Ok(Removed { lost_bytes, dirty_bytes })
    }

    pub(crate) fn volume(&self) -> &str {
        &self.volume
    }

    /// Writes back the dirty blocks, unless they are abandoned.
    ///
    /// # Errors
    /// If the drain makes no progress, or the server stops.
    pub(crate) fn drain(&self) -> Result<(), ControlError> {
        if self.dirty == DirtyFate::Abandoned {
            return Ok(());
        }
        if let Some(Mode::WriteBack | Mode::WriteThrough) = self.mode {
            self.served.handle.set_mode(&self.volume, Mode::WriteAround).map_err(|error| refuse(&error))?;
        }
        self.drain_until_clean()
    }

    pub(crate) fn restore_mode(&self) {
        let (Some(mode), volume) = (self.mode, &self.volume) else { return };
        let served = self.served.handle.status();
        if served.is_ok_and(|status| !status.volumes.iter().any(|info| info.name == *volume)) {
            return;
        }
        if let Err(error) = self.served.handle.set_mode(volume, mode) {
            tracing::warn!(
                event = "mode_not_restored",
                volume,
                "the mode of {volume} stays write-around: {error}"
            );
        }
    }

    fn drain_until_clean(&self) -> Result<(), ControlError> {
        let errors = self.left()?.errors;
        let (mut least, mut since) = (u64::MAX, WatchedTime::begin());
        loop {
            let left = self.left()?;
            if left.blocks == 0 {
                return Ok(());
            }
            if left.blocks < least {
                (least, since) = (left.blocks, WatchedTime::begin());
            }
            if since.look() >= STUCK_MAX {
                return Err(stuck(&self.volume, &left, errors));
            }
            if !left.is_draining {
                self.served.handle.drain(&self.volume).map_err(|error| refuse(&error))?;
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn left(&self) -> Result<VolumeRemainder, ControlError> {
        let status = self.served.handle.status().map_err(|_| ControlError::Stopped)?;
        if status.awaited.is_some() {
            return Err(ControlError::Stopped);
        }
        let index = status.volumes.iter().position(|info| info.name == self.volume);
        let id = index.map(|index| status.volumes[index].id);
        let found = status.engine.volumes.iter().find(|found| Some(found.volume) == id);
        let origin = index.and_then(|index| status.origin_troubles.get(index));
        let troubles = || origin.into_iter().chain([&status.cache_trouble]);
        let errors: u64 = troubles().filter_map(|trouble| trouble.errors.map(|errors| errors.count)).sum();
        let is_away = troubles().any(|trouble| trouble.away.is_some());
        let none = VolumeRemainder { blocks: 0, errors, is_unreachable: false, is_draining: false };
        Ok(found.map_or(none, |found| VolumeRemainder {
            blocks: found.dirty_blocks + found.unflushed_blocks,
            errors,
            is_unreachable: is_away || found.damaged_blocks > 0,
            is_draining: found.is_draining,
        }))
    }

    /// Removes the volume.
    ///
    /// # Errors
    /// If the volume cannot be removed; it stays, except if its removal cannot be recorded on the cache device.
    pub(crate) fn part(&self) -> Result<Removed, ControlError> {
        self.check_obstacles()?;
        self.drain()?;
        let order = RemovalOrder { name: self.volume.clone(), clients: self.clients, dirty: self.dirty };
        let parted = part(&self.served.handle, &order);
        let lost_bytes = parted.map_err(|error| refuse(&error))?.lost_blocks * BLOCK_SIZE;
        Ok(Removed { lost_bytes, dirty_bytes: 0 })
    }
}

fn refuse(error: &ServeError) -> ControlError {
    ControlError::Refused(error.to_string())
}

/// The refusal after a time without progress. It recommends to abandon blocks only after an error, or if
/// blocks cannot be read or the server of the origin is away.
fn stuck(volume: &str, left: &VolumeRemainder, errors_before: u64) -> ControlError {
    let (blocks, seconds) = (counted(left.blocks, "dirty block"), STUCK_MAX.as_secs());
    let what = if left.errors > errors_before || left.is_unreachable {
        format!(
            "{blocks} cannot be written back (none was in {seconds} s; the log and the status show the \
             error of its origin); correct it, or use --abandon-dirty"
        )
    } else {
        format!(
            "{blocks} were not written back: none was in {seconds} s, and no device reports an error; \
             the status shows which device does not respond: check it, then try again"
        )
    };
    ControlError::Refused(format!("volume {volume}: {what}"))
}

/// The remaining work of the drain.
struct VolumeRemainder {
    /// Blocks that the origin lacks, or has not flushed.
    blocks: u64,
    errors: u64,
    /// Whether the server of the origin is away, or blocks cannot be read.
    is_unreachable: bool,
    is_draining: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_out_alone_is_no_reason_to_abandon_blocks() {
        let left =
            |errors, is_unreachable| VolumeRemainder { blocks: 2, errors, is_unreachable, is_draining: true };
        let said = |left: VolumeRemainder| stuck("v", &left, 3).to_string();
        let late = said(left(3, false));
        assert!(late.contains("2 dirty blocks were not written back") && !late.contains("abandon"), "{late}");
        for failed in [left(4, false), left(3, true)] {
            let refused = said(failed);
            assert!(
                refused.contains("cannot be written back") && refused.contains("--abandon-dirty"),
                "{refused}"
            );
        }
    }
}
