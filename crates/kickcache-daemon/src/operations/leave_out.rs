//! A cache device is left out while its volumes are served: these are drained first.

use std::thread;
use std::time::Duration;

use kickcache_engine::config::Mode;
use kickcache_engine::stats::VolumeStatus;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_units::{counted, show_bytes};

use crate::control::ControlError;
use crate::control::wire::DirtyVolume;
use crate::driver::clock::WatchedTime;
use crate::operations::cache_removal;
use crate::operations::control_error::control_error;
use crate::plan::removal::DirtyFate;
use crate::serve::server::{NamedSettings, ServerStatus, UncleanBlocks};
use crate::start::servers::PlannedServer;

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long the drain may make no progress.
const STUCK_MAX: Duration = Duration::from_secs(10);
/// As [`STUCK_MAX`], if the remaining blocks may be lost.
const STUCK_MAX_ABANDONED: Duration = Duration::from_secs(3);
/// As [`STUCK_MAX`], if all remaining blocks are unreadable.
const STUCK_MAX_UNREADABLE: Duration = Duration::from_secs(2);
/// The most blocks that may be left for the end, when new requests wait, if there was no error.
const REST_MAX: u64 = 64;
/// How long the drain must have made no progress before at most [`REST_MAX`] blocks may be left.
const REST_AFTER: Duration = Duration::from_millis(300);

pub(crate) struct LeaveOutOperation {
    served: PlannedServer,
    fate: DirtyFate,
    /// The settings of its volumes before the drain.
    settings: Vec<NamedSettings>,
}

impl LeaveOutOperation {
    pub(crate) fn check(served: &PlannedServer, fate: DirtyFate) -> Result<LeaveOutOperation, ControlError> {
        let mut served = served.clone();
        served.look_at_modes();
        cache_removal::check(&served.handle, fate).map_err(control_error)?;
        let settings = served.settings();
        Ok(LeaveOutOperation { served, fate, settings })
    }

    /// The dirty blocks of the device, by volume.
    ///
    /// # Errors
    /// As [`cache_removal::check`].
    pub(crate) fn dirty(&self) -> Result<Vec<DirtyVolume>, ControlError> {
        let unclean = cache_removal::check(&self.served.handle, DirtyFate::Abandoned);
        Ok(dirty_volumes(unclean.map_err(control_error)?))
    }

    /// Writes back the dirty blocks, except up to [`REST_MAX`] for the end; if the loss is accepted, as many as possible.
    ///
    /// # Errors
    /// If the drain makes no progress and the loss is not accepted, or the server stops.
    pub(crate) fn drain(&self) -> Result<(), ControlError> {
        // The errors are counted first, so that an immediate failure counts.
        let errors = self.left()?.errors;
        for named in &self.settings {
            self.served.handle.set_mode(&named.volume, Mode::Bypass).map_err(control_error)?;
        }
        let stuck_max = match self.fate {
            DirtyFate::WrittenBack => STUCK_MAX,
            DirtyFate::Abandoned => STUCK_MAX_ABANDONED,
        };
        let (mut least, mut since) = (u64::MAX, WatchedTime::begin());
        loop {
            let left = self.left()?;
            let is_sound = left.errors == errors && left.damaged == 0;
            let stuck_for = since.look();
            let is_rest = left.blocks <= REST_MAX && is_sound && stuck_for >= REST_AFTER;
            if left.blocks == 0 || is_rest {
                return Ok(());
            }
            if left.blocks < least {
                (least, since) = (left.blocks, WatchedTime::begin());
            }
            let stuck_max = if left.blocks == left.damaged { STUCK_MAX_UNREADABLE } else { stuck_max };
            if since.look() >= stuck_max {
                return match self.fate {
                    DirtyFate::Abandoned => Ok(()),
                    DirtyFate::WrittenBack => Err(left.stuck(errors, stuck_max)),
                };
            }
            for volume in &left.idle {
                self.served.handle.drain(volume).map_err(control_error)?;
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn left(&self) -> Result<DeviceRemainder, ControlError> {
        let status = self.served.handle.status().map_err(|_| ControlError::Stopped)?;
        if status.awaited.is_some() {
            return Err(ControlError::Stopped);
        }
        Ok(DeviceRemainder::of(&status))
    }

    /// Takes the device out of use; returns the lost blocks.
    ///
    /// # Errors
    /// If the device cannot be left out.
    pub(crate) fn leave_out(&self) -> Result<Vec<DirtyVolume>, ControlError> {
        let lost = cache_removal::leave_out(&self.served.handle, self.fate, &self.settings);
        Ok(dirty_volumes(lost.map_err(control_error)?))
    }

    /// Restores the modes.
    pub(crate) fn restore_modes(&self) {
        for NamedSettings { volume, settings, .. } in &self.settings {
            if let Err(error) = self.served.handle.set_mode(volume, settings.mode) {
                tracing::warn!(
                    event = "mode_not_restored",
                    volume,
                    "the mode of {volume} stays bypass: {error}"
                );
            }
        }
    }
}

fn dirty_volumes(unclean: Vec<UncleanBlocks>) -> Vec<DirtyVolume> {
    let dirty = |UncleanBlocks { volume, blocks, .. }| DirtyVolume { volume, bytes: blocks * BLOCK_SIZE };
    unclean.into_iter().map(dirty).collect()
}

/// The remaining work of the drain.
struct DeviceRemainder {
    /// Blocks of the served volumes that are dirty, or that the origins have not flushed.
    blocks: u64,
    damaged: u64,
    errors: u64,
    is_away: bool,
    told: Vec<String>,
    idle: Vec<String>,
}

impl DeviceRemainder {
    fn of(status: &ServerStatus) -> DeviceRemainder {
        let troubles = status.origin_troubles.iter().chain([&status.cache_trouble]);
        let errors = troubles.filter_map(|trouble| trouble.errors.map(|errors| errors.count)).sum();
        let is_away = status.origin_troubles.iter().any(|trouble| trouble.away.is_some());
        let mut left =
            DeviceRemainder { blocks: 0, damaged: 0, errors, is_away, told: Vec::new(), idle: Vec::new() };
        for info in &status.volumes {
            let found = status.engine.volumes.iter().find(|found| found.volume == info.id);
            let Some(VolumeStatus { dirty_blocks, unflushed_blocks, damaged_blocks, is_draining, .. }) =
                found
            else {
                continue;
            };
            let blocks = dirty_blocks + unflushed_blocks;
            if blocks == 0 {
                continue;
            }
            left.blocks += blocks;
            left.damaged += damaged_blocks;
            left.told.push(format!("{} of {}", counted(blocks, "block"), info.name));
            left.idle.extend((!is_draining).then(|| info.name.clone()));
        }
        left
    }

    /// The refusal after a time without progress. It recommends to abandon blocks only after an error, or if
    /// blocks cannot be read or the server of an origin is away.
    fn stuck(&self, errors_before: u64, stuck_for: Duration) -> ControlError {
        let has_failed = self.errors != errors_before || self.damaged > 0 || self.is_away;
        if has_failed { self.refusal() } else { self.late(stuck_for) }
    }

    fn late(&self, stuck_for: Duration) -> ControlError {
        ControlError::Refused(format!(
            "{} were not written back: none was in {} s, and no device reports an error, so the cache device is not left out; the status shows which device does not respond: check it, then try again",
            self.told.join(" and "),
            stuck_for.as_secs()
        ))
    }

    fn refusal(&self) -> ControlError {
        let unreadable = match self.damaged {
            0 => String::new(),
            damaged => format!(" ({} cannot be read from the cache device)", counted(damaged, "block")),
        };
        ControlError::Refused(format!(
            "{} cannot be written back{unreadable}, so the cache device is not left out; the log and the \
             status show the error: correct it, or use --abandon-dirty, which loses these blocks",
            self.told.join(" and ")
        ))
    }
}

pub(crate) fn tell_not_left_out(device: &str, error: &ControlError) {
    tracing::error!(
        event = "cache_not_left_out",
        device,
        "the cache device {device} is not left out: {error}"
    );
}

pub(crate) fn tell_left_out(device: &str, lost: &[DirtyVolume]) {
    for DirtyVolume { volume, bytes } in lost {
        let lost = show_bytes(*bytes);
        tracing::error!(
            event = "dirty_lost",
            volume,
            "{lost} of {volume} that were dirty on {device} alone are LOST, as requested"
        );
    }
    tracing::warn!(
        event = "cache_left_out",
        device,
        "{device} is left out: its volumes are served from their origins alone"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_out_alone_is_no_reason_to_abandon_blocks() {
        let left = |errors, damaged, is_away| DeviceRemainder {
            blocks: 2,
            damaged,
            errors,
            is_away,
            told: vec!["2 blocks of v".into()],
            idle: Vec::new(),
        };
        let said = |left: DeviceRemainder| left.stuck(3, STUCK_MAX).to_string();
        let late = said(left(3, 0, false));
        assert!(late.contains("2 blocks of v were not written back") && !late.contains("abandon"), "{late}");
        for failed in [left(4, 0, false), left(3, 1, false), left(3, 0, true)] {
            let refused = said(failed);
            assert!(
                refused.contains("cannot be written back") && refused.contains("--abandon-dirty"),
                "{refused}"
            );
        }
    }
}
