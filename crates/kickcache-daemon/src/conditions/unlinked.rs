//! Files of origins and cache devices that were removed or replaced while they are served.

use crate::control::ControlError;
use crate::control::condition::{Condition, ConditionKind};
use crate::control::report::{CacheReport, Report};
use crate::shell_command::{DaemonCommands, ShellCommand};

/// Refuses a stop that would lose the data of a removed file.
///
/// # Errors
/// A sentence that names the file, and how its data can be kept.
pub(crate) fn check_linked(report: &Report, commands: &DaemonCommands) -> Result<(), ControlError> {
    let is_dirty = |device: &str| {
        let caches = report.caches.iter().filter(|cache| cache.device == device);
        caches.map(CacheReport::not_clean_bytes).any(|bytes| bytes > 0)
    };
    let is_lost = |condition: &&Condition| {
        condition.kind == ConditionKind::FileUnlinked && condition.device.as_deref().is_none_or(is_dirty)
    };
    let Some(condition) = report.conditions.iter().find(is_lost) else { return Ok(()) };
    let stop = commands.to_daemon(ShellCommand::new("stop").word("--lose-unlinked"));
    Err(ControlError::Refused(format!(
        "the daemon does not stop: {} To stop it and lose these data, run `{stop}`",
        condition.sentence()
    )))
}

/// The sentence about the origin of a volume, if its file was removed or replaced.
pub fn unlinked_origin(report: &Report, volume: &str) -> Option<String> {
    let is_meant = |condition: &&Condition| {
        condition.kind == ConditionKind::FileUnlinked && condition.volume.as_deref() == Some(volume)
    };
    report.conditions.iter().find(is_meant).map(Condition::sentence)
}
