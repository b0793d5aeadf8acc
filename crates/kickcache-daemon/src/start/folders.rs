//! Folders of sockets and of the state, at a start.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::driver::rights::trusted_path::check_private;
use crate::plan::ServePlan;
use crate::plan::default_paths::runtime_dir;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::config::StatePlace;
use crate::whole_path::whole_path;

/// Folders of sockets that did not exist when this was made.
pub(crate) struct MissingFolders(Vec<PathBuf>);

impl MissingFolders {
    pub(crate) fn of(plan: &ServePlan) -> MissingFolders {
        let sockets = [Some(plan.control.as_path()), plan.status_socket.as_deref()];
        let folders = sockets.into_iter().flatten().filter_map(Path::parent).map(Path::to_path_buf);
        let folders = folders.chain([runtime_dir()]);
        MissingFolders(folders.filter(|folder| !folder.exists()).collect())
    }

    /// Removes the folders, except those with contents.
    pub(crate) fn remove_again(&self) {
        for folder in &self.0 {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Makes the default directory of sockets, if a socket of a volume or of metrics is in it.
pub(crate) fn make_runtime_dir(plan: &ServePlan) -> anyhow::Result<()> {
    let dir = runtime_dir();
    let is_there = |path: &Path| path.parent() == Some(&dir);
    let mut volumes = plan.caches.iter().flat_map(|cache| &cache.volumes);
    let needs = |volume: &VolumeSpec| volume.served_by().unix_sockets().into_iter().any(is_there);
    let metrics = plan.metrics.as_ref().and_then(|metrics| metrics.socket().unix_path());
    if !volumes.any(needs) && !metrics.is_some_and(is_there) {
        return Ok(());
    }
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    made.with_context(|| {
        format!("cannot make the folder {} for sockets; name a place with --nbd", dir.display())
    })
}

/// Warns of a state directory that other users can write: its records decide which cache device is current.
pub(crate) fn tell_shared_state(state: &StatePlace) {
    let StatePlace::Directory(directory) = state else { return };
    let directory = whole_path(directory);
    if !directory.exists() {
        return;
    }
    if let Err(others) = check_private(&directory) {
        tracing::warn!(
            event = "state_shared",
            "{others}: its records decide which cache device is current, and may be forged; make it, and each directory above it, \
             writable for its user alone. Until then a drain without a daemon needs the name of the origin"
        );
    }
}
