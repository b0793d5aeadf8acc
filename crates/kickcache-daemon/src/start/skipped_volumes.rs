//! Volumes that are removed from a plan, each with its reason.

use anyhow::bail;

use crate::plan::ServePlan;
use crate::plan::cache_spec::{CacheSpec, SkippedVolume};

/// Moves volumes of a cache device to its list of volumes that are not served.
pub(crate) fn leave_unserved(cache: &mut CacheSpec, refused: Vec<SkippedVolume>) {
    cache.volumes.retain(|served| refused.iter().all(|volume| volume.name != served.name));
    cache.unserved.extend(refused);
}

/// Logs unserved volumes, and removes cache devices without volumes from the plan.
///
/// # Errors
/// If no volume is left at all.
pub(crate) fn tell_unserved(plan: &mut ServePlan) -> anyhow::Result<Vec<SkippedVolume>> {
    let unserved: Vec<SkippedVolume> =
        plan.caches.iter_mut().flat_map(|cache| std::mem::take(&mut cache.unserved)).collect();
    plan.caches.retain(|cache| !cache.volumes.is_empty());
    let (first, others) = match unserved.split_first() {
        Some((first, others)) if plan.caches.is_empty() => (Some(first), others),
        Some(_) | None => (None, unserved.as_slice()),
    };
    others.iter().for_each(|volume| {
        tracing::error!(
            event = "volume_not_served",
            volume = volume.name,
            "volume {} is not served: {}",
            volume.name,
            volume.why
        );
    });
    match first {
        Some(volume) => bail!("volume {} is not served: {}", volume.name, volume.why),
        None => Ok(unserved),
    }
}

pub(crate) fn tell_orphans(orphans: &[SkippedVolume]) {
    for SkippedVolume { name, why } in orphans {
        tracing::warn!(event = "volume_not_served", volume = name, "volume {name} is not served: {why}");
    }
}

/// Logs the unserved volumes once more, for the end of the daemon.
pub(crate) fn tell_again(unserved: &[SkippedVolume]) {
    for volume in unserved {
        tracing::warn!(
            event = "volume_not_served",
            volume = volume.name,
            "volume {} was not served: {}",
            volume.name,
            volume.why
        );
    }
}
