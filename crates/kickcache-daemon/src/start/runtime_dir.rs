//! The folder for the sockets that got no path from the user.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use anyhow::Context;

use crate::plan::ServePlan;
use crate::plan::default_paths::runtime_dir;
use crate::plan::volume_spec::VolumeSpec;

/// Makes the folder, if a socket of the plan is in it.
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
