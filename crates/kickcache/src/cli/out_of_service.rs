//! Before volumes are served whose cache device is out of service: it is left alone, and what it alone holds is told.

use kickcache_daemon::driver::device::identity_of;
use kickcache_daemon::extents::{EXTENTS_LOGGED, show_extents};
use kickcache_daemon::offline::older_copy::older_copy_at;
use kickcache_daemon::offline::standing::{Incomplete, Standing, complete, forget_dirty, out_of_service};
use kickcache_daemon::plan::{CachePlan, CacheUsage, Unserved, VolumePlan};
use kickcache_daemon::serve::config::StatePlace;
use kickcache_daemon::serve::older_copy::OlderCopy;
use kickcache_engine::units::BLOCK_SIZE;

use crate::cli::leave::{GoOn, leave_missed, leave_out};
use crate::cli::outdated::drop_outdated;
use crate::cli::unserved::leave_unserved;

/// Leaves a cache device that is out of service, or that the user wants left out. Of the first, volumes whose dirty blocks
/// are on it alone are taken from the plan, unless these may be lost.
pub(super) fn settle(cache: &mut CachePlan, state: &StatePlace) -> anyhow::Result<()> {
    let is_left_by_order = cache.usage == CacheUsage::LeftOutLosingDirty;
    if let Some(copy) = older_copy_at(&cache.device, state).filter(|_| !is_left_by_order) {
        refuse_copy(cache, &copy);
        return Ok(());
    }
    // What does not exist and may be made is not the device that went out of service.
    let is_new = cache.size.is_some() && !cache.device.exists();
    let identities: Vec<String> =
        cache.volumes.iter().filter_map(|volume| identity_of(&volume.origin).ok()).collect();
    let standing = if is_new { None } else { out_of_service(&cache.device, state, &identities)? };
    let Some(standing) = standing else {
        return match cache.usage {
            CacheUsage::Used | CacheUsage::UsedLosingDirty => drop_outdated(cache, state),
            CacheUsage::LeftOut | CacheUsage::LeftOutLosingDirty => leave_out(cache, state),
        };
    };
    let device = cache.device.display().to_string();
    let is_losing = matches!(cache.usage, CacheUsage::UsedLosingDirty | CacheUsage::LeftOutLosingDirty);
    if let (Some(doubt), false) = (&standing.doubt, is_losing) {
        let why = |volume: &VolumePlan| Unserved {
            name: volume.name.clone(),
            why: format!(
                "nobody can say whether {device} was taken out of service: {doubt}; if it was, or may have been, write back \
                 what it alone holds (kickcache drain {} --cache {device} --accept-older) and format it, or go on without \
                 that (serve --lose-dirty)",
                volume.name
            ),
        };
        let refused = cache.volumes.iter().map(why).collect();
        leave_unserved(cache, refused);
        return Ok(());
    }
    if !is_losing {
        leave_missed(cache, state, Some(&standing.cache.uuid), GoOn::LoseDirty);
    }
    tracing::warn!(
        "{device} is out of service: volumes are served from their origins alone; to use it again, stop, then `kickcache \
         format {device}`"
    );
    let (needed, _): (Vec<Incomplete>, Vec<Incomplete>) = standing
        .incomplete
        .iter()
        .cloned()
        .partition(|volume| cache.volumes.iter().any(|served| served.name == volume.name));
    if is_losing {
        lose(cache, state, &standing, &needed)?;
    } else {
        refuse(cache, &needed);
        if cache.volumes.is_empty() {
            return Ok(());
        }
        // A mark that was found may be one that the device has yet to make durable.
        complete(&cache.device, state, &standing, &[])?;
    }
    cache.usage = CacheUsage::LeftOut;
    let names: Vec<String> = cache.volumes.iter().map(|volume| volume.name.clone()).collect();
    Ok(forget_dirty(state, &standing, &names)?)
}

/// An older copy has nothing that can be trusted, of any volume, and may lack what the newer one has dirty.
fn refuse_copy(cache: &mut CachePlan, copy: &OlderCopy) {
    let why = match cache.usage {
        CacheUsage::LeftOut => format!("{}: {copy}, or say --lose-dirty", cache.device.display()),
        CacheUsage::Used | CacheUsage::UsedLosingDirty | CacheUsage::LeftOutLosingDirty => {
            format!("{}: {copy}", cache.device.display())
        }
    };
    let refused = cache.volumes.iter().map(|volume| Unserved { name: volume.name.clone(), why: why.clone() });
    let refused = refused.collect();
    leave_unserved(cache, refused);
}

fn lose(
    cache: &CachePlan,
    state: &StatePlace,
    standing: &Standing,
    needed: &[Incomplete],
) -> anyhow::Result<()> {
    for volume in needed {
        tracing::error!("{} of {} are LOST", shown(volume), volume.name);
    }
    let names: Vec<String> = needed.iter().map(|volume| volume.name.clone()).collect();
    Ok(complete(&cache.device, state, standing, &names)?)
}

fn refuse(cache: &mut CachePlan, needed: &[Incomplete]) {
    let device = cache.device.display().to_string();
    let sentence = |volume: &'_ Incomplete| {
        let (blocks, name) = (shown(volume), &volume.name);
        format!(
            "{blocks} are on {device} alone, which is out of service; write them back, although the origin may have newer data \
             (kickcache drain {name} --cache {device} --accept-older), or go on without them (serve --lose-dirty)"
        )
    };
    let refused = needed.iter().map(|volume| Unserved { name: volume.name.clone(), why: sentence(volume) });
    leave_unserved(cache, refused.collect());
}

/// The blocks that a volume misses.
fn shown(volume: &Incomplete) -> String {
    let Some(extents) = &volume.extents else { return "blocks that nobody can name".into() };
    let blocks = extents.iter().map(|extent| extent.length).sum::<u64>() / BLOCK_SIZE;
    format!("{blocks} dirty blocks ({})", show_extents(extents, EXTENTS_LOGGED))
}
