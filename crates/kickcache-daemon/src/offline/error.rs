//! Why a cache device cannot be looked at or changed.

use std::io;
use std::path::{Path, PathBuf};

use kickcache_engine::error::Error;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};

use crate::driver::device::OpenError;
use crate::extents::show_extents;
use crate::serve::error::ServeError;
use crate::serve::older_copy::OlderCopy;
use crate::serve::overtaken::ServedSince;
use crate::state::StateError;

/// Extents that an error names.
pub const EXTENTS_SHOWN: usize = 4;

/// Why a cache device cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// The system refused.
    #[error("cannot read {}", .path.display())]
    Io {
        /// The device.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Neither file nor block device.
    #[error("{} is neither a regular file nor a block device; give a cache device", .0.display())]
    Type(PathBuf),
    /// Something else.
    #[error("{} is not a kickcache cache device: it {found}; give another path", .path.display())]
    Foreign {
        /// The device.
        path: PathBuf,
        /// What it holds instead.
        found: String,
    },
    /// Nothing at all.
    #[error(
        "{} is blank, and no cache device: format it (kickcache format {}), or give another path", .0.display(),
        .0.display()
    )]
    Blank(PathBuf),
    /// A daemon has it.
    #[error("{} is in use; if a daemon serves it, ask that one: kickcache status", .0.display())]
    Busy(PathBuf),
    /// The engine cannot use it.
    #[error("{}: {source}", .path.display())]
    Content {
        /// The device.
        path: PathBuf,
        /// Why.
        source: Error,
    },
    /// What is noted of it cannot be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// It went out of service.
    #[error(
        "{} is out of service; nothing is changed on it: format it before you use it again (kickcache format)", .0.display()
    )]
    OutOfService(PathBuf),
    /// It went out of service with dirty blocks.
    #[error(
        "{} is out of service, and has older blocks of {name} than were written since, maybe ({what}); say --accept-older \
         to write them back all the same", .path.display()
    )]
    Older {
        /// The device.
        path: PathBuf,
        /// The volume.
        name: String,
        /// Which blocks.
        what: String,
    },
    /// Its origin was served past it, and it has dirty blocks.
    #[error(
        "{since} since {} had {name}, where {what} of it are, older than what the origin may have; say --accept-older to \
         write them back all the same, or go on without them (serve --lose-dirty, or detach --lose-dirty)", .path.display()
    )]
    Overtaken {
        /// The device.
        path: PathBuf,
        /// The volume.
        name: String,
        /// How its origin was served since.
        since: ServedSince,
        /// Which blocks.
        what: String,
    },
    /// The origin is not where it was.
    #[error(
        "the origin of {name} was {} and cannot be opened; if it has another name today, say kickcache drain {name} --cache \
         {} --origin NEW --origin-moved", .origin.display(), .path.display()
    )]
    OriginGone {
        /// The device.
        path: PathBuf,
        /// The volume.
        name: String,
        /// Where the origin was.
        origin: PathBuf,
        /// Why.
        source: OpenError,
    },
    /// It is older than what is noted of it.
    #[error("{}: {copy}", .path.display())]
    OlderCopy {
        /// The device.
        path: PathBuf,
        /// What was found.
        copy: OlderCopy,
    },
    /// Another cache device may hold what the origin lacks.
    #[error(
        "the cache device {} may hold newer blocks of {name} than its origin; drain that one first, or, if it is gone for \
         good, serve with --without-cache --lose-dirty", .other.display()
    )]
    Missed {
        /// The volume.
        name: String,
        /// The other cache device.
        other: PathBuf,
    },
    /// It cannot be opened for changes, or a change failed.
    #[error(transparent)]
    Change(#[from] ServeError),
    /// No volume of this name.
    #[error("{} has no volume `{name}`; {}", .path.display(), known_volumes(.known))]
    NoVolume {
        /// The device.
        path: PathBuf,
        /// What was asked for.
        name: String,
        /// The volumes that it has.
        known: Vec<String>,
    },
    /// A volume has dirty blocks.
    #[error(
        "{blocks} blocks of {name} are dirty: the origin does not have them ({}); write them back (kickcache drain {name} \
         --cache {}), or say --lose-dirty to lose them", show_extents(.extents, EXTENTS_SHOWN), .path.display()
    )]
    Dirty {
        /// The device.
        path: PathBuf,
        /// The volume.
        name: String,
        /// How many.
        blocks: usize,
        /// Which extents.
        extents: Vec<ByteExtent>,
    },
    /// Nobody knows what a cache device holds.
    #[error(
        "{} cannot be read, and may hold blocks that the origins lack; make it readable, or say --lose-dirty to go \
         on without what it holds", .path.display()
    )]
    Unknown {
        /// The cache device.
        path: PathBuf,
        /// Why it cannot be read.
        source: Box<OfflineError>,
    },
    /// Writeback does not come to an end.
    #[error(
        "{blocks} blocks of {name} cannot be written back ({}): {why}", show_extents(.extents, EXTENTS_SHOWN)
    )]
    Undrained {
        /// The volume.
        name: String,
        /// How many.
        blocks: u64,
        /// Which extents.
        extents: Vec<ByteExtent>,
        /// Why.
        why: &'static str,
    },
    /// Several volumes, and none was named.
    #[error("{} has {} volumes; say which: {}", .path.display(), .known.len(), .known.join(", "))]
    WhichVolume {
        /// The device.
        path: PathBuf,
        /// The volumes that it has.
        known: Vec<String>,
    },
    /// Recovery waits for something that never comes.
    #[error("{}: recovery of its log does not come to an end; please report this", .0.display())]
    Stuck(PathBuf),
}

impl OfflineError {
    /// The error of a volume that has dirty blocks on a device.
    pub fn dirty(path: &Path, name: &str, extents: Vec<ByteExtent>) -> OfflineError {
        let bytes: u64 = extents.iter().map(|extent| extent.length).sum();
        let blocks = usize::try_from(bytes / BLOCK_SIZE).unwrap_or(usize::MAX);
        OfflineError::Dirty { path: path.into(), name: name.into(), blocks, extents }
    }
}

fn known_volumes(known: &[String]) -> String {
    if known.is_empty() { "it has none".into() } else { format!("it has {}", known.join(", ")) }
}
