//! What is said of a device that is no cache device, or holds dirty blocks, before it is given up.

use std::path::Path;

use anyhow::anyhow;
use kickcache_daemon::offline::{self, OfflineError};
use kickcache_daemon::serve::config::StatePlace;
use kickcache_daemon::serve::damaged_log::damaged_log;
use kickcache_daemon::serve::lost_superblock::lost_superblock;
use kickcache_daemon::shell_command::ShellCommand;
use kickcache_units::show_bytes;

/// An error of a tool, with what to do about a damaged log, and with what is noted of the cache device that was at the path, if there
/// is none any more.
pub(super) fn with_notes(error: OfflineError, path: &Path, state: &StatePlace) -> anyhow::Error {
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
pub(super) fn refuse_dirty(path: &Path, state: &StatePlace) -> anyhow::Result<()> {
    let contents = match offline::read(path) {
        Ok(contents) => contents,
        Err(OfflineError::Foreign { .. } | OfflineError::Blank(_)) => {
            return lost_superblock(path, state)
                .map_or(Ok(()), |what| Err(anyhow!("{}: {what}", path.display())));
        }
        // What is wrong with it is said by those who open it.
        Err(_) => return Ok(()),
    };
    let mut told = Vec::new();
    for (record, (_, dirty)) in contents.superblock.volumes.iter().zip(&contents.dirty) {
        let bytes: u64 = dirty.iter().map(|extent| extent.length).sum();
        if bytes > 0 {
            let drain = ShellCommand::new("drain").word(&record.name).word("--cache").path(path).state(state);
            told.push(format!("{} of {} (written back by {drain})", show_bytes(bytes), record.name));
        }
    }
    if told.is_empty() {
        return Ok(());
    }
    Err(anyhow!(
        "{} is a kickcache cache device with dirty blocks: {}; write them back, or choose another device; --force destroys \
         them",
        path.display(),
        told.join(", ")
    ))
}
