//! Checks for blocks that are stale because their origin was served or changed without the cache device.

use std::path::Path;

use kickcache_units::show_bytes;

use crate::devices::bypassed_device::{ServedSince, origin_moved};
use crate::devices::missed_device::{is_barred_at, lose_dirty};
use crate::devices::offline::change::{DirtyBlocks, detach};
use crate::devices::offline::give_up::uuid_of;
use crate::devices::offline::stale_blocks::{StaleVolume, VolumeQuery, outdated};
use crate::devices::origin_records::{CacheChoice, check_readable};
use crate::devices::state::OriginRecord;
use crate::plan::cache_spec::{CacheSpec, Replacement, SkippedVolume};
use crate::plan::volume_spec::DirtyLoss;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::config::StatePlace;
use crate::shell_command::ShellCommand;
use crate::start::no_cache_check::{LossAcceptance, check_origin, leave_missed};
use crate::start::rehearsal::Rehearsal;
use crate::start::skipped_volumes::leave_unserved;

/// Drops stale blocks. Volumes with stale dirty blocks that their origin may lack are removed from the plan,
/// unless the user accepts their loss; so are volumes with unreadable records.
pub(crate) fn drop_outdated(
    cache: &mut CacheSpec,
    state: &StatePlace,
    rehearsal: &Rehearsal<'_>,
) -> anyhow::Result<()> {
    leave_unreadable(cache, state);
    if !is_barred_at(&cache.device) {
        let uuid = uuid_of(&cache.device);
        leave_missed(cache, state, uuid.as_deref(), LossAcceptance::NewCache);
    }
    let asked = cache.volumes.iter().filter_map(|volume| {
        Some(VolumeQuery {
            name: &volume.name,
            identity: volume.origin.identity().ok()?,
            claims: volume.claims,
        })
    });
    let found = outdated(&cache.device, state, &asked.collect::<Vec<_>>(), cache.replacement)?;
    let is_kept = |served: &VolumeSpec| served.dirty_loss == DirtyLoss::Refused;
    let is_refused = |old: &StaleVolume| cache.volumes.iter().any(|v| v.name == old.name && is_kept(v));
    let (needed, mut dropped): (Vec<StaleVolume>, Vec<StaleVolume>) =
        found.into_iter().partition(|volume| volume.is_needed() && is_refused(volume));
    if !dropped.is_empty() || cache.replacement == Replacement::Accept {
        // The rehearsal comes before any data is given up.
        rehearsal.volumes(cache)?;
        dropped.retain(|volume| cache.volumes.iter().any(|served| served.name == volume.name));
    }
    for volume in cache.volumes.iter().filter(|volume| dropped.iter().any(|found| found.name == volume.name))
    {
        check_origin(volume)?;
    }
    for volume in &dropped {
        drop_blocks(&cache.device, volume, state)?;
    }
    if cache.replacement == Replacement::Accept {
        give_up_missed(cache, state, &needed)?;
    }
    refuse(cache, &needed, state);
    Ok(())
}

/// Records that the user gives up the blocks of these volumes on another cache device.
fn give_up_missed(cache: &CacheSpec, state: &StatePlace, needed: &[StaleVolume]) -> anyhow::Result<()> {
    let Some(store) = state.store() else { return Ok(()) };
    for volume in cache.volumes.iter().filter(|served| needed.iter().any(|found| found.name == served.name)) {
        let identity = volume.origin.identity()?;
        let record = match store.origin(&identity) {
            Ok(Some(record)) => OriginRecord { may_be_dirty: false, ..record },
            Ok(None) => continue,
            Err(_) => OriginRecord::without_cache(&identity, &volume.name),
        };
        store.keep_origin(&record)?;
    }
    Ok(())
}

fn drop_blocks(device: &Path, volume: &StaleVolume, state: &StatePlace) -> anyhow::Result<()> {
    let done = detach(device, &volume.name, DirtyBlocks::Lose, state)?;
    let (name, since, device) = (&volume.name, &volume.since, device.display());
    if volume.is_needed() {
        tracing::error!(event = "dirty_lost", "{} of {name} are LOST", volume.shown());
    } else if !volume.dirty.is_empty() {
        tracing::warn!(
            event = "blocks_dropped",
            "volume {name}: {} were dropped from {device}: they are dirty after a crash only, and the origin has them, or \
             something newer",
            volume.shown()
        );
    }
    tracing::warn!(
        event = "blocks_dropped",
        "volume {name}: {since} since {device} had it: {} of clean blocks are stale and were dropped{}",
        show_bytes(done.clean_blocks * 4096),
        match since {
            ServedSince::Replaced | ServedSince::Changed =>
                format!("; with {} they would have been kept", origin_moved(name)),
            ServedSince::With(_) | ServedSince::Without | ServedSince::Unknown => String::new(),
        }
    );
    Ok(())
}

fn refuse(cache: &mut CacheSpec, needed: &[StaleVolume], state: &StatePlace) {
    let device = cache.device.display().to_string();
    let sentence = |volume: &'_ StaleVolume| {
        let (since, blocks) = (&volume.since, volume.shown());
        let drain = ShellCommand::drain_older(&volume.name, &cache.device, state);
        format!(
            "{since} since {device} had it; {blocks} of it are there, and may be older than the origin; \
             {}go on without them (serve {}), as is right for a volume that was not in write-back there, \
             or write them back over the data of the origin ({drain})",
            since.other_way(&volume.name),
            lose_dirty(&volume.name)
        )
    };
    let refused =
        needed.iter().map(|volume| SkippedVolume { name: volume.name.clone(), why: sentence(volume) });
    leave_unserved(cache, refused.collect());
}

fn leave_unreadable(cache: &mut CacheSpec, state: &StatePlace) {
    let Some(store) = state.store() else { return };
    let device = cache.device.clone();
    let chosen = CacheChoice { path: &device, uuid: None, replacement: cache.replacement };
    let mut refused = Vec::new();
    for volume in &cache.volumes {
        let Ok(identity) = volume.origin.identity() else { continue };
        if let Err(why) = check_readable(&store, chosen, &identity) {
            refused.push(SkippedVolume { name: volume.name.clone(), why });
        }
    }
    leave_unserved(cache, refused);
}
