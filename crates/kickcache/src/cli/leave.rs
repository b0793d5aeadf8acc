//! Before volumes are served without their cache device: what it holds of them is dropped, or that is refused.

use std::fmt;
use std::path::Path;

use kickcache_daemon::driver::device::{self, BlockFile, Emptiness, identity_of};
use kickcache_daemon::extents::{EXTENTS_LOGGED, show_extents};
use kickcache_daemon::offline::OfflineError;
use kickcache_daemon::offline::change::DirtyBlocks;
use kickcache_daemon::offline::leave::{Left, leave, needed, uuid_of};
use kickcache_daemon::plan::{Access, CachePlan, CacheUsage, Unserved, VolumePlan};
use kickcache_daemon::serve::config::StatePlace;
use kickcache_daemon::serve::overtaken::missed;
use kickcache_daemon::state::{OriginRecord, StateStore};
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};

use crate::cli::exit::Failure;
use crate::cli::unserved::leave_unserved;

/// How a user goes on without what another cache device holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GoOn {
    /// With this one in its place.
    NewCache,
    /// Without any.
    LoseDirty,
}

impl fmt::Display for GoOn {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            GoOn::NewCache => "--new-cache",
            GoOn::LoseDirty => "--lose-dirty",
        })
    }
}

/// Leaves a cache device if that was asked for. Volumes with dirty blocks that would be lost are taken from the plan.
pub(super) fn leave_out(cache: &mut CachePlan, state: &StatePlace) -> anyhow::Result<()> {
    let dirty = match cache.usage {
        CacheUsage::Used | CacheUsage::UsedLosingDirty => return Ok(()),
        CacheUsage::LeftOut => DirtyBlocks::Keep,
        CacheUsage::LeftOutLosingDirty => DirtyBlocks::Lose,
    };
    // An origin that cannot be served is no reason to drop anything.
    cache.volumes.iter().try_for_each(check_origin)?;
    if dirty == DirtyBlocks::Keep {
        let uuid = uuid_of(&cache.device);
        leave_missed(cache, state, uuid.as_deref(), GoOn::LoseDirty);
        leave_dirty(cache, state)?;
    }
    if cache.volumes.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = cache.volumes.iter().map(|volume| volume.name.as_str()).collect();
    let left = match leave(&cache.device, &names, dirty) {
        // It is noted of those that are left that their origins lack nothing.
        Err(OfflineError::Unknown { source, .. }) => Left { lost: Vec::new(), untold: Some(*source) },
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

/// Takes volumes from the plan of which another cache device than the one that is chosen may hold what their origin lacks.
pub(super) fn leave_missed(cache: &mut CachePlan, state: &StatePlace, uuid: Option<&str>, go_on: GoOn) {
    let whole = std::path::absolute(&cache.device).unwrap_or_else(|_| cache.device.clone());
    let device = cache.device.display();
    let why = |volume: &VolumePlan| {
        // One that is not there is refused by those who open it.
        let identity = identity_of(&volume.origin).ok()?;
        match missed(state, uuid, &identity) {
            // One that cannot be read, or is not there, may be the one that is noted: that is the whole start's.
            Ok(Some(record)) if uuid.is_some() || record.cache_path != whole => {
                let (other, origin) = (record.cache_path.display(), volume.origin.display());
                Some(format!(
                    "its cache device {other} may hold blocks that the origin {origin} lacks, and {device} is another one; \
                     write them back (kickcache drain {} --cache {other}), serve it with that one (is its file system \
                     mounted?), or say {go_on} to go on without what it holds",
                    record.volume
                ))
            }
            Ok(_) => None,
            Err(error) => Some(format!(
                "nobody can say whether a cache device holds blocks that its origin lacks: {error}, or say {go_on} to go on \
                 without what it holds"
            )),
        }
    };
    let refused = cache.volumes.iter().filter_map(|volume| {
        let why = why(volume)?;
        Some(Unserved { name: volume.name.clone(), why })
    });
    let refused = refused.collect();
    leave_unserved(cache, refused);
}

/// Takes volumes from the plan that have dirty blocks on the cache device, or may have: one that cannot be read has none of
/// those whose origins lack nothing, as it is noted.
fn leave_dirty(cache: &mut CachePlan, state: &StatePlace) -> anyhow::Result<()> {
    let names: Vec<&str> = cache.volumes.iter().map(|volume| volume.name.as_str()).collect();
    let refused = match needed(&cache.device, &names) {
        Ok(needed) => {
            let refuse = |(name, extents): (String, Vec<ByteExtent>)| {
                let why = OfflineError::dirty(&cache.device, &name, extents).to_string();
                Unserved { name, why }
            };
            needed.into_iter().map(refuse).collect()
        }
        Err(unknown @ OfflineError::Unknown { .. }) => {
            let why = Failure::from(anyhow::Error::from(unknown)).sentence();
            let lacking = cache.volumes.iter().filter(|volume| !is_noted_complete(volume, state));
            lacking.map(|volume| Unserved { name: volume.name.clone(), why: why.clone() }).collect()
        }
        Err(error) => return Err(error.into()),
    };
    leave_unserved(cache, refused);
    Ok(())
}

/// Whether it is noted of a volume that its origin lacks nothing.
fn is_noted_complete(volume: &VolumePlan, state: &StatePlace) -> bool {
    let StatePlace::Directory(directory) = state else { return false };
    let Ok(identity) = identity_of(&volume.origin) else { return false };
    matches!(StateStore::new(directory).origin(&identity), Ok(Some(record)) if !record.may_be_dirty)
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
