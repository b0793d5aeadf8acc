//! The cache device that replaced a device out of use.

use std::path::PathBuf;

use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::format::takeover::Takeover;

use crate::devices::missed_device::any_superblock_at;
use crate::devices::offline::error::OfflineError;
use crate::devices::offline::out_of_service::out_of_service;
use crate::devices::state::{OriginRecord, uuid_text};
use crate::plan::cache_spec::{CacheService, CacheSpec};
use crate::serve::config::StatePlace;

/// Replaces a cache device of a plan by the device that took its place, if the superblocks and the records
/// show one. A plan with a cache device that is not in service stays as it is.
///
/// # Errors
/// As [`out_of_service`].
pub fn find_taken_in(cache: &mut CacheSpec, state: &StatePlace) -> Result<(), OfflineError> {
    if cache.service != CacheService::InService {
        return Ok(());
    }
    let identities: Vec<String> =
        cache.volumes.iter().filter_map(|volume| volume.origin.identity().ok()).collect();
    let Some(other) = other_of(state, &identities) else { return Ok(()) };
    let Some(named) = any_superblock_at(&cache.device) else { return Ok(()) };
    if uuid_text(named.uuid) == other.uuid || !is_given_up(cache, &named, state, &identities)? {
        return Ok(());
    }
    let (now, before) = (other.path.display(), cache.device.display());
    tracing::warn!(
        event = "cache_successor",
        "{now} is the cache device, and not {before}, which is not used any more: name {now} in the configuration"
    );
    cache.size = None;
    let before = std::mem::replace(&mut cache.device, other.path);
    cache.former.push(before);
    Ok(())
}

/// Whether a cache device was replaced, or is out of service and has no needed block.
fn is_given_up(
    cache: &CacheSpec,
    superblock: &Superblock,
    state: &StatePlace,
    identities: &[String],
) -> Result<bool, OfflineError> {
    if matches!(superblock.takeover, Takeover::Replaced(_)) {
        return Ok(true);
    }
    let standing = out_of_service(&cache.device, state, identities)?;
    Ok(standing.is_some_and(|standing| standing.incomplete.is_empty() && standing.doubt.is_none()))
}

struct LastDevice {
    path: PathBuf,
    uuid: String,
}

/// The device that last served these origins. A kill may leave only some of the records of a device that was
/// taken in: its superblock has the other volumes.
fn other_of(state: &StatePlace, identities: &[String]) -> Option<LastDevice> {
    let store = state.store()?;
    let records = identities.iter().map(|identity| store.origin(identity));
    let records: Vec<OriginRecord> =
        records.collect::<Result<Vec<_>, _>>().ok()?.into_iter().flatten().collect();
    // The device may have been replaced while only some records had its new path: the superblock at its old
    // path still has its uuid.
    let found = records.iter().filter(|record| !record.written_without).find_map(|record| {
        let superblock = any_superblock_at(&record.cache_path)?;
        let uuid = uuid_text(superblock.uuid);
        (uuid == record.cache_uuid).then(|| (record.cache_path.clone(), uuid, superblock))
    });
    let (path, uuid, superblock) = found?;
    let is_its =
        |record: &OriginRecord| record.is_current(&uuid) || superblock.volume(&record.volume).is_some();
    records.iter().all(is_its).then_some(LastDevice { path, uuid })
}
