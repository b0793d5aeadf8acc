//! Paths from the root.

use std::path::{Path, PathBuf};

use crate::driver::rights::access;

/// A path from the root, links not resolved; unchanged, if the working folder is unknown.
pub fn whole_path(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}

/// The path from the root as text.
pub fn shown_path(path: &Path) -> String {
    whole_path(path).display().to_string()
}

/// A path from the root without links and `..`; if the file does not exist, only its folder is resolved, if that
/// exists.
pub fn real_path(path: &Path) -> PathBuf {
    let whole = whole_path(path);
    let in_folder = || Some(std::fs::canonicalize(whole.parent()?).ok()?.join(whole.file_name()?));
    access::canonical(&whole).ok().or_else(in_folder).unwrap_or(whole)
}
