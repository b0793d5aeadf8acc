//! The error for a defective folder of certificates.

use std::path::{Path, PathBuf};

use thiserror::Error;

#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{}: {what}", .path.display())]
pub struct TlsError {
    /// The file; the folder if no certificate can be for the host.
    pub path: PathBuf,
    pub what: String,
}

impl TlsError {
    pub(crate) fn new(path: &Path, what: impl Into<String>) -> TlsError {
        TlsError { path: path.into(), what: what.into() }
    }
}
