//! Messages about a path that is not a cache device, or holds dirty blocks.

use std::path::Path;

use anyhow::anyhow;
use kickcache_units::show_bytes;

use crate::devices::damaged_log::damaged_log;
use crate::devices::lost_superblock::{lost_superblock, noted_dirty};
use crate::devices::missed_device::drain_from;
use crate::devices::offline::older_copy::older_copy_at;
use crate::devices::offline::{self, OfflineError};
use crate::serve::config::StatePlace;
use crate::shell_command::ShellCommand;

/// An error of a tool, with the remedy for a damaged log or a lost superblock, if there is one.
pub fn with_notes(error: OfflineError, path: &Path, state: &StatePlace) -> anyhow::Error {
    if let OfflineError::Content { source, .. } = &error
        && let Some(next) = damaged_log(source, path, state)
    {
        return anyhow!("{error}; {next}");
    }
    let is_lost = matches!(error, OfflineError::Foreign { .. } | OfflineError::Blank(_));
    match lost_superblock(path, state).filter(|_| is_lost) {
        Some(what) => anyhow!("{error}; {what}"),
        None => error.into(),
    }
}

/// Refuses to make a new cache device where dirty blocks are, or may be.
///
/// # Errors
/// A sentence that names the volumes.
pub(crate) fn refuse_dirty(path: &Path, state: &StatePlace) -> anyhow::Result<()> {
    let contents = match offline::read(path) {
        Ok(contents) => contents,
        Err(OfflineError::Foreign { .. } | OfflineError::Blank(_)) => {
            return lost_superblock(path, state)
                .map_or(Ok(()), |what| Err(anyhow!("{}: {what}", path.display())));
        }
        Err(error) => return refuse_noted(error, path, state),
    };
    let copy = older_copy_at(path, state);
    let mut told = Vec::new();
    for (record, (_, dirty)) in contents.superblock.volumes.iter().zip(&contents.dirty) {
        let bytes: u64 = dirty.iter().map(|extent| extent.length).sum();
        if bytes > 0 {
            let drain = match copy {
                Some(_) => ShellCommand::drain_older(&record.name, path, state),
                None => drain_from(path, &record.name, state),
            };
            told.push(format!("{} of {} (written back by {drain})", show_bytes(bytes), record.name));
        }
    }
    if told.is_empty() {
        return Ok(());
    }
    let what = match copy {
        Some(_) => "an older copy of a kickcache cache device",
        None => "a kickcache cache device",
    };
    Err(anyhow!(
        "{} is {what} with dirty blocks: {}; write them back, or choose another device; --force destroys them",
        path.display(),
        told.join(", ")
    ))
}

/// Refuses to format an unreadable cache device while its blocks may be needed.
fn refuse_noted(error: OfflineError, path: &Path, state: &StatePlace) -> anyhow::Result<()> {
    match (&error, noted_dirty(path, state)) {
        (OfflineError::Content { .. }, Some(names)) => Err(anyhow!(
            "{}; by the state directory it may hold dirty blocks of {names}, which their origins lack; --force destroys them",
            with_notes(error, path, state)
        )),
        _ => Ok(()),
    }
}
