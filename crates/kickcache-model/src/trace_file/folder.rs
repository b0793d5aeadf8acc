//! Folders of traces.

use std::path::{Path, PathBuf};

/// The path itself if it is no directory; otherwise the files in it that may be traces, ordered by name.
///
/// # Errors
/// If the directory cannot be read.
pub fn files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.into()]);
    }
    let entries = std::fs::read_dir(path)?.collect::<Result<Vec<_>, _>>()?;
    let mut found: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    found.retain(|path| path.is_file() && is_trace_name(path.as_os_str().as_encoded_bytes()));
    found.sort();
    Ok(found)
}

/// Whether a file of this path may be a trace: `.md` files are descriptions.
pub(crate) fn is_trace_name(path: &[u8]) -> bool {
    !path.ends_with(b".md")
}
