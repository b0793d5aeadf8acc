//! Writes the dirty blocks of a volume back without a daemon.

use std::path::Path;

use kickcache_engine::format::superblock::{Superblock, VolumeRecord};
use kickcache_engine::units::{BLOCK_BYTES, BLOCK_SIZE, BlockIndex, BlockKey};

use crate::devices::bypassed_device::{missed, note_written_without};
use crate::devices::offline::bound_origin::BoundOrigin;
use crate::devices::offline::change::{DirtyBlocks, detach};
use crate::devices::offline::contents::Contents;
use crate::devices::offline::error::{EXTENTS_SHOWN, OfflineError};
use crate::devices::offline::out_of_service::{
    Incomplete, OutOfServiceDevice, complete, forget_dirty, newest, out_of_service,
};
use crate::devices::offline::stale_blocks::{StaleVolume, VolumeQuery, outdated, shown};
use crate::devices::offline::write_back::{End, write_back};
use crate::devices::older_copy::older_copy;
use crate::devices::origin_records::FIRST_START;
use crate::devices::state::{OriginRecord, uuid_text};
use crate::extents::show_extents;
use crate::plan::cache_spec::{CacheService, CacheSpec, Replacement};
use crate::plan::frontends::FrontendSpecs;
use crate::plan::origin_claims::OriginClaims;
use crate::plan::origin_source::OriginSource;
use crate::plan::origin_timeout::OriginTimeout;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::config::{ServerConfig, StatePlace};
use crate::serve::error::ServeError;
use crate::shell_command::ShellCommand;

#[derive(Clone, Copy, Debug)]
pub struct DrainPlan<'a> {
    pub cache: &'a Path,
    /// The volume; `None` selects the only volume of the cache device.
    pub volume: Option<&'a str>,
    /// The volume's origin; `None` selects the origin with the identity on the cache device.
    pub origin: Option<&'a OriginSource>,
    /// How long requests wait for a server that is lost, if the origin is an export; `None` for the default.
    pub origin_timeout: Option<OriginTimeout>,
    pub claims: OriginClaims,
    pub older: OlderBlocks,
    pub state: &'a StatePlace,
}

/// Whether to write back blocks that may be older than the origin's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OlderBlocks {
    Refuse,
    Accept,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Drained {
    pub name: String,
    pub origin: OriginSource,
    pub outcome: DrainOutcome,
    /// Dirty bytes that were not written back, because the origin has newer data there.
    pub overtaken_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DrainOutcome {
    /// The device may be stale or is out of service, and has no dirty block that the origin lacks.
    Nothing,
    /// This many bytes were written back; 0 if no block was dirty.
    Written(u64),
    /// This many bytes were written back over possibly newer data, and the volume was removed from the cache
    /// device.
    Removed { bytes: u64, clean_blocks: u64 },
}

/// Writes the dirty blocks of a volume back, except where the records show that the origin has newer data;
/// `progress` gets the bytes done and the total.
///
/// # Errors
/// If cache device or origin cannot be used, the origin may have newer data and the user does not accept
/// that, or a block cannot be written back.
pub fn drain(plan: DrainPlan<'_>, progress: &mut dyn FnMut(u64, u64)) -> Result<Drained, OfflineError> {
    let contents = super::read(plan.cache)?;
    let record = choose(&contents.superblock, plan)?;
    let origin = plan.origin.cloned().unwrap_or_else(|| OriginSource::of_identity(&record.origin_identity));
    let name = record.name.clone();
    if let (None, Err(source)) = (plan.origin, origin.identity()) {
        let (state, path, source) = (plan.state.clone(), plan.cache.into(), Box::new(source));
        let origin = origin.to_string().into();
        return Err(OfflineError::OriginGone { state, path, name, origin, source });
    }
    let Some(age) = age(plan, &contents, record, &origin)? else {
        forget_needless(plan, &contents.superblock, record)?;
        return Ok(Drained { name, origin, outcome: DrainOutcome::Nothing, overtaken_bytes: 0 });
    };
    // `bound` is held until the end, so that the number of the origin's file is not reused.
    let bound = bind(plan, &contents.superblock, record, &origin)?;
    // Only dirty blocks are written over possibly newer data, no clean block between them.
    let service = match age {
        Age::Current => CacheService::InService,
        Age::OutOfService(_) | Age::Overtaken | Age::Copy => CacheService::WrittenBackOnly,
    };
    if service == CacheService::WrittenBackOnly {
        let identity = origin.identity().map_err(ServeError::from)?;
        check_missed(plan, &contents.superblock, record, &identity)?;
        note_written_without(plan.state, &identity, &record.name)?;
    }
    let overtaken = match age {
        Age::OutOfService(_) => overtaken_blocks(plan, &contents, record)?,
        Age::Current | Age::Overtaken | Age::Copy => Vec::new(),
    };
    let left_alone = u64::try_from(overtaken.len()).unwrap_or(u64::MAX);
    let mut config = ServerConfig { overtaken, ..server_config(plan, record, &origin, service) };
    config.cache.volumes.iter_mut().for_each(|volume| volume.origin_file = bound.number);
    let dirty = dirty_blocks(&contents, record).saturating_sub(left_alone);
    let stuck = |why: String| {
        let after = super::read(plan.cache)?;
        let blocks = dirty_blocks(&after, record);
        let found = after.dirty.into_iter().find(|(id, _)| *id == record.id);
        let extents = found.map(|(_, extents)| extents).unwrap_or_default();
        Err(OfflineError::Undrained { name: name.clone(), blocks, extents, why })
    };
    match write_back(config, record, dirty, progress)? {
        End::Drained(bytes) => {
            let outcome = match age {
                Age::OutOfService(standing) => {
                    complete(plan.cache, plan.state, &standing, std::slice::from_ref(&name))?;
                    forget_dirty(plan.state, &standing, std::slice::from_ref(&name))?;
                    DrainOutcome::Written(bytes)
                }
                Age::Overtaken => {
                    let blocks = bytes / BLOCK_SIZE;
                    let detached = detach(plan.cache, &name, DirtyBlocks::Lose, plan.state)?;
                    // The blocks just written back are clean now, and on the origin.
                    let clean_blocks = detached.clean_blocks.saturating_sub(blocks);
                    DrainOutcome::Removed { bytes, clean_blocks }
                }
                Age::Copy => {
                    give_up_newer(plan, &contents.superblock, &origin)?;
                    DrainOutcome::Written(bytes)
                }
                Age::Current => DrainOutcome::Written(bytes),
            };
            Ok(Drained { name, origin, outcome, overtaken_bytes: left_alone * BLOCK_SIZE })
        }
        End::Damaged => stuck(damaged(plan, &name)),
        End::Stuck(why) => stuck(why),
    }
}

/// Refuses an origin that the cache device names, unless a record confirms it.
fn bind(
    plan: DrainPlan<'_>,
    superblock: &Superblock,
    record: &VolumeRecord,
    origin: &OriginSource,
) -> Result<BoundOrigin, OfflineError> {
    if plan.origin.is_some() {
        return Ok(BoundOrigin::named());
    }
    BoundOrigin::of_device(plan.state, superblock, record, plan.claims).map_err(|why| {
        let drain = ShellCommand::drain_offline(&record.name, plan.cache).word("--origin");
        let drain = match origin {
            OriginSource::Path(path) => drain.path(path),
            OriginSource::Nbd(_) | OriginSource::Outside(_) => drain.word(&origin.to_string()),
        };
        let flags = [
            (plan.claims.moved, "--origin-moved"),
            (plan.claims.grown, "--origin-grown"),
            (plan.older == OlderBlocks::Accept, "--accept-older"),
        ];
        let given = flags.into_iter().filter(|(is_given, _)| *is_given);
        let drain = given.fold(drain, |drain, (_, flag)| drain.word(flag)).state(plan.state);
        let (path, name) = (plan.cache.into(), record.name.clone());
        OfflineError::Unbound { path, name, origin: origin.to_string(), why: Box::new(why), drain }
    })
}

fn damaged(plan: DrainPlan<'_>, name: &str) -> String {
    let detach =
        ShellCommand::new("detach").word("--lose-dirty").path(plan.cache).word(name).state(plan.state);
    format!(
        "the only copy, on the cache device, is damaged; all other data is on the origin. Serve the \
         volume and overwrite the whole of each block, or give them up ({detach}): the origin then has \
         its previous data there"
    )
}

/// The dirty blocks of a volume on a cache device out of service that were written on the origin since.
fn overtaken_blocks(
    plan: DrainPlan<'_>,
    contents: &Contents,
    record: &VolumeRecord,
) -> Result<Vec<BlockKey>, OfflineError> {
    let Some(newest) = newest(plan.state, &contents.superblock, &record.name)? else { return Ok(Vec::new()) };
    let is_newest =
        |at: u64| newest.iter().any(|extent| (extent.start..extent.start + extent.length).contains(&at));
    let dirty = contents.dirty.iter().filter(|(id, _)| *id == record.id).flat_map(|(_, extents)| extents);
    let starts = dirty.flat_map(|extent| (extent.start..extent.end()).step_by(BLOCK_BYTES));
    let overtaken = starts.filter(|at| !is_newest(*at));
    Ok(overtaken.map(|at| BlockKey::new(record.id, BlockIndex::new(at / BLOCK_SIZE))).collect())
}

/// Clears the dirty flag of an origin's record with this cache device, unless the device is an older copy.
fn forget_needless(
    plan: DrainPlan<'_>,
    superblock: &Superblock,
    record: &VolumeRecord,
) -> Result<(), OfflineError> {
    let is_copy = older_copy(plan.state, superblock, plan.cache).is_some();
    let Some(store) = plan.state.store().filter(|_| !is_copy) else { return Ok(()) };
    match store.origin(&record.origin_identity)? {
        Some(note) if note.may_be_dirty && note.cache_uuid == uuid_text(superblock.uuid) => {
            Ok(store.keep_origin(&OriginRecord { may_be_dirty: false, ..note })?)
        }
        Some(_) | None => Ok(()),
    }
}

/// Records that the origin needs no block of the newer cache device any more.
fn give_up_newer(
    plan: DrainPlan<'_>,
    superblock: &Superblock,
    origin: &OriginSource,
) -> Result<(), OfflineError> {
    let Some(store) = plan.state.store() else { return Ok(()) };
    let identity = origin.identity().map_err(ServeError::from)?;
    match store.origin(&identity)? {
        Some(record) if record.cache_uuid == uuid_text(superblock.uuid) && record.may_be_dirty => {
            Ok(store.keep_origin(&OriginRecord { may_be_dirty: false, ..record })?)
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether dirty blocks may be older than the data of the origin.
enum Age {
    /// No record shows newer data on the origin.
    Current,
    OutOfService(OutOfServiceDevice),
    /// The origin counts as served past the cache device.
    Overtaken,
    Copy,
}

/// The possible age of a volume's dirty blocks; `None` if the device may be stale, and has none to write
/// back.
fn age(
    plan: DrainPlan<'_>,
    contents: &Contents,
    record: &VolumeRecord,
    origin: &OriginSource,
) -> Result<Option<Age>, OfflineError> {
    let may_be_older = plan.older == OlderBlocks::Accept;
    let is_dirty = contents.dirty.iter().any(|(id, dirty)| *id == record.id && !dirty.is_empty());
    if let Some(copy) = older_copy(plan.state, &contents.superblock, plan.cache) {
        if !may_be_older {
            return Err(OfflineError::OlderCopy { path: plan.cache.into(), copy: Box::new(copy) });
        }
        return Ok(is_dirty.then_some(Age::Copy));
    }
    if let Some(standing) = out_of_service(plan.cache, plan.state, &[])? {
        return match standing.incomplete.iter().find(|volume| volume.name == record.name) {
            None => Ok(None),
            Some(_) if may_be_older => Ok(Some(Age::OutOfService(standing))),
            Some(volume) => Err(older(plan.cache, volume)),
        };
    }
    match find_outdated(plan, record, origin)? {
        None => match (unnoted(plan, contents, record, origin), may_be_older) {
            // A server gets older blocks without a comparison with the clean blocks: these are dropped
            // afterwards.
            (None, true) if is_dirty && origin.has_server() => Ok(Some(Age::Overtaken)),
            (None, _) => Ok(Some(Age::Current)),
            (Some(_), _) if !is_dirty => Ok(None),
            (Some(_), true) => Ok(Some(Age::Overtaken)),
            (Some(error), false) => Err(error),
        },
        Some(volume) if !volume.is_needed() => Ok(None),
        Some(_) if may_be_older => Ok(Some(Age::Overtaken)),
        Some(volume) => Err(overtaken(plan, &volume)),
    }
}

/// The error if a cache device was served, and the state directory has no record of it.
fn unnoted(
    plan: DrainPlan<'_>,
    contents: &Contents,
    record: &VolumeRecord,
    origin: &OriginSource,
) -> Option<OfflineError> {
    let superblock = &contents.superblock;
    let uuid = uuid_text(superblock.uuid);
    let place = match plan.state {
        StatePlace::NotKept => return None,
        StatePlace::Missing => "a state directory, as there is none".into(),
        StatePlace::Directory(directory) => directory.display().to_string(),
    };
    let names = origin.identity().ok().into_iter().chain([record.origin_identity.clone()]);
    let is_noted = plan.state.store().is_some_and(|store| {
        let is_own = |name: &String| match store.origin(name) {
            Ok(noted) => noted.is_some_and(|noted| noted.cache_uuid == uuid),
            Err(_) => true,
        };
        !matches!(store.cache(&uuid), Ok(None)) || names.into_iter().any(|name| is_own(&name))
    });
    if superblock.starts < FIRST_START || is_noted {
        return None;
    }
    let (path, name) = (plan.cache.into(), record.name.clone());
    let dirty = contents.dirty.iter().find(|(id, _)| *id == record.id);
    let what = dirty.map_or_else(String::new, |(_, extents)| shown(extents));
    Some(OfflineError::Unnoted { path, name, place, what })
}

fn find_outdated(
    plan: DrainPlan<'_>,
    record: &VolumeRecord,
    origin: &OriginSource,
) -> Result<Option<StaleVolume>, OfflineError> {
    let Ok(identity) = origin.identity() else { return Ok(None) };
    let asked = VolumeQuery { name: &record.name, identity, claims: plan.claims };
    Ok(outdated(plan.cache, plan.state, &[asked], Replacement::Refuse)?.pop())
}

fn overtaken(plan: DrainPlan<'_>, volume: &StaleVolume) -> OfflineError {
    OfflineError::Overtaken {
        state: plan.state.clone(),
        path: plan.cache.into(),
        name: volume.name.clone(),
        since: volume.since.clone(),
        what: volume.shown(),
    }
}

/// Refuses to write to an origin for which another cache device may have newer blocks.
fn check_missed(
    plan: DrainPlan<'_>,
    superblock: &Superblock,
    record: &VolumeRecord,
    identity: &str,
) -> Result<(), OfflineError> {
    match missed(plan.state, Some(&uuid_text(superblock.uuid)), identity)? {
        None => Ok(()),
        Some(other) => Err(OfflineError::Missed { name: record.name.clone(), other: other.cache_path }),
    }
}

fn older(path: &Path, volume: &Incomplete) -> OfflineError {
    let what = match &volume.extents {
        Some(extents) => show_extents(extents, EXTENTS_SHOWN),
        None => "it is unknown which".into(),
    };
    OfflineError::Older { path: path.into(), name: volume.name.clone(), what }
}

fn choose<'a>(superblock: &'a Superblock, plan: DrainPlan<'_>) -> Result<&'a VolumeRecord, OfflineError> {
    let known = || superblock.volumes.iter().map(|record| record.name.clone()).collect();
    let path = || plan.cache.to_path_buf();
    match (plan.volume, superblock.volumes.as_slice()) {
        (None, [only]) => Ok(only),
        (None, _) => Err(OfflineError::WhichVolume { path: path(), known: known() }),
        (Some(name), _) => superblock.volume(name).ok_or_else(|| OfflineError::NoVolume {
            path: path(),
            name: name.into(),
            known: known(),
        }),
    }
}

fn server_config(
    plan: DrainPlan<'_>,
    record: &VolumeRecord,
    origin: &OriginSource,
    service: CacheService,
) -> ServerConfig {
    let usual = VolumeSpec::new(&record.name, origin.clone());
    let volume = VolumeSpec {
        origin_timeout: plan.origin_timeout.unwrap_or(usual.origin_timeout),
        claims: plan.claims,
        frontends: FrontendSpecs::nbd(Vec::new()),
        ..usual
    };
    let cache = CacheSpec { service, ..CacheSpec::new(plan.cache, vec![volume]) };
    ServerConfig { state: plan.state.clone(), ..ServerConfig::new(cache) }
}

fn dirty_blocks(contents: &Contents, record: &VolumeRecord) -> u64 {
    let of_volume = contents.dirty.iter().filter(|(id, _)| *id == record.id);
    of_volume.flat_map(|(_, extents)| extents).map(|extent| extent.length / BLOCK_SIZE).sum()
}
