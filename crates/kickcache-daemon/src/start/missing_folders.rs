//! Folders for sockets that a start makes.

use std::path::{Path, PathBuf};

use crate::plan::ServePlan;
use crate::plan::default_paths::runtime_dir;

/// Folders that were created for sockets: a start that fails removes them again.
pub(crate) struct MissingFolders(Vec<PathBuf>);

impl MissingFolders {
    pub(crate) fn of(plan: &ServePlan) -> MissingFolders {
        let sockets = [Some(plan.control.as_path()), plan.status_socket.as_deref()];
        let folders = sockets.into_iter().flatten().filter_map(Path::parent).map(Path::to_path_buf);
        let folders = folders.chain([runtime_dir()]);
        MissingFolders(folders.filter(|folder| !folder.exists()).collect())
    }

    /// Removes the folders that exist by now; a folder with contents stays.
    pub(crate) fn remove_again(&self) {
        for folder in &self.0 {
            let _ = std::fs::remove_dir(folder);
        }
    }
}
