//! Where the origin of a volume is, and what one must tell that comes from outside of the daemon.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kickcache_engine::config::OriginKind;

use crate::driver::device::{OpenError, identity_of};
use crate::driver::queued_device::QueuedDevice;
use crate::plan::nbd_uri::{NbdUri, UriError};

/// Where the origin of a volume is.
#[derive(Clone, Debug)]
pub enum OriginSource {
    /// A file or block device.
    Path(PathBuf),
    /// An export of an NBD server.
    Nbd(NbdUri),
    /// Whatever the caller brings in: a simulation, or the device of a test.
    Outside(OutsideSource),
}

impl OriginSource {
    /// Reads what people write: a path, or a URI.
    ///
    /// # Errors
    /// If it is a URI that cannot be an origin.
    pub fn parse(text: &OsStr) -> Result<OriginSource, UriError> {
        match text.to_str().filter(|text| NbdUri::is_meant(text)) {
            Some(uri) => NbdUri::parse(uri).map(OriginSource::Nbd),
            None if text.is_empty() => Err(UriError::Unknown(String::new())),
            None => Ok(OriginSource::Path(text.into())),
        }
    }

    /// What becomes of writes that it acknowledged and has not flushed.
    pub fn kind(&self) -> OriginKind {
        match self {
            OriginSource::Nbd(_) => OriginKind::Remote,
            OriginSource::Path(_) | OriginSource::Outside(_) => OriginKind::Local,
        }
    }

    /// The name that it gives a volume: that of the file or of the export.
    pub fn name(&self) -> Option<&str> {
        match self {
            OriginSource::Path(path) => path.file_name()?.to_str(),
            OriginSource::Nbd(uri) => Some(uri.export()).filter(|name| !name.is_empty()),
            OriginSource::Outside(_) => None,
        }
    }

    /// The file or block device, if it is one of this machine.
    pub fn path(&self) -> Option<&Path> {
        match self {
            OriginSource::Path(path) => Some(path),
            OriginSource::Nbd(_) | OriginSource::Outside(_) => None,
        }
    }

    /// What the cache device recognises it by; it is looked for, and not opened.
    ///
    /// # Errors
    /// [`OpenError`] if there is none.
    pub fn identity(&self) -> Result<String, OpenError> {
        match self {
            OriginSource::Path(path) => identity_of(path),
            OriginSource::Nbd(uri) => Ok(uri.identity()),
            OriginSource::Outside(source) => Ok(source.open().identity()),
        }
    }
}

impl PartialEq for OriginSource {
    fn eq(&self, other: &OriginSource) -> bool {
        match (self, other) {
            (OriginSource::Path(one), OriginSource::Path(another)) => one == another,
            (OriginSource::Nbd(one), OriginSource::Nbd(another)) => one == another,
            _ => false,
        }
    }
}

impl From<&Path> for OriginSource {
    fn from(path: &Path) -> OriginSource {
        OriginSource::Path(path.into())
    }
}

impl fmt::Display for OriginSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OriginSource::Path(path) => path.display().fmt(f),
            OriginSource::Nbd(uri) => uri.fmt(f),
            OriginSource::Outside(source) => f.write_str(&source.open().identity()),
        }
    }
}

/// An origin that the daemon knows nothing about.
pub trait OutsideOrigin: QueuedDevice {
    /// Bytes, a multiple of 4096; it does not change.
    fn size(&self) -> u64;

    /// What the cache device recognises it by, such as `simulated:disk`.
    fn identity(&self) -> String;
}

/// Makes an origin from outside, each time that it is opened.
#[derive(Clone)]
pub struct OutsideSource(Arc<dyn Fn() -> Box<dyn OutsideOrigin> + Send + Sync>);

impl OutsideSource {
    /// One that a function makes.
    pub fn new(open: impl Fn() -> Box<dyn OutsideOrigin> + Send + Sync + 'static) -> OutsideSource {
        OutsideSource(Arc::new(open))
    }

    /// Makes it.
    pub fn open(&self) -> Box<dyn OutsideOrigin> {
        (self.0)()
    }
}

impl fmt::Debug for OutsideSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OutsideSource")
    }
}
