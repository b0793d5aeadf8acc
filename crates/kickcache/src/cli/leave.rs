//! Before volumes are served without their cache device: what it holds of them is dropped, or that is refused.

use std::path::Path;

use kickcache_engine::units::BLOCK_SIZE;

use crate::driver::device::{self, BlockFile, Emptiness, identity_of};
use crate::extents::{EXTENTS_LOGGED, show_extents};
use crate::offline::change::DirtyBlocks;
use crate::offline::leave::leave;
use crate::plan::{Access, CachePlan, CacheUsage, VolumePlan};
use crate::serve::config::StatePlace;
use crate::serve::notes::keep_out_of_service;
use crate::state::{OriginRecord, StateStore};

/// Leaves a cache device if that was asked for.
pub(super) fn leave_out(cache: &CachePlan, state: &StatePlace) -> anyhow::Result<()> {
    let dirty = match cache.usage {
        CacheUsage::Used | CacheUsage::UsedLosingDirty => return Ok(()),
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
    let told = note_left(cache, state, left.untold.is_some());
    if let (Some(error), told) = (left.untold, told?) {
        tell_untold(&cache.device, &anyhow::Error::from(error), told);
    }
    tracing::warn!("{} is left out: its volumes are served from their origins alone", cache.device.display());
    Ok(())
}

/// Whether a device that could not be told is known as out of service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NotedAs {
    OutOfService,
    Unknown,
}

/// Notes that the origins lack nothing, and of a device that could not be told that it is out of service.
fn note_left(cache: &CachePlan, state: &StatePlace, is_untold: bool) -> anyhow::Result<NotedAs> {
    let StatePlace::Directory(directory) = state else { return Ok(NotedAs::Unknown) };
    let store = StateStore::new(directory);
    let mut noted = NotedAs::Unknown;
    for volume in &cache.volumes {
        let Some(origin) = store.origin(&identity_of(&volume.origin)?)? else { continue };
        let device = store.cache(&origin.cache_uuid)?;
        store.keep_origin(&OriginRecord { may_be_dirty: false, ..origin })?;
        if let (Some(device), true) = (device, is_untold) {
            keep_out_of_service(&store, &device, Vec::new())?;
            noted = NotedAs::OutOfService;
        }
    }
    Ok(noted)
}

fn check_origin(volume: &VolumePlan) -> anyhow::Result<()> {
    let access = match volume.access {
        Access::ReadWrite => device::Access::ReadWrite,
        Access::ReadOnly => device::Access::ReadOnly,
    };
    BlockFile::open(&volume.origin, access, Emptiness::Refused)?;
    Ok(())
}

fn tell_untold(device: &Path, error: &anyhow::Error, noted: NotedAs) {
    let device = device.display();
    let noted = match noted {
        NotedAs::OutOfService => ", and is noted as out of service",
        NotedAs::Unknown => "",
    };
    tracing::error!(
        "{device} does not know that it is left out ({error:#}){noted}: format it before you use it again"
    );
}
