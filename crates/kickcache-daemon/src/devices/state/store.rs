//! Reads and writes the records of a state directory: each is replaced whole, and durable before the caller
//! continues. Also takes the locks of origins there.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::origin_lock::OriginLock;
use super::owner::keep_owner;
use super::record::{CacheRecord, OriginRecord, VERSION};
use super::state_file::StateFile;
use super::wear_record::WearRecord;
use crate::driver::device::AccessMode;
use crate::driver::device::identity::{OlderIdentity, older_identities};
use crate::places;

/// The fields that every version of a file has.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// The most bytes of a valid file.
const LENGTH_MAX: u64 = 1 << 20;

/// The most characters of an origin's name in a file name; the checksum after them distinguishes origins.
const NAME_BYTES_MAX: usize = 64;

/// Why the state directory, or a record in it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("cannot {action} {path}: {source}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// No valid record is at the path.
    #[error("{path}: {what}; remove this file if its content is not needed")]
    Content { path: PathBuf, what: String },
    /// A later version wrote the file.
    #[error(
        "{path}: a newer kickcache wrote it (version {found}, this one reads version {VERSION}); use the \
         newer one, or remove the file if its content is not needed"
    )]
    Newer { path: PathBuf, found: u32 },
    /// A place where no file may be created.
    #[error("{path}: {what}")]
    Place { path: PathBuf, what: String },
    #[error("there is no state directory: neither $XDG_STATE_HOME nor $HOME names one")]
    NoDirectory,
}

impl StateError {
    /// Whether the error concerns the whole state directory, not one record. Every failed action except the
    /// read of a file counts.
    pub fn is_of_directory(&self) -> bool {
        match self {
            StateError::Io { action, path, .. } => *action != "read" || path.is_dir(),
            StateError::Place { .. } | StateError::NoDirectory => true,
            StateError::Content { .. } | StateError::Newer { .. } => false,
        }
    }
}

#[derive(Debug, Default)]
pub struct Origins {
    pub records: Vec<OriginRecord>,
    /// One error for each record that cannot be read.
    pub unreadable: Vec<StateError>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateStore {
    directory: PathBuf,
}

impl StateStore {
    /// The store in a directory, which is made when something is first written.
    pub fn new(directory: &Path) -> StateStore {
        StateStore { directory: directory.into() }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The record of an origin, also under an identity that an older version recorded for the present device.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn origin(&self, identity: &str) -> Result<Option<OriginRecord>, StateError> {
        if let Some(found) = self.origin_by(identity)? {
            return Ok(Some(found));
        }
        for older in older_identities(identity) {
            if let Some(found) = self.origin_by(&older.identity)? {
                return Ok(Some(OriginRecord { identity: identity.into(), ..found }));
            }
        }
        Ok(None)
    }

    fn origin_by(&self, identity: &str) -> Result<Option<OriginRecord>, StateError> {
        let path = self.origin_path(identity);
        let found: Option<OriginRecord> = read(&path)?;
        match found {
            Some(record) if record.identity != identity => {
                let what = format!("it is damaged (it is about {}, not {identity})", record.identity);
                Err(StateError::Content { path, what })
            }
            found => Ok(found),
        }
    }

    /// The records of all origins; an unreadable record is listed, and does not make the call fail.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn origins(&self) -> Result<Origins, StateError> {
        let mut origins = Origins::default();
        let entries = match std::fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(origins),
            Err(source) => {
                return Err(StateError::Io { action: "read", path: self.directory.clone(), source });
            }
        };
        let origins_only = entries
            .flatten()
            .filter(|entry| StateFile::of_name(&entry.file_name()) == Some(StateFile::OriginRecord));
        let mut paths: Vec<PathBuf> = origins_only.map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            match read(&path) {
                Ok(found) => origins.records.extend(found),
                Err(error) => origins.unreadable.push(error),
            }
        }
        Ok(origins)
    }

    /// The record of a cache device.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn cache(&self, uuid: &str) -> Result<Option<CacheRecord>, StateError> {
        read(&self.cache_path(uuid))
    }

    /// Keeps a record, durably.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep_origin(&self, record: &OriginRecord) -> Result<(), StateError> {
        self.replace(&self.origin_path(&record.identity), record)
    }

    /// Keeps a record, durably.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep_cache(&self, record: &CacheRecord) -> Result<(), StateError> {
        self.replace(&self.cache_path(&record.uuid), record)
    }

    /// The record of recent writes to a cache device.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn wear(&self, uuid: &str) -> Result<Option<WearRecord>, StateError> {
        read(&self.wear_path(uuid))
    }

    /// Keeps a record, durably.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep_wear(&self, record: &WearRecord) -> Result<(), StateError> {
        self.replace(&self.wear_path(&record.uuid), record)
    }

    /// Removes the record of an origin, durably.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn forget_origin(&self, identity: &str) -> Result<(), StateError> {
        self.remove(&self.origin_path(identity))
    }

    /// Removes the records of an origin under identities of older versions, if they have the same volume and cache
    /// device.
    ///
    /// # Errors
    /// If a record cannot be removed.
    pub fn forget_older(&self, record: &OriginRecord) -> Result<(), StateError> {
        for OlderIdentity { identity, .. } in older_identities(&record.identity) {
            if self
                .origin_by(&identity)
                .is_ok_and(|found| found.is_some_and(|found| found.is_of_same(record)))
            {
                self.forget_origin(&identity)?;
            }
        }
        Ok(())
    }

    /// Records that no origin with a readable record lacks blocks of a cache device, and that the device is
    /// in service with the next start number. Origins keep this device as their last one: their blocks on
    /// other devices are stale.
    ///
    /// # Errors
    /// If a record cannot be replaced or removed.
    pub fn forget_cache(&self, uuid: &str) -> Result<(), StateError> {
        self.remove(&self.wear_path(uuid))?;
        for record in self.origins()?.records.into_iter().filter(|record| record.cache_uuid == uuid) {
            self.keep_origin(&OriginRecord { may_be_dirty: false, ..record })?;
        }
        match self.cache(uuid) {
            Ok(Some(record)) if record.starts > 0 => {
                let starts = record.starts + 1;
                self.keep_cache(&CacheRecord { starts, out_of_service: None, ..record })
            }
            Ok(_) | Err(_) => self.remove_cache(uuid),
        }
    }

    /// The path of an origin's record, also under an identity of an older version.
    pub fn origin_note(&self, identity: &str) -> PathBuf {
        let path = self.origin_path(identity);
        if path.exists() {
            return path;
        }
        let older = older_identities(identity).into_iter().map(|older| self.origin_path(&older.identity));
        older.into_iter().find(|older| older.exists()).unwrap_or(path)
    }

    pub fn cache_note(&self, uuid: &str) -> PathBuf {
        self.cache_path(uuid)
    }

    /// Removes the record of a cache device only.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove_cache(&self, uuid: &str) -> Result<(), StateError> {
        self.remove(&self.cache_path(uuid))
    }

    pub fn origin_lock_path(&self, identity: &str) -> PathBuf {
        self.path(StateFile::OriginLock, &origin_key(identity))
    }

    /// Takes the lock of an origin; `None` if another process has it.
    ///
    /// # Errors
    /// If the lock file cannot be created, opened or locked.
    pub fn lock_origin(&self, identity: &str, access: AccessMode) -> Result<Option<OriginLock>, StateError> {
        let path = self.origin_lock_path(identity);
        OriginLock::take(&path, access).map_err(|source| StateError::Io { action: "lock", path, source })
    }

    fn origin_path(&self, identity: &str) -> PathBuf {
        self.path(StateFile::OriginRecord, &origin_key(identity))
    }

    fn cache_path(&self, uuid: &str) -> PathBuf {
        self.path(StateFile::CacheRecord, uuid)
    }

    fn wear_path(&self, uuid: &str) -> PathBuf {
        self.path(StateFile::WearRecord, uuid)
    }

    fn path(&self, kind: StateFile, key: &str) -> PathBuf {
        self.directory.join(kind.name(key))
    }

    fn replace(&self, path: &Path, record: &impl Serialize) -> Result<(), StateError> {
        let fail = |action| move |source| StateError::Io { action, path: path.into(), source };
        let place = |what| Err(StateError::Place { path: self.directory.clone(), what });
        match std::fs::metadata(&self.directory) {
            Ok(found) if !found.is_dir() => return place("it is no directory".into()),
            Ok(_) => {}
            Err(_) => places::fault(&self.directory).map_or(Ok(()), place)?,
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        made.map_err(|source| StateError::Io { action: "make", path: self.directory.clone(), source })?;
        let bytes = serde_json::to_vec_pretty(record).map_err(io::Error::from).map_err(fail("write"))?;
        let unfinished = StateFile::Unfinished.prefix();
        let mut file = tempfile::Builder::new()
            .prefix(unfinished)
            .tempfile_in(&self.directory)
            .map_err(fail("write"))?;
        keep_owner(file.as_file(), &self.directory).map_err(fail("write"))?;
        file.write_all(&bytes).and_then(|()| file.write_all(b"\n")).map_err(fail("write"))?;
        file.as_file().sync_all().map_err(fail("write"))?;
        file.persist(path).map_err(|error| error.error).map_err(fail("write"))?;
        self.sync()
    }

    fn remove(&self, path: &Path) -> Result<(), StateError> {
        match std::fs::remove_file(path) {
            Ok(()) => self.sync(),
            Err(error) if is_absent(&error) => Ok(()),
            Err(source) => Err(StateError::Io { action: "remove", path: path.into(), source }),
        }
    }

    fn sync(&self) -> Result<(), StateError> {
        let synced = File::open(&self.directory).and_then(|directory| directory.sync_all());
        synced.map_err(|source| StateError::Io { action: "sync", path: self.directory.clone(), source })
    }
}

fn origin_key(identity: &str) -> String {
    let name = identity.rsplit('/').next().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.+@".contains(c);
    let name: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).take(NAME_BYTES_MAX).collect();
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Xz, identity.as_bytes());
    format!("{name}-{sum:016x}")
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The directory may belong to another user: a special file is not read, a link is not followed, and a file
/// of more than [`LENGTH_MAX`] bytes is refused.
fn read_file(path: &Path) -> Result<Option<Vec<u8>>, StateError> {
    let fail = |source| StateError::Io { action: "read", path: path.into(), source };
    let mut options = OpenOptions::new();
    let file = match options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(content(path, "it is a link".into()));
        }
        Err(error) => return Err(fail(error)),
    };
    if !file.metadata().map_err(fail)?.is_file() {
        return Err(content(path, "it is no file".into()));
    }
    let mut bytes = Vec::new();
    file.take(LENGTH_MAX + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > LENGTH_MAX {
        return Err(content(path, format!("it has more than {LENGTH_MAX} bytes")));
    }
    Ok(Some(bytes))
}

fn content(path: &Path, what: String) -> StateError {
    StateError::Content { path: path.into(), what }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StateError> {
    let Some(bytes) = read_file(path)? else { return Ok(None) };
    let damaged = |error: serde_json::Error| content(path, format!("it is damaged ({error})"));
    // A later version may have other fields.
    let Versioned { version } = serde_json::from_slice(&bytes).map_err(damaged)?;
    match version {
        VERSION => serde_json::from_slice(&bytes).map(Some).map_err(damaged),
        0 => Err(content(path, "it is damaged (version 0)".into())),
        found => Err(StateError::Newer { path: path.into(), found }),
    }
}
