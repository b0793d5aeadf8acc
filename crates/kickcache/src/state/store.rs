//! Reads and writes the files of a state directory: each is replaced whole, and durable before anybody goes on.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::record::{CacheRecord, OriginRecord, VERSION};
use crate::places;

/// Bytes of a name in the name of a file; the checksum behind it tells origins apart.
const NAME_BYTES_MAX: usize = 64;

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not what this program writes.
    #[error("{path}: {what}; move it away if nothing in it is needed")]
    Content {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// A place where nothing is made.
    #[error("{path}: {what}")]
    Place {
        /// The directory.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// There is none.
    #[error("there is no state directory: neither $XDG_STATE_HOME nor $HOME names one")]
    NoDirectory,
}

/// A state directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateStore {
    directory: PathBuf,
}

impl StateStore {
    /// The store in a directory, which is made when something is first written.
    pub fn new(directory: &Path) -> StateStore {
        StateStore { directory: directory.into() }
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What is known of an origin.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn origin(&self, identity: &str) -> Result<Option<OriginRecord>, StateError> {
        read(&self.origin_path(identity), |record: &OriginRecord| record.version)
    }

    /// All origins.
    ///
    /// # Errors
    /// If one of the files cannot be read.
    pub fn origins(&self) -> Result<Vec<OriginRecord>, StateError> {
        let entries = match std::fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(source) => {
                return Err(StateError::Io { action: "read", path: self.directory.clone(), source });
            }
        };
        let is_origin = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("origin-") && name.ends_with(".json")
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_origin).collect();
        paths.sort();
        paths
            .iter()
            .filter_map(|path| read(path, |record: &OriginRecord| record.version).transpose())
            .collect()
    }

    /// What is known of a cache device.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn cache(&self, uuid: &str) -> Result<Option<CacheRecord>, StateError> {
        read(&self.cache_path(uuid), |record: &CacheRecord| record.version)
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

    /// Forgets an origin.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn forget_origin(&self, identity: &str) -> Result<(), StateError> {
        self.remove(&self.origin_path(identity))
    }

    /// Forgets a cache device, and that origins may lack what it held.
    ///
    /// # Errors
    /// If a record cannot be read or removed.
    pub fn forget_cache(&self, uuid: &str) -> Result<(), StateError> {
        for record in self.origins()?.iter().filter(|record| record.cache_uuid == uuid) {
            self.forget_origin(&record.identity)?;
        }
        self.remove_cache(uuid)
    }

    /// Removes the record of a cache device, and nothing else.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove_cache(&self, uuid: &str) -> Result<(), StateError> {
        self.remove(&self.cache_path(uuid))
    }

    fn origin_path(&self, identity: &str) -> PathBuf {
        let name = identity.rsplit('/').next().unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.+@".contains(c);
        let name: String =
            name.chars().map(|c| if is_plain(c) { c } else { '_' }).take(NAME_BYTES_MAX).collect();
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Xz, identity.as_bytes());
        self.directory.join(format!("origin-{name}-{sum:016x}.json"))
    }

    fn cache_path(&self, uuid: &str) -> PathBuf {
        self.directory.join(format!("cache-{uuid}.json"))
    }

    fn replace(&self, path: &Path, record: &impl Serialize) -> Result<(), StateError> {
        let fail = |action| move |source| StateError::Io { action, path: path.into(), source };
        if let Some(what) = places::fault(&self.directory).filter(|_| !self.directory.exists()) {
            return Err(StateError::Place { path: self.directory.clone(), what });
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        made.map_err(|source| StateError::Io { action: "make", path: self.directory.clone(), source })?;
        let bytes = serde_json::to_vec_pretty(record).map_err(io::Error::from).map_err(fail("write"))?;
        let mut file =
            tempfile::Builder::new().prefix(".new-").tempfile_in(&self.directory).map_err(fail("write"))?;
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

/// Whether there is nothing, be it that the directory is none.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn read<T: DeserializeOwned>(path: &Path, version: impl Fn(&T) -> u32) -> Result<Option<T>, StateError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(source) => return Err(StateError::Io { action: "read", path: path.into(), source }),
    };
    let refuse = |what| StateError::Content { path: path.into(), what };
    let found: T =
        serde_json::from_slice(&bytes).map_err(|error| refuse(format!("it is damaged ({error})")))?;
    if version(&found) != VERSION {
        let what = format!("it has version {}, this kickcache reads version {VERSION}", version(&found));
        return Err(refuse(what));
    }
    Ok(Some(found))
}
