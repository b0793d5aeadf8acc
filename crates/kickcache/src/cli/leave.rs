//! Before volumes are served without their cache device: what it holds of them is dropped, or that is refused.

use std::path::Path;

use kickcache_engine::units::BLOCK_SIZE;

use crate::driver::device::{self, BlockFile, Emptiness};
use crate::extents::{EXTENTS_LOGGED, show_extents};
use crate::offline::change::DirtyBlocks;
use crate::offline::leave::leave;
use crate::plan::{Access, CachePlan, CacheUsage, VolumePlan};

/// Leaves a cache device if that was asked for.
pub(super) fn leave_out(cache: &CachePlan) -> anyhow::Result<()> {
    let dirty = match cache.usage {
        CacheUsage::Used => return Ok(()),
        CacheUsage::LeftOut => DirtyBlocks::Keep,
        CacheUsage::LeftOutLosingDirty => DirtyBlocks::Lose,
    };
    // An origin that cannot be served is no reason to drop anything.
    cache.volumes.iter().try_for_each(check_origin)?;
    let names: Vec<&str> = cache.volumes.iter().map(|volume| volume.name.as_str()).collect();
    let left = leave(&cache.device, &names, dirty)?;
    for (name, extents) in &left.lost {
        let blocks = extents.iter().map(|extent| extent.length).sum::<u64>() / BLOCK_SIZE;
        let which = show_extents(extents, EXTENTS_LOGGED);
        tracing::error!("{blocks} dirty blocks of {name} are LOST, as {which}");
    }
    if let Some(error) = left.untold {
        tell_untold(&cache.device, &anyhow::Error::from(error));
    }
    tracing::warn!("{} is left out: its volumes are served from their origins alone", cache.device.display());
    Ok(())
}

fn check_origin(volume: &VolumePlan) -> anyhow::Result<()> {
    let access = match volume.access {
        Access::ReadWrite => device::Access::ReadWrite,
        Access::ReadOnly => device::Access::ReadOnly,
    };
    BlockFile::open(&volume.origin, access, Emptiness::Refused)?;
    Ok(())
}

fn tell_untold(device: &Path, error: &anyhow::Error) {
    let device = device.display();
    tracing::error!(
        "{device} does not know that it is left out ({error:#}): format it before you use it again"
    );
}
