//! What a cache device holds of origins that were served past it: which volumes these are, and what is dirty of them.

use std::path::Path;

use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};

use kickcache_units::counted;

use crate::driver::device::identity::is_same_device;
use crate::extents::{extents, show_extents};
use crate::offline::error::{EXTENTS_SHOWN, OfflineError};
use crate::offline::metadata::{Metadata, superblock};
use crate::offline::offline_device::OfflineDevice;
use crate::plan::cache_spec::Replacement;
use crate::plan::origin_claims::OriginClaims;
use crate::serve::config::StatePlace;
use crate::serve::overtaken::{Sameness, ServedSince, missed, served_since};
use crate::state::{StateError, uuid_text};

/// A volume that somebody asks about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked<'a> {
    /// Its name.
    pub name: &'a str,
    /// What its origin is recognised by.
    pub identity: String,
    /// What the user says about it.
    pub claims: OriginClaims,
}

/// A volume whose blocks on a cache device are old.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outdated {
    /// Its name.
    pub name: String,
    /// Why.
    pub since: ServedSince,
    /// What is dirty of it there, and older than the origin.
    pub dirty: Vec<ByteExtent>,
    /// Whether somebody may need that.
    pub need: Need,
}

/// Whether dirty blocks are on a cache device alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// They may be.
    Possible,
    /// The origin has all of them, or something newer: the cache device was complete when it was served last.
    None,
}

impl Outdated {
    /// Whether dirty blocks would be lost with it.
    pub fn is_needed(&self) -> bool {
        !self.dirty.is_empty() && self.need == Need::Possible
    }

    /// The dirty blocks, in words.
    pub fn shown(&self) -> String {
        shown(&self.dirty)
    }
}

/// Dirty blocks, in words.
pub(crate) fn shown(dirty: &[ByteExtent]) -> String {
    let blocks = dirty.iter().map(|extent| extent.length).sum::<u64>() / BLOCK_SIZE;
    match blocks {
        0 => "no dirty blocks".into(),
        some => format!("{} ({})", counted(some, "dirty block"), show_extents(dirty, EXTENTS_SHOWN)),
    }
}

/// Finds the volumes whose blocks on a cache device are old. Those of which another cache device may hold what their origin
/// lacks are left to whoever serves them, who refuses; unless that is to be lost.
///
/// # Errors
/// If there are some, and the cache device cannot be read.
pub fn outdated(
    path: &Path,
    state: &StatePlace,
    volumes: &[Asked<'_>],
    replacement: Replacement,
) -> Result<Vec<Outdated>, OfflineError> {
    // What cannot be read, or is in use, is refused by those who open it.
    let looked = OfflineDevice::open(path).and_then(|source| Ok((superblock(&source)?, source)));
    let Ok((superblock, source)) = looked else { return Ok(Vec::new()) };
    let uuid = uuid_text(superblock.uuid);
    let since = |asked: &Asked<'_>| {
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
        Outdated { name, since, dirty, need }
    });
    Ok(outdated.collect())
}

/// Finds the volumes of a cache device whose origins were served past it, whoever has served them since. What cannot be read is told
/// by those who read all of it.
pub fn bypassed(path: &Path, state: &StatePlace) -> Vec<Outdated> {
    let Ok(superblock) = OfflineDevice::open(path).and_then(|source| superblock(&source)) else {
        return Vec::new();
    };
    let asked = superblock.volumes.iter().map(|record| Asked {
        name: &record.name,
        identity: record.origin_identity.clone(),
        claims: OriginClaims::default(),
    });
    outdated(path, state, &asked.collect::<Vec<_>>(), Replacement::Accept).unwrap_or_default()
}

/// Whether anything may be on a cache device alone of the origin that it knows.
pub(crate) fn need(state: &StatePlace, superblock: &Superblock, identity: &str) -> Need {
    let record = state.store().and_then(|store| store.origin(identity).ok()?);
    if record.is_some_and(|record| record.is_complete(superblock)) { Need::None } else { Need::Possible }
}
