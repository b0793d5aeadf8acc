//! What an origin of any kind says of itself before it is opened.

use std::path::{Path, PathBuf};

use kickcache_engine::config::OriginKind;

use crate::driver::device::{OpenError, identity_of};

/// Where an origin is, and how those who start a daemon, or do without one, must deal with it. What is here is true of a file or
/// block device of this machine.
pub trait OriginSpec {
    /// As people write it.
    fn shown(&self) -> String;

    /// The name that it gives a volume, if it gives one.
    fn name(&self) -> Option<&str>;

    /// What the cache device recognises it by; it is looked for, and not opened.
    ///
    /// # Errors
    /// [`OpenError`] if there is none.
    fn identity(&self) -> Result<String, OpenError>;

    /// The file or block device, if it is one of this machine: the system locks it for its daemon.
    fn path(&self) -> Option<&Path> {
        None
    }

    /// What becomes of writes that it acknowledged and has not flushed.
    fn kind(&self) -> OriginKind {
        OriginKind::Local
    }

    /// Whether a server answers for it. One may be away, or take long: it is asked beside others, and the start says whom it waits
    /// for; requests wait for it as long as `origin-timeout` says. It is compared with what the cache has of it. Nothing of the
    /// system keeps a second daemon from it: the state directory does.
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
