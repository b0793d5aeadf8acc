//! Paths from the root: what is noted, compared or printed must mean the same in another folder.

use std::path::{Path, PathBuf};

/// A path from the root, links and all; as it is, if nobody knows the working folder.
pub fn whole_path(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}
