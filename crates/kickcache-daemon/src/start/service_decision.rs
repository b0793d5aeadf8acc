//! Decides whether a cache device is used.

use kickcache_engine::units::BLOCK_SIZE;
use kickcache_units::counted;

use crate::devices::missed_device::lose_dirty;
use crate::devices::offline::older_copy::older_copy_at;
use crate::devices::offline::out_of_service::{
    Incomplete, OutOfServiceDevice, complete, forget_dirty, out_of_service,
};
use crate::devices::older_copy::OlderCopy;
use crate::driver::rights::access;
use crate::extents::{EXTENTS_LOGGED, show_extents};
use crate::plan::cache_spec::{CacheService, CacheSpec, SkippedVolume};
use crate::plan::volume_spec::DirtyLoss;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::config::StatePlace;
use crate::shell_command::ShellCommand;
use crate::start::no_cache_check::{LossAcceptance, leave_missed, leave_out};
use crate::start::rehearsal::Rehearsal;
use crate::start::skipped_volumes::leave_unserved;
use crate::start::stale_cache_check::drop_outdated;

/// Stops using a cache device that is out of service, or that the user takes out of use; drops stale blocks
/// on a device that is used.
///
/// Volumes that may not be served are removed from the plan.
pub(crate) fn decide_service(
    cache: &mut CacheSpec,
    state: &StatePlace,
    rehearsal: &Rehearsal<'_>,
) -> anyhow::Result<()> {
    if let Some(copy) = older_copy_at(&cache.device, state) {
        refuse_copy(cache, &copy);
        if cache.volumes.is_empty() {
            return Ok(());
        }
    }
    // A path that does not exist, where a cache file is to be made, is not the device that went out of
    // service.
    let is_new = cache.size.is_some() && !access::exists(&cache.device);
    let identities: Vec<String> =
        cache.volumes.iter().filter_map(|volume| volume.origin.identity().ok()).collect();
    let standing = if is_new { None } else { out_of_service(&cache.device, state, &identities)? };
    let Some(standing) = standing else {
        return match cache.service {
            CacheService::InService | CacheService::OutOfService | CacheService::WrittenBackOnly => {
                drop_outdated(cache, state, rehearsal)
            }
            CacheService::LeftOut => leave_out(cache, state, rehearsal),
        };
    };
    let device = cache.device.display().to_string();
    if let Some(doubt) = &standing.doubt {
        let why = |volume: &VolumeSpec| SkippedVolume {
            name: volume.name.clone(),
            why: format!(
                "it is unknown whether {device} was taken out of service: {doubt}; if it was, or may \
                 have been, write back the blocks that are on it alone ({}) and format it, or go on \
                 without them (serve {})",
                ShellCommand::drain_older(&volume.name, &cache.device, state),
                lose_dirty(&volume.name)
            ),
        };
        let refused = cache.volumes.iter().filter(|volume| !is_losing(volume)).map(why).collect();
        leave_unserved(cache, refused);
        if cache.volumes.is_empty() {
            return Ok(());
        }
    }
    leave_missed(cache, state, Some(&standing.cache.uuid), LossAcceptance::LoseDirty);
    let format = ShellCommand::new("format").path(&cache.device).state(state);
    tracing::warn!(
        event = "cache_out_of_service",
        "{device} is out of service: volumes are served from their origins alone; to use it again, stop, then `{format}`"
    );
    let (needed, _): (Vec<Incomplete>, Vec<Incomplete>) = standing
        .incomplete
        .iter()
        .cloned()
        .partition(|volume| cache.volumes.iter().any(|served| served.name == volume.name));
    let may_lose =
        |missing: &Incomplete| cache.volumes.iter().any(|v| v.name == missing.name && is_losing(v));
    let (lost, kept): (Vec<Incomplete>, Vec<Incomplete>) = needed.into_iter().partition(may_lose);
    refuse(cache, &kept, state);
    cache.service = CacheService::OutOfService;
    // The rehearsal comes before any data is given up.
    rehearsal.volumes(cache)?;
    if cache.volumes.is_empty() {
        return Ok(());
    }
    let lost: Vec<Incomplete> =
        lost.into_iter().filter(|lost| cache.volumes.iter().any(|volume| volume.name == lost.name)).collect();
    lose(cache, state, &standing, &lost)?;
    let names: Vec<String> = cache.volumes.iter().map(|volume| volume.name.clone()).collect();
    Ok(forget_dirty(state, &standing, &names)?)
}

/// An older copy may lack blocks that are dirty on the newer one.
fn refuse_copy(cache: &mut CacheSpec, copy: &OlderCopy) {
    let device = cache.device.display();
    let why = |volume: &VolumeSpec| match cache.service {
        CacheService::LeftOut if is_losing(volume) => None,
        CacheService::LeftOut => Some(format!("{device}: {copy}, or use {}", lose_dirty(&volume.name))),
        CacheService::InService | CacheService::OutOfService | CacheService::WrittenBackOnly => {
            Some(format!("{device}: {copy}"))
        }
    };
    let refuse = |volume: &VolumeSpec| Some(SkippedVolume { name: volume.name.clone(), why: why(volume)? });
    let refused = cache.volumes.iter().filter_map(refuse).collect();
    leave_unserved(cache, refused);
}

fn lose(
    cache: &CacheSpec,
    state: &StatePlace,
    standing: &OutOfServiceDevice,
    needed: &[Incomplete],
) -> anyhow::Result<()> {
    for volume in needed {
        match &volume.extents {
            Some(_) => tracing::error!(event = "dirty_lost", "{} of {} are LOST", shown(volume), volume.name),
            None => tracing::error!(event = "dirty_lost", "{} are LOST", shown(volume)),
        }
    }
    let names: Vec<String> = needed.iter().map(|volume| volume.name.clone()).collect();
    // This is recorded even without lost volumes: the mark on the device may not be durable yet.
    Ok(complete(&cache.device, state, standing, &names)?)
}

fn refuse(cache: &mut CacheSpec, needed: &[Incomplete], state: &StatePlace) {
    let device = cache.device.display().to_string();
    let sentence = |volume: &'_ Incomplete| {
        let (blocks, drain) = (shown(volume), ShellCommand::drain_older(&volume.name, &cache.device, state));
        format!(
            "{blocks} are on {device} alone, which is out of service; write them back, although the origin may have newer data \
             ({drain}), or go on without them (serve {})",
            lose_dirty(&volume.name)
        )
    };
    let refused =
        needed.iter().map(|volume| SkippedVolume { name: volume.name.clone(), why: sentence(volume) });
    leave_unserved(cache, refused.collect());
}

fn is_losing(volume: &VolumeSpec) -> bool {
    volume.dirty_loss == DirtyLoss::Accepted
}

fn shown(volume: &Incomplete) -> String {
    let Some(extents) = &volume.extents else {
        return format!("blocks of {} (the number is unknown)", volume.name);
    };
    let blocks = extents.iter().map(|extent| extent.length).sum::<u64>() / BLOCK_SIZE;
    format!("{} ({})", counted(blocks, "dirty block"), show_extents(extents, EXTENTS_LOGGED))
}
