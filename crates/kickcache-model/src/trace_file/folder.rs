//! Folders of traces.

use std::path::{Path, PathBuf};

/// A file, or the files of a directory that may be traces, by name.
///
/// # Errors
/// If the directory cannot be read.
pub fn files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.into()]);
    }
    let entries = std::fs::read_dir(path)?.collect::<Result<Vec<_>, _>>()?;
    let mut found: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    found.retain(|path| path.is_file() && path.extension().is_none_or(|extension| extension != "md"));
    found.sort();
    Ok(found)
}
