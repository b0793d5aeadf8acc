//! Volumes that are taken from a plan, each with a sentence; the others are served.

use anyhow::bail;
use kickcache_daemon::plan::CachePlan;

/// Takes volumes from a plan, given by their names and why. That none is left is an error.
pub(super) fn leave_unserved(cache: &mut CachePlan, refused: &[(&str, String)]) -> anyhow::Result<()> {
    let sentence = |(name, why): &(&str, String)| format!("volume {name} is not served: {why}");
    cache.volumes.retain(|served| refused.iter().all(|(name, _)| served.name != *name));
    match refused {
        [] => Ok(()),
        [first, ..] if cache.volumes.is_empty() => bail!(sentence(first)),
        refused => {
            refused.iter().for_each(|volume| tracing::error!("{}", sentence(volume)));
            Ok(())
        }
    }
}
