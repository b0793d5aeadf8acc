//! The properties of an origin of any kind before it is opened.

use std::path::{Path, PathBuf};

use kickcache_engine::config::OriginKind;

use crate::driver::device::{OpenError, identity_of};

/// The place of an origin, and how a start or an offline tool must treat it. The defaults of `kind` and `has_server`
/// are those of a local file or block device.
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

    /// The path of a local file or block device, which the system can lock against a second daemon; `None`
    /// for other kinds.
    fn path(&self) -> Option<&Path> {
        None
    }

    /// The fate of writes that the origin acknowledged and has not flushed.
    fn kind(&self) -> OriginKind {
        OriginKind::Local
    }

    /// Whether a server provides the origin. A server may be unreachable, or slow: a start contacts several
    /// servers in parallel and logs each awaited one, and requests wait for it as long as `origin-timeout`
    /// permits. The origin is compared with the cache's samples. The system cannot lock the origin against a
    /// second daemon; a lock in the state directory does.
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
