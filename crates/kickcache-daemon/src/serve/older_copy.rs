//! A cache device that is older than what is noted of it: a snapshot that was restored, or a copy from before its last start.

use std::fmt;
use std::path::PathBuf;

use kickcache_engine::format::superblock::Superblock;

use crate::serve::config::StatePlace;
use crate::state::{StateStore, uuid_text};

/// An older copy of a cache device: what was written since is not on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OlderCopy {
    /// The number of its last start.
    pub found: u64,
    /// The number of the last start that is noted.
    pub noted: u64,
    /// Where that is noted.
    pub note: PathBuf,
}

impl fmt::Display for OlderCopy {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OlderCopy { found, noted, note } = self;
        write!(
            to,
            "this is an older copy of the cache device: its last start is number {found}, and number {noted} is noted; bring \
             the newer one back, or write back what is dirty here over what the origin has (kickcache drain --cache, with \
             --accept-older) and format it (kickcache format --force); or, if the origins were restored along with it, remove \
             the note {}",
            note.display()
        )
    }
}

/// Whether a cache device is older than what is noted of it; `None` if nothing is noted, or it carries no number.
pub fn older_copy(place: &StatePlace, superblock: &Superblock) -> Option<OlderCopy> {
    let (found, noted) = (superblock.starts, noted_start(place, superblock));
    let StatePlace::Directory(directory) = place else { return None };
    let note = || StateStore::new(directory).cache_note(&uuid_text(superblock.uuid));
    (found > 0 && found < noted).then(|| OlderCopy { found, noted, note: note() })
}

/// The number of the last start of a cache device that is noted; 0 if none is.
pub(crate) fn noted_start(place: &StatePlace, superblock: &Superblock) -> u64 {
    let StatePlace::Directory(directory) = place else { return 0 };
    // A note that cannot be read may say that it is out of service, and is refused as such.
    let record = StateStore::new(directory).cache(&uuid_text(superblock.uuid));
    record.ok().flatten().map_or(0, |record| record.starts)
}
