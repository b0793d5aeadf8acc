//! The properties of an origin of any kind before it is opened.

use std::path::{Path, PathBuf};

use kickcache_engine::config::OriginKind;

use crate::driver::device::{OpenError, identity_of};

/// The place of an origin.
pub trait OriginSpec {
    /// The place in the user's notation.
    fn shown(&self) -> String;

    /// The default name of a volume with this origin, if the place suggests one.
    fn name(&self) -> Option<&str>;

    /// The origin's identity on the cache device; the origin is looked up, not opened.
    ///
    /// # Errors
    /// [`OpenError`] if there is none.
    fn identity(&self) -> Result<String, OpenError>;

    /// The path of a local file or block device; `None` for other kinds.
    fn path(&self) -> Option<&Path> {
        None
    }

    /// The fate of writes that the origin acknowledged and has not flushed.
    fn kind(&self) -> OriginKind {
        OriginKind::Local
    }

    /// Whether a server provides the origin: the server may be unreachable, and the system cannot lock the
    /// origin against a second daemon.
    fn has_server(&self) -> bool {
        false
    }
}

impl OriginSpec for PathBuf {
    fn shown(&self) -> String {
        self.display().to_string()
    }

    fn name(&self) -> Option<&str> {
        self.file_name()?.to_str()
    }

    fn identity(&self) -> Result<String, OpenError> {
        identity_of(self)
    }

    fn path(&self) -> Option<&Path> {
        Some(self)
    }
}
