//! The blocks on a cache device of origins that were used without this device.

use std::path::Path;

use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};

use kickcache_units::counted;

use crate::devices::bypassed_device::{Sameness, ServedSince, missed, served_since};
use crate::devices::offline::error::{EXTENTS_SHOWN, OfflineError};
use crate::devices::offline::metadata::{Metadata, superblock};
use crate::devices::offline::offline_device::OfflineDevice;
use crate::devices::state::{StateError, uuid_text};
use crate::driver::device::identity::is_same_device;
use crate::extents::{extents, show_extents};
use crate::plan::cache_spec::Replacement;
use crate::plan::origin_claims::OriginClaims;
use crate::serve::config::StatePlace;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeQuery<'a> {
    pub name: &'a str,
    pub identity: String,
    pub claims: OriginClaims,
}

/// A volume with possibly stale blocks on a cache device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaleVolume {
    pub name: String,
    pub since: ServedSince,
    pub dirty: Vec<ByteExtent>,
    pub need: Need,
}

/// Whether dirty blocks are on a cache device alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    Possible,
    /// The origin has all of the blocks, or newer ones.
    None,
}

impl StaleVolume {
    pub fn is_needed(&self) -> bool {
        !self.dirty.is_empty() && self.need == Need::Possible
    }

    pub fn shown(&self) -> String {
        shown(&self.dirty)
    }
}

pub(crate) fn shown(dirty: &[ByteExtent]) -> String {
    let blocks = dirty.iter().map(|extent| extent.length).sum::<u64>() / BLOCK_SIZE;
    match blocks {
        0 => "no dirty blocks".into(),
        some => format!("{} ({})", counted(some, "dirty block"), show_extents(dirty, EXTENTS_SHOWN)),
    }
}

/// Finds the volumes with possibly stale blocks on a cache device. A volume may be left out if another cache
/// device may hold blocks that its origin lacks.
///
/// # Errors
/// If there are such volumes, and the log of the cache device cannot be read.
pub fn outdated(
    path: &Path,
    state: &StatePlace,
    volumes: &[VolumeQuery<'_>],
    replacement: Replacement,
) -> Result<Vec<StaleVolume>, OfflineError> {
    let looked = OfflineDevice::open(path).and_then(|source| Ok((superblock(&source)?, source)));
    let Ok((superblock, source)) = looked else { return Ok(Vec::new()) };
    let uuid = uuid_text(superblock.uuid);
    let since = |asked: &VolumeQuery<'_>| {
        let record = superblock.volume(asked.name)?;
        let is_same = is_same_device(&asked.identity, &record.origin_identity);
        if !is_same && !asked.claims.moved {
            return None;
        }
        let names = [asked.identity.as_str(), record.origin_identity.as_str()];
        let is_missed = names.iter().any(|name| match missed(state, Some(&uuid), name) {
            Ok(None) => false,
            Err(StateError::Newer { .. }) => true,
            Ok(Some(_)) | Err(_) => replacement == Replacement::Refuse,
        });
        let sameness = Sameness::of(asked.claims);
        let since = names.iter().find_map(|name| served_since(state, &uuid, name, sameness))?;
        let need = need(state, &superblock, &record.origin_identity);
        (!is_missed).then(|| (asked.name.to_owned(), record.id, since, need))
    };
    let found: Vec<_> = volumes.iter().filter_map(since).collect();
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let metadata = Metadata::read(source)?;
    let outdated = found.into_iter().map(|(name, id, since, need)| {
        let dirty = extents(&metadata.engine().dirty_blocks(id));
        StaleVolume { name, since, dirty, need }
    });
    Ok(outdated.collect())
}

/// Finds the volumes with possibly stale blocks on a cache device; none after a read error.
pub fn bypassed(path: &Path, state: &StatePlace) -> Vec<StaleVolume> {
    let Ok(superblock) = OfflineDevice::open(path).and_then(|source| superblock(&source)) else {
        return Vec::new();
    };
    let asked = superblock.volumes.iter().map(|record| VolumeQuery {
        name: &record.name,
        identity: record.origin_identity.clone(),
        claims: OriginClaims::default(),
    });
    outdated(path, state, &asked.collect::<Vec<_>>(), Replacement::Accept).unwrap_or_default()
}

/// Whether a cache device may hold blocks that the origin with this identity lacks, by the record of the
/// origin.
pub(crate) fn need(state: &StatePlace, superblock: &Superblock, identity: &str) -> Need {
    let record = state.store().and_then(|store| store.origin(identity).ok()?);
    if record.is_some_and(|record| record.is_complete(superblock)) { Need::None } else { Need::Possible }
}
