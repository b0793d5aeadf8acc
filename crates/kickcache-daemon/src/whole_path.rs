//! Paths from the root: recorded, compared and printed paths must be valid in another folder.

use std::path::{Path, PathBuf};

use crate::driver::rights::access;

/// A path from the root, links not resolved; unchanged, if the working folder is unknown.
pub fn whole_path(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}

/// The same as text, by which a status and an order name a cache device.
pub fn shown_path(path: &Path) -> String {
    whole_path(path).display().to_string()
}

/// A path from the root without links and `..`; of a file that is not there, as far as there are folders.
pub fn real_path(path: &Path) -> PathBuf {
    let whole = whole_path(path);
    let in_folder = || Some(std::fs::canonicalize(whole.parent()?).ok()?.join(whole.file_name()?));
    access::canonical(&whole).ok().or_else(in_folder).unwrap_or(whole)
}
