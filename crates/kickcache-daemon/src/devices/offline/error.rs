//! Why a cache device cannot be looked at or changed.

use std::io;
use std::path::{Path, PathBuf};

use kickcache_engine::error::Error;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};
use kickcache_units::{are, counted};

use crate::devices::bypassed_device::ServedSince;
use crate::devices::missed_device::{drain_from, lose_dirty};
use crate::devices::offline::bound_origin::Unbound;
use crate::devices::older_copy::OlderCopy;
use crate::devices::state::StateError;
use crate::driver::device::OpenError;
use crate::extents::show_extents;
use crate::opener::{Opener, in_brackets};
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;
use crate::shell_command::{Flag, ShellCommand};

/// The most extents that an error names.
pub const EXTENTS_SHOWN: usize = 4;

/// Why a cache device cannot be looked at or changed.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    #[error("cannot read {}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is neither a regular file nor a block device; give a cache device", .0.display())]
    Type(PathBuf),
    /// The device holds other data, or is too small.
    #[error("{} is not a kickcache cache device: it {found}; give another path", .path.display())]
    Foreign { path: PathBuf, found: String },
    #[error("{} is blank, and no cache device: give another path, or format it first", .0.display())]
    Blank(PathBuf),
    #[error(
        "{} is in use{}; if a daemon serves it, use: {}", .path.display(), in_brackets(.by.as_ref()), ShellCommand::new("status")
    )]
    Busy { path: PathBuf, by: Option<Opener> },
    #[error("{}: {source}", .path.display())]
    Content { path: PathBuf, source: Error },
    #[error(transparent)]
    State(#[from] StateError),
    #[error(
        "{} is out of service, and is unchanged: format it before you use it again ({})", .path.display(),
        ShellCommand::new("format").path(.path).state(.state)
    )]
    OutOfService { state: StatePlace, path: PathBuf },
    /// The cache device is out of service, and may have dirty blocks.
    #[error(
        "{} is out of service, and its blocks of {name} ({what}) may be older than later writes; use \
         --accept-older to write them back", .path.display()
    )]
    Older { path: PathBuf, name: String, what: String },
    /// The cache device has dirty blocks, and the origin was or may have been used without it.
    #[error(
        "{since} since {} had {name}: it still holds {what}, possibly older than the data of the origin; \
         {}write that over the data of the origin ({}), which removes the volume from this device, as \
         its other blocks are stale, too, or serve it without them (serve {}, or {})", .path.display(), .since.other_way(.name), ShellCommand::drain_older(.name, .path, .state), lose_dirty(.name),
        ShellCommand::new("detach").word("--lose-dirty").path(.path).word(.name).state(.state)
    )]
    Overtaken { state: StatePlace, path: PathBuf, name: String, since: ServedSince, what: String },
    /// The origin was not found, or cannot be looked up, at its last known path.
    #[error(
        "the origin of {name} was {} and cannot be opened; if it has another path, use {}", .origin.display(),
        ShellCommand::drain_offline(.name, .path).word("--origin").word("NEW").word("--origin-moved").state(.state)
    )]
    OriginGone { state: StatePlace, path: PathBuf, name: String, origin: PathBuf, source: Box<OpenError> },
    /// The state directory does not confirm the origin that the device names.
    #[error(
        "{} names {origin} as the origin of {name}, and {why}; no data was written: check it, and name the origin ({drain})",
        .path.display()
    )]
    Unbound { path: PathBuf, name: String, origin: String, why: Box<Unbound>, drain: ShellCommand },
    /// The cache device is older than its record.
    #[error("{}: {copy}", .path.display())]
    OlderCopy { path: PathBuf, copy: Box<OlderCopy> },
    /// Another cache device may hold blocks that the origin lacks.
    #[error(
        "the cache device {} may hold newer blocks of {name} than its origin; drain that one first, or, if it is \
         lost, serve with {} and {}", .other.display(), Flag::new("--without-cache", .other.as_os_str()),
         lose_dirty(.name)
    )]
    Missed { name: String, other: PathBuf },
    /// The cache device was served, and the given state directory has no record for it.
    #[error(
        "{} was served before, and {place} has no record for it: the origin of {name} may have newer \
         data; name the state directory that has its record (--state), or use --accept-older and \
         --origin to write {what} over the data of the origin, and to remove the volume from this \
         device, as its other blocks may be stale", .path.display()
    )]
    Unnoted { path: PathBuf, name: String, place: String, what: String },
    /// The cache device cannot be opened for changes, or a change failed.
    #[error(transparent)]
    Change(#[from] ServeError),
    #[error("{} has no volume `{name}`; {}", .path.display(), known_volumes(.known))]
    NoVolume { path: PathBuf, name: String, known: Vec<String> },
    #[error(
        "{} of {name} {} dirty: the origin lacks them ({}); write them back ({drain}), or use {lose} to lose them",
        counted(block_count(.extents), "block"), are(block_count(.extents)), show_extents(.extents, EXTENTS_SHOWN)
    )]
    Dirty { name: String, extents: Vec<ByteExtent>, drain: ShellCommand, lose: Flag },
    /// The contents of a cache device are unknown.
    #[error(
        "{} cannot be read, and may hold blocks that the origins lack; make it readable, or lose its \
         blocks of a volume ({lose})", .path.display()
    )]
    Unknown { lose: Flag, path: PathBuf, source: Box<OfflineError> },
    /// Blocks stay dirty: the origin fails, or the cache device cannot read them.
    #[error(
        "{} of {name} cannot be written back ({}): {why}", counted(*.blocks, "block"), show_extents(.extents, EXTENTS_SHOWN)
    )]
    Undrained { name: String, blocks: u64, extents: Vec<ByteExtent>, why: String },
    #[error(
        "the drain of {0} was interrupted; the remaining dirty blocks stay on the cache device: drain it again"
    )]
    Interrupted(String),
    /// The cache device has several volumes or none, and the user named none.
    #[error("{} has {} volumes; name one: {}", .path.display(), .known.len(), .known.join(", "))]
    WhichVolume { path: PathBuf, known: Vec<String> },
    /// The engine waits for an event that never occurs, in a recovery or in a change.
    #[error("{}: recovery of its log does not end; please report this", .0.display())]
    Stuck(PathBuf),
}

impl OfflineError {
    pub fn dirty(
        state: &StatePlace,
        path: &Path,
        name: &str,
        extents: Vec<ByteExtent>,
        lose: Flag,
    ) -> OfflineError {
        OfflineError::Dirty { name: name.into(), extents, drain: drain_from(path, name, state), lose }
    }

    /// Replaces the drain command of the error for an older copy of a cache device.
    #[must_use]
    pub fn of_older_copy(self, copy: &OlderCopy) -> OfflineError {
        match self {
            OfflineError::Dirty { name, extents, lose, .. } => {
                let drain = ShellCommand::drain_older(&name, &copy.path, &copy.state);
                OfflineError::Dirty { name, extents, drain, lose }
            }
            other => other,
        }
    }
}

fn block_count(extents: &[ByteExtent]) -> u64 {
    extents.iter().map(|extent| extent.length).sum::<u64>() / BLOCK_SIZE
}

fn known_volumes(known: &[String]) -> String {
    if known.is_empty() { "it has none".into() } else { format!("it has {}", known.join(", ")) }
}
