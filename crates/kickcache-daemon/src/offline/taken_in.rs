//! The cache device that replaced one taken out of use: the configuration may still name the old one.

use std::path::{Path, PathBuf};

use crate::offline::error::OfflineError;
use crate::offline::standing::out_of_service;
use crate::plan::cache_spec::{CacheService, CacheSpec};
use crate::serve::config::StatePlace;
use crate::serve::missed_device::uuid_at;
use crate::state::OriginRecord;

/// Replaces a cache device of a plan by its successor, if the named one is out of service and has no unique
/// blocks, and all known origins were last served with the other one, and not without a cache since.
///
/// # Errors
/// If notes cannot be read.
pub fn find_taken_in(cache: &mut CacheSpec, state: &StatePlace) -> Result<(), OfflineError> {
    if cache.service != CacheService::InService {
        return Ok(());
    }
    let identities: Vec<String> =
        cache.volumes.iter().filter_map(|volume| volume.origin.identity().ok()).collect();
    let Some(other) = other_of(state, &identities) else { return Ok(()) };
    let is_it = uuid_at(&cache.device).is_none_or(|uuid| uuid == other.uuid);
    let standing = if is_it { None } else { out_of_service(&cache.device, state, &identities)? };
    if standing.is_none_or(|standing| !standing.incomplete.is_empty() || standing.doubt.is_some()) {
        return Ok(());
    }
    let (now, before) = (other.path.display(), cache.device.display());
    tracing::warn!(
        event = "cache_successor",
        "{now} is the cache device, and not {before}, which was left out: name {now} in the configuration"
    );
    // The size belongs to the other device.
    cache.size = None;
    let before = std::mem::replace(&mut cache.device, other.path);
    cache.former.push(before);
    Ok(())
}

/// A cache device that is there.
struct Other {
    path: PathBuf,
    uuid: String,
}

/// The device that last served all these origins.
fn other_of(state: &StatePlace, identities: &[String]) -> Option<Other> {
    let store = state.store()?;
    let records = identities.iter().map(|identity| store.origin(identity));
    let records: Vec<OriginRecord> =
        records.collect::<Result<Vec<_>, _>>().ok()?.into_iter().flatten().collect();
    let OriginRecord { cache_path, cache_uuid, .. } = records.first()?.clone();
    let is_there = |path: &Path| uuid_at(path).is_some_and(|uuid| uuid == cache_uuid);
    let is_all = records.iter().all(|record| record.is_current(&cache_uuid));
    (is_all && is_there(&cache_path)).then_some(Other { path: cache_path, uuid: cache_uuid })
}
