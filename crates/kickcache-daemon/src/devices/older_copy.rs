//! A cache device that is older than its record.

use std::fmt;
use std::path::{Path, PathBuf};

use kickcache_engine::format::superblock::Superblock;

use crate::devices::state::{CacheRecord, uuid_text};
use crate::serve::config::StatePlace;
use crate::shell_command::ShellCommand;
use crate::whole_path::{real_path, whole_path};

/// An older copy of a cache device: later writes are not on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OlderCopy {
    pub path: PathBuf,
    pub state: StatePlace,
    pub volumes: Vec<String>,
    /// The number of the copy's last start.
    pub found: u64,
    /// The number of the last recorded start.
    pub noted: u64,
    pub note: PathBuf,
    /// The recorded path of the newer device; `None` if it is the path of the copy.
    pub newer: Option<PathBuf>,
}

impl fmt::Display for OlderCopy {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OlderCopy { path, state, volumes, found, noted, note, newer } = self;
        let drain = |name: &String| ShellCommand::drain_older(name, path, state).to_string();
        let drains: Vec<String> = volumes.iter().map(drain).collect();
        let back = match drains.as_slice() {
            [] => String::new(),
            some => {
                format!(
                    "write the dirty blocks here back over the data of the origin ({}) and ",
                    some.join("; ")
                )
            }
        };
        let newer = match newer {
            Some(newer) => format!("give the newer one, which was {}", newer.display()),
            None => "bring the newer one back".into(),
        };
        let (format, note) =
            (ShellCommand::new("format").word("--force").path(path).state(state), note.display());
        write!(
            to,
            "this is an older copy of the cache device: its last start has number {found}, and number {noted} is \
             recorded; {newer}, or {back}format it ({format}); or, if the origins were restored along with it, remove \
             the record {note}"
        )
    }
}

/// The details if a cache device is older than its record.
pub fn older_copy(place: &StatePlace, superblock: &Superblock, path: &Path) -> Option<OlderCopy> {
    let record = record_of(place, superblock)?;
    let (found, noted) = (superblock.starts, record.starts);
    if found == 0 || found >= noted {
        return None;
    }
    let note = place.store()?.cache_note(&record.uuid);
    let volumes = superblock.volumes.iter().map(|record| record.name.clone()).collect();
    let newer = elsewhere(record, path);
    Some(OlderCopy { path: path.into(), state: place.clone(), volumes, found, noted, note, newer })
}

/// The record of a cache device; `None` also if it cannot be read.
pub(crate) fn record_of(place: &StatePlace, superblock: &Superblock) -> Option<CacheRecord> {
    place.store()?.cache(&uuid_text(superblock.uuid)).ok().flatten()
}

/// The number of the last recorded start of a cache device; 0 without a readable record.
pub(crate) fn noted_start(place: &StatePlace, superblock: &Superblock) -> u64 {
    record_of(place, superblock).map_or(0, |record| record.starts)
}

/// The recorded path of a cache device, if it differs from `path`.
pub(crate) fn elsewhere(record: CacheRecord, path: &Path) -> Option<PathBuf> {
    Some(record.path).filter(|noted| *noted != real_path(path) && *noted != whole_path(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_without_volumes_has_no_dirty_blocks() {
        let copy = |volumes: &[&str]| OlderCopy {
            path: "/c".into(),
            state: StatePlace::Directory("/s".into()),
            volumes: volumes.iter().map(|name| (*name).into()).collect(),
            found: 2,
            noted: 3,
            note: "/s/n".into(),
            newer: None,
        };
        let none = copy(&[]).to_string();
        assert!(
            none.contains("bring the newer one back, or format it (kickcache format --force /c --state /s)"),
            "{none}"
        );
        let replaced = OlderCopy { newer: Some("/d".into()), ..copy(&[]) }.to_string();
        assert!(replaced.contains("; give the newer one, which was /d, or format it ("), "{replaced}");
        let one = copy(&["vm1"]).to_string();
        assert!(
            one.contains("(kickcache drain vm1 --cache /c --accept-older --state /s) and format it ("),
            "{one}"
        );
    }
}
