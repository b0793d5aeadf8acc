//! The origin that a cache device names, before a command writes to it.
//!
//! A user with write access to a cache device can enter any file, block device or server as the origin. The
//! entry is valid only if the state directory confirms it with a record that other users than root and the
//! caller cannot write.
//!
//! Invariants: before this check, no file is opened for writing and no server is connected. The opened file
//! is the checked file, by its number.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use kickcache_engine::format::superblock::{Superblock, VolumeRecord};

use crate::devices::state::{FileIdentity, OriginRecord, StateError, StateStore, uuid_text};
use crate::driver::device::identity::path_of_file;
use crate::driver::rights::trusted_path::{Identity, Reach, Untrusted, check_private, walk_for_caller};
use crate::plan::origin_claims::OriginClaims;
use crate::plan::origin_source::OriginSource;
use crate::serve::config::StatePlace;
use crate::whole_path::whole_path;

pub(super) struct BoundOrigin {
    /// The number of the checked file or block device; `None` for a server, and for an origin that the
    /// command line names.
    pub(super) number: Option<Identity>,
    /// The open file: the kernel does not reuse its number.
    _held: Option<File>,
}

/// Why the origin that a cache device names is not written to.
#[derive(Debug, thiserror::Error)]
pub enum Unbound {
    #[error("there is no state directory that confirms it")]
    NoDirectory,
    #[error("{0}, so that its records are no proof")]
    Directory(String),
    #[error("no record in {} confirms it", .0.display())]
    NoRecord(PathBuf),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("the record has another file there, with another inode number or birth time")]
    Replaced,
    /// Other users can change where the path leads, and no recorded inode number identifies the file behind it.
    #[error(
        "other users than root and this user can exchange that file, and the record has neither its inode number nor its birth time"
    )]
    Exposed,
    /// The path of the origin cannot be followed, or leads through a folder that is not trusted.
    #[error("its path cannot be followed safely: {0}")]
    Path(Untrusted),
}

impl From<Untrusted> for Unbound {
    fn from(error: Untrusted) -> Unbound {
        Unbound::Path(error)
    }
}

impl BoundOrigin {
    pub(super) fn named() -> BoundOrigin {
        BoundOrigin { number: None, _held: None }
    }

    /// The origin that a cache device names for a volume.
    ///
    /// # Errors
    /// [`Unbound`].
    pub(super) fn of_device(
        state: &StatePlace,
        superblock: &Superblock,
        record: &VolumeRecord,
        claims: OriginClaims,
    ) -> Result<BoundOrigin, Unbound> {
        let note = find(state, superblock, record)?;
        let source = OriginSource::of_identity(&record.origin_identity);
        match (&source, source.socket_path()) {
            (OriginSource::Path(path), _) => of_path(path, &note, claims),
            (_, Some(socket)) => of_socket(socket),
            (_, None) => Ok(BoundOrigin::named()),
        }
    }
}

/// The record that binds an origin to a cache device.
fn find(state: &StatePlace, superblock: &Superblock, record: &VolumeRecord) -> Result<OriginRecord, Unbound> {
    let StatePlace::Directory(directory) = state else { return Err(Unbound::NoDirectory) };
    let directory = whole_path(directory);
    let no_record = || Unbound::NoRecord(directory.clone());
    if !directory.exists() {
        return Err(no_record());
    }
    check_private(&directory).map_err(Unbound::Directory)?;
    let store = StateStore::new(&directory);
    let note = store.origin(&record.origin_identity)?.ok_or_else(no_record)?;
    check_private(&store.origin_note(&record.origin_identity)).map_err(Unbound::Directory)?;
    match note.is_of(&uuid_text(superblock.uuid)) {
        true => Ok(note),
        false => Err(no_record()),
    }
}

fn of_path(path: &Path, note: &OriginRecord, claims: OriginClaims) -> Result<BoundOrigin, Unbound> {
    let walked = walk_for_caller(path)?;
    let Some(found) = walked.found else { return Err(Untrusted::Io(io::ErrorKind::NotFound.into()).into()) };
    let metadata = found.metadata().map_err(Untrusted::Io)?;
    let is_block = path_of_file(&note.identity).is_none();
    if metadata.file_type().is_block_device() != is_block {
        return Err(Unbound::Replaced);
    }
    // The record of a loop device identifies the file below the loop device.
    let file_now =
        || if is_block { FileIdentity::of_origin(&note.identity) } else { FileIdentity::of_file(&found) };
    let is_same = note.file.map(|noted| file_now().is_some_and(|now| now.is_same(noted)));
    match (is_same, walked.reach) {
        (Some(true), Reach::Others) if note.file.is_some_and(|noted| noted.inode == 0) => {
            return Err(Unbound::Exposed);
        }
        (None, Reach::Others) => return Err(Unbound::Exposed),
        (Some(false), Reach::Trusted) if claims.moved => {}
        (Some(false), _) => return Err(Unbound::Replaced),
        (Some(true), _) | (None, Reach::Trusted) => {}
    }
    Ok(BoundOrigin { number: Some(Identity::of(&metadata)), _held: Some(found) })
}

/// A server makes a new socket at each start, so that no record of the file helps: its directory must be trusted.
fn of_socket(socket: &Path) -> Result<BoundOrigin, Unbound> {
    match walk_for_caller(socket)?.reach {
        Reach::Trusted => Ok(BoundOrigin::named()),
        Reach::Others => Err(Unbound::Exposed),
    }
}
