//! Why a device cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use crate::opener::{Opener, in_front};
use crate::own_user::own_user;
use crate::path_text::NotUtf8;

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot open {path}: {source}")]
    Open { path: PathBuf, source: io::Error },
    #[error(
        "{user} may not open {path} ({source}); give this user the right, in its folders too (namei -l {path}), or use another user"
    )]
    Denied { path: PathBuf, user: String, source: io::Error },
    #[error(transparent)]
    Text(#[from] NotUtf8),
    #[error("{path} is a {found}; give a regular file or a block device")]
    Type { path: PathBuf, found: &'static str },
    #[error("{path} cannot be written by {user} ({source}); make it writable, or serve it read-only")]
    ReadOnly { path: PathBuf, user: String, source: io::Error },
    #[error("{path} cannot be read: the first read failed ({source}); check the device, then start again")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{path} cannot be flushed ({source}), so that it may lose acknowledged writes when its power \
         fails; to accept this loss, even of flushed writes, use --origin-no-flush"
    )]
    Unflushable { path: PathBuf, source: io::Error },
    #[error(
        "{path} is a read-only block device; make it writable (blockdev --setrw), or, if it is an origin, serve it \
         read-only (--read-only)"
    )]
    Protected { path: PathBuf },
    /// Another process has opened the device exclusively, has mounted it, or has locked it or a file below it.
    #[error(
        "{path} is in use by another process ({}{detail}); stop that one first (a file system on it must be unmounted)",
        in_front(.by.as_ref())
    )]
    Busy { path: PathBuf, by: Option<Opener>, detail: &'static str },
    #[error(
        "{path} does not answer: its first block could not be read in {seconds} s; check the device, then start again"
    )]
    Silent { path: PathBuf, seconds: u64 },
    /// The file or device is smaller than one sector of 512 bytes.
    #[error("{path} has {found} bytes, which is less than one sector of 512; give a device with data")]
    Empty { path: PathBuf, found: u64 },
    #[error(
        "{first} and {second} are the same device; use a separate device for the cache and for each origin"
    )]
    Same { first: PathBuf, second: PathBuf },
}

impl OpenError {
    pub(crate) fn busy(path: &Path, detail: &'static str) -> OpenError {
        OpenError::Busy { path: path.into(), by: None, detail }
    }
}

pub(super) fn open_error(path: &Path, source: io::Error) -> OpenError {
    // A refusal by the monitor has no errno, but a sentence as its reason.
    if source.raw_os_error() == Some(libc::EACCES) {
        return OpenError::Denied { path: path.into(), user: own_user(), source };
    }
    OpenError::Open { path: path.into(), source }
}
