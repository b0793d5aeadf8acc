//! One daemon at a time serves an export, or several read-only.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::devices::state::owner::keep_owner;
use crate::driver::device::AccessMode;

/// A lock on the identity of an origin. The system releases the lock whenever the process ends, even by a
/// kill.
#[derive(Debug)]
pub struct OriginLock {
    file: File,
}

impl OriginLock {
    /// Locks a file, which is created if needed and is never removed; `None` if another process has the lock.
    /// Read-only users share the lock.
    pub(super) fn take(path: &Path, access: AccessMode) -> io::Result<Option<OriginLock>> {
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let file = open(path)?;
        let locked = match access {
            AccessMode::ReadWrite => file.try_lock(),
            AccessMode::ReadOnly => file.try_lock_shared(),
        };
        match locked {
            Ok(()) => Ok(Some(OriginLock { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Links are not followed: the directory may belong to another user than this process.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    loop {
        match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match options.clone().create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(made) => {
                if let Some(directory) = path.parent() {
                    keep_owner(&made, directory)?;
                }
                return Ok(made);
            }
        }
    }
}

impl Drop for OriginLock {
    fn drop(&mut self) {
        // If this fails, closing the file releases the lock.
        let _ = self.file.unlock();
    }
}
