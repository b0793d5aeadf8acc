//! Before volumes are served without their cache device: what it holds of them is dropped, or that is refused.

use std::path::Path;

use anyhow::bail;
use kickcache_daemon::driver::device::{self, BlockFile, Emptiness, identity_of};
use kickcache_daemon::extents::{EXTENTS_LOGGED, show_extents};
use kickcache_daemon::offline::OfflineError;
use kickcache_daemon::offline::change::DirtyBlocks;
use kickcache_daemon::offline::leave::{Left, leave, uuid_of};
use kickcache_daemon::plan::{Access, CachePlan, CacheUsage, VolumePlan};
use kickcache_daemon::serve::config::StatePlace;
use kickcache_daemon::serve::overtaken::missed;
use kickcache_daemon::state::{OriginRecord, StateStore};
use kickcache_engine::units::BLOCK_SIZE;

/// Leaves a cache device if that was asked for.
pub(super) fn leave_out(cache: &CachePlan, state: &StatePlace) -> anyhow::Result<()> {
    let dirty = match cache.usage {
        CacheUsage::Used | CacheUsage::UsedLosingDirty => return Ok(()),
        CacheUsage::LeftOut => DirtyBlocks::Keep,
        CacheUsage::LeftOutLosingDirty => DirtyBlocks::Lose,
    };
    // An origin that cannot be served is no reason to drop anything.
    cache.volumes.iter().try_for_each(check_origin)?;
    if dirty == DirtyBlocks::Keep {
        check_missed(cache, state, uuid_of(&cache.device).as_deref())?;
    }
    let names: Vec<&str> = cache.volumes.iter().map(|volume| volume.name.as_str()).collect();
    let left = match leave(&cache.device, &names, dirty) {
        Err(OfflineError::Unknown { source, .. }) if is_noted_complete(cache, state) => {
            Left { lost: Vec::new(), untold: Some(*source) }
        }
        left => left?,
    };
    for (name, extents) in &left.lost {
        let blocks = extents.iter().map(|extent| extent.length).sum::<u64>() / BLOCK_SIZE;
        let which = show_extents(extents, EXTENTS_LOGGED);
        tracing::error!("{blocks} dirty blocks of {name} are LOST, as {which}");
    }
    let noted = note_left(cache, state)?;
    if let Some(error) = left.untold {
        tell_untold(&cache.device, &anyhow::Error::from(error), noted);
    }
    tracing::warn!("{} is left out: its volumes are served from their origins alone", cache.device.display());
    Ok(())
}

/// Refuses volumes of which another cache device than the one that is left may hold what their origin lacks.
pub(super) fn check_missed(cache: &CachePlan, state: &StatePlace, uuid: Option<&str>) -> anyhow::Result<()> {
    let whole = std::path::absolute(&cache.device).unwrap_or_else(|_| cache.device.clone());
    for volume in &cache.volumes {
        let (name, device) = (&volume.name, cache.device.display());
        match missed(state, uuid, &identity_of(&volume.origin)?) {
            // One that cannot be read may be the one that is noted.
            Ok(Some(record)) if uuid.is_some() || record.cache_path != whole => bail!(
                "volume {name}: its cache device {} may hold blocks that the origin {} lacks, and {device} is another one; \
                 drain that one, or say --lose-dirty to go on without what it holds",
                record.cache_path.display(),
                volume.origin.display(),
            ),
            Ok(_) => {}
            Err(error) => bail!(
                "volume {name}: nobody can say whether a cache device holds blocks that its origin lacks: {error}, or say \
                 --lose-dirty to go on without what it holds"
            ),
        }
    }
    Ok(())
}

/// Whether it is noted of every volume that its origin lacks nothing.
fn is_noted_complete(cache: &CachePlan, state: &StatePlace) -> bool {
    let StatePlace::Directory(directory) = state else { return false };
    let store = StateStore::new(directory);
    let record = |volume: &VolumePlan| store.origin(&identity_of(&volume.origin).ok()?).ok()?;
    cache.volumes.iter().all(|volume| record(volume).is_some_and(|record| !record.may_be_dirty))
}

/// Whether the next start knows that the volumes were served without their cache device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Noted {
    Yes,
    No,
}

/// Notes that the origins lack nothing, and that what any cache device holds of them is old.
fn note_left(cache: &CachePlan, state: &StatePlace) -> anyhow::Result<Noted> {
    let StatePlace::Directory(directory) = state else { return Ok(Noted::No) };
    let store = StateStore::new(directory);
    for volume in &cache.volumes {
        let identity = identity_of(&volume.origin)?;
        let record = match store.origin(&identity) {
            Ok(Some(record)) => OriginRecord { may_be_dirty: false, written_without: true, ..record },
            Ok(None) | Err(_) => OriginRecord::without_cache(&identity, &volume.name),
        };
        store.keep_origin(&record)?;
    }
    Ok(Noted::Yes)
}

pub(super) fn check_origin(volume: &VolumePlan) -> anyhow::Result<()> {
    let access = match volume.access {
        Access::ReadWrite => device::Access::ReadWrite,
        Access::ReadOnly => device::Access::ReadOnly,
    };
    BlockFile::open(&volume.origin, access, Emptiness::Refused)?;
    Ok(())
}

fn tell_untold(device: &Path, error: &anyhow::Error, noted: Noted) {
    let device = device.display();
    match noted {
        Noted::Yes => tracing::warn!(
            "{device} does not know that it is left out ({error:#}), but that is noted: what it holds of these volumes is \
             old, and will not be used"
        ),
        Noted::No => tracing::error!(
            "{device} does not know that it is left out ({error:#}): format it before you use it again"
        ),
    }
}
