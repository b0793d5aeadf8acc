//! Opens and matches the cache device and the origins of a start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kickcache_engine::format::geometry::DEVICE_SIZE_MIN;
use kickcache_engine::format::mark::ServiceMark;
use kickcache_engine::format::superblock::{Superblock, VolumeRecord};
use kickcache_engine::units::VolumeSet;
use tracing::subscriber::NoSubscriber;

use crate::devices::bypassed_device::{Sameness, note_written_without, served_since};
use crate::devices::cache_device::examination::Examination;
use crate::devices::cache_device::{CacheDevice, CreatedFiles, OriginFacts, attach};
use crate::devices::known_origin::check_no_origin;
use crate::devices::missed_device::superblock_at;
use crate::devices::older_copy::{noted_start, older_copy};
use crate::devices::open_volume::OpenVolume;
use crate::devices::origin_records::{self, CacheChoice, Candidate, Holdings, OriginRecords};
use crate::devices::reservation_check::check_rooms;
use crate::devices::state::{OriginLock, OriginRecord, StateError, uuid_text};
use crate::devices::stop_record_check::OriginCheck;
use crate::devices::volume_identity::VolumeIdentity;
use crate::driver::device::{BlockFile, OpenError, check_different, check_distinct};
use crate::driver::executor::Medium;
use crate::driver::null_device::NullDevice;
use crate::driver::rights::trusted_path::Identity;
use crate::plan::cache_spec::{CacheService, CacheSpec, Replacement};
use crate::plan::check::check_texts;
use crate::plan::volume_spec::{DirtyLoss, VolumeSpec};
use crate::serve::config::{ServerConfig, StatePlace};
use crate::serve::error::ServeError;
use crate::serve::frontend;
use crate::serve::origin::{Origin, hold, hold_too};
use crate::serve::stop_wish::StopWish;
use crate::shell_command::ShellCommand;
use crate::whole_path::whole_path;

pub(crate) struct Prepared {
    pub(crate) path: PathBuf,
    pub(crate) superblock: Superblock,
    pub(crate) cache: Medium,
    pub(crate) volumes: Vec<OpenVolume>,
    pub(crate) made: CreatedFiles,
    /// The records of the volumes, if the cache device is in service.
    pub(crate) notes: Option<Arc<OriginRecords>>,
}

/// Refuses errors that can be found before any device is opened.
pub(crate) fn check(config: &ServerConfig) -> Result<(), ServeError> {
    if config.cache.volumes.is_empty() {
        let what = "no volume is configured; name an origin at least".into();
        return Err(ServeError::Volume { name: "(none)".into(), what });
    }
    let origins = config.cache.volumes.iter().filter_map(|volume| volume.origin.path());
    let is_used = !matches!(config.cache.service, CacheService::LeftOut | CacheService::OutOfService);
    check_texts(&config.cache).map_err(OpenError::from)?;
    frontend::check(&config.cache)?;
    check_distinct(is_used.then_some(config.cache.device.as_path()).into_iter().chain(origins))?;
    for (index, volume) in config.cache.volumes.iter().enumerate() {
        if config.cache.volumes[..index].iter().any(|other| other.name == volume.name) {
            let what = "two volumes have this name; choose another".into();
            return Err(ServeError::Volume { name: volume.name.clone(), what });
        }
        frontend::check_volume(volume, config.tls.exposure(config.exposure))?;
    }
    Ok(())
}

struct ExaminedDevices {
    found: Examination,
    volumes: Vec<OpenVolume>,
}

impl ExaminedDevices {
    fn look(config: &ServerConfig) -> Result<ExaminedDevices, ServeError> {
        let ServerConfig { cache, state, .. } = config;
        let found = match Examination::look(&cache.device, cache.size.map(|size| size.bytes()), state) {
            Err(error @ (ServeError::Cache { .. } | ServeError::Engine { .. })) => {
                return Err(swapped(error, &cache.device, open_volumes(config, None).unwrap_or_default()));
            }
            found => found?,
        };
        if found.ours().is_none() {
            check_no_origin(state, &cache.device)?;
        }
        let mut volumes = open_volumes(config, found.file())?;
        let mut superblock = found.superblock()?;
        if cache.service == CacheService::InService {
            check_rooms(&cache.device, &superblock.geometry, &cache.volumes)?;
        }
        let uuid = found.ours().map(|device| device.superblock.uuid);
        for (volume, spec) in volumes.iter_mut().zip(&cache.volumes) {
            check_no_cache(volume, knows(&superblock, volume))?;
            let origin = superblock.volume(&volume.name).map(|record| record.origin_identity.clone());
            volume.recognise(origin.as_deref(), state);
            attach(&mut superblock, &cache.device, facts(volume, state))?;
            volume.known_as.cache = uuid.map(uuid_text);
            volume.known_as.origins.extend(origin.filter(|origin| *origin != volume.identity));
            check_left_behind(volume, spec, state)?;
        }
        if let Some(device) = found.ours() {
            check_service(device, cache, state)?;
        }
        if cache.service == CacheService::InService {
            let chosen = CacheChoice { path: &cache.device, uuid, replacement: cache.replacement };
            let candidates: Vec<_> = volumes.iter().map(|volume| candidate(volume, &superblock)).collect();
            origin_records::check(state, chosen, &candidates)?;
            if let Some(device) = found.ours() {
                volumes.iter().try_for_each(|volume| {
                    check_current(&device.superblock, device.file.path(), volume, state)
                })?;
            }
        }
        Ok(ExaminedDevices { found, volumes })
    }

    fn make(self, spec: &CacheSpec, state: &StatePlace) -> Result<Prepared, ServeError> {
        let ExaminedDevices { found, mut volumes } = self;
        let mut made = CreatedFiles::default();
        let mut cache: CacheDevice = found.make(&mut made)?;
        let held = cache.superblock.clone();
        for volume in &mut volumes {
            if let Some(origin) = volume.origin.local() {
                check_different(&cache.file, origin)?;
            }
            volume.settings.volume = cache.attach(facts(volume, state))?;
            volume.known_as.cache = Some(uuid_text(cache.superblock.uuid));
        }
        // The superblock of a device out of service is not written.
        let mut notes = None;
        let path = cache.file.path().to_path_buf();
        if spec.service == CacheService::InService {
            cache.store()?;
            cache.count_start(noted_start(state, &cache.superblock));
            let noted: Vec<_> =
                volumes.iter().map(|volume| (volume.settings.volume, candidate(volume, &held))).collect();
            let begun = Arc::new(OriginRecords::begin(state, (&cache.superblock, &path), &noted)?);
            made.notes(Arc::clone(&begun));
            notes = Some(begun);
        }
        let superblock = cache.superblock;
        Ok(Prepared { path, superblock, cache: Medium::File(cache.file), volumes, made, notes })
    }
}

/// Checks the volumes of a cache device for a start without it.
///
/// # Errors
/// As the start would.
pub fn rehearse_volumes(config: &ServerConfig) -> Result<(), ServeError> {
    check(config)?;
    let look = || open_left(config).map(drop);
    let has_server = config.cache.volumes.iter().any(|volume| volume.origin.has_server());
    // The check logs its messages, since a wait for a server must be logged.
    if has_server { look() } else { quietly(look) }
}

/// Checks a cache device and its volumes for a start.
///
/// # Errors
/// As the start would.
pub fn rehearse(config: &ServerConfig) -> Result<(), ServeError> {
    check(config)?;
    quietly(|| ExaminedDevices::look(config).map(drop))
}

/// Opens the origin of a volume, without a lock in the state directory, and closes it again.
///
/// # Errors
/// [`ServeError::Origin`] or [`ServeError::Volume`], or [`ServeError::Stopped`] after a stop request.
pub fn check_origin(spec: &VolumeSpec, wish: &StopWish) -> Result<(), ServeError> {
    let open = || open_volume(spec, wish).map(drop);
    if spec.origin.has_server() { open() } else { quietly(open) }
}

/// Runs a check that a start repeats later: warnings are left to that start.
fn quietly<T>(look: impl FnOnce() -> T) -> T {
    tracing::subscriber::with_default(NoSubscriber::new(), look)
}

impl Prepared {
    pub(crate) fn with_cache(config: &ServerConfig) -> Result<Prepared, ServeError> {
        ExaminedDevices::look(config)?.make(&config.cache, &config.state)
    }

    /// Opens the volumes with an empty stand-in for a cache device.
    pub(crate) fn without_cache(config: &ServerConfig) -> Result<Prepared, ServeError> {
        let (path, state) = (config.cache.device.clone(), &config.state);
        let refuse = |source| ServeError::Engine { path: path.clone(), source };
        let mut superblock = Superblock::new([0; 16], DEVICE_SIZE_MIN).map_err(refuse)?;
        let mut volumes = open_left(config)?;
        for volume in &mut volumes {
            let added = superblock.add_volume(&volume.name, volume.size, &volume.identity);
            volume.settings.volume = added.map_err(refuse)?;
            let noted = note_written_without(state, &volume.identity, &volume.name);
            noted
                .map_err(|error| ServeError::Volume { name: volume.name.clone(), what: error.to_string() })?;
        }
        let cache = Medium::Queued(Box::new(NullDevice::default()));
        Ok(Prepared { path, superblock, cache, volumes, made: CreatedFiles::default(), notes: None })
    }
}

fn open_left(config: &ServerConfig) -> Result<Vec<OpenVolume>, ServeError> {
    let ServerConfig { cache, state, .. } = config;
    let mut volumes = open_volumes(config, None)?;
    let left = superblock_at(&cache.device);
    for (volume, spec) in volumes.iter_mut().zip(&cache.volumes) {
        let record = left.as_ref().and_then(|left| left.volume(&volume.name));
        let origin = record.map(|record| record.origin_identity.clone());
        volume.known_as.origins.extend(origin.filter(|origin| *origin != volume.identity));
        let uuid = left.as_ref().map(|left| uuid_text(left.uuid));
        volume.known_as.cache = uuid.or_else(|| noted_uuid(&cache.device, &volume.name, state));
        check_left_behind(volume, spec, state)?;
        if matches!(cache.service, CacheService::LeftOut | CacheService::OutOfService) {
            let acquaintance = match origin_records::knows(state, &volume.identity) {
                true => Acquaintance::Known,
                false => Acquaintance::Stranger,
            };
            check_no_cache(volume, acquaintance)?;
        }
    }
    Ok(volumes)
}

/// The uuid of an unreadable cache device, from the record of one of its volumes.
fn noted_uuid(device: &Path, name: &str, state: &StatePlace) -> Option<String> {
    let noted = state.store()?.origins().ok()?.records;
    let device = whole_path(device);
    let is_meant = |record: &OriginRecord| record.volume == name && record.cache_path == device;
    noted.into_iter().find(is_meant).map(|record| record.cache_uuid).filter(|uuid| !uuid.is_empty())
}

pub(crate) fn candidate<'a>(volume: &'a OpenVolume, held: &Superblock) -> Candidate<'a> {
    Candidate {
        name: &volume.name,
        identity: &volume.identity,
        mode: volume.settings.mode,
        access: volume.access,
        holdings: if held.volume(&volume.name).is_some() { Holdings::Earlier } else { Holdings::Nothing },
    }
}

/// If volumes are to use the cache device, refuses an older copy and a device out of service. A record of the
/// device by a later version is refused in any case.
fn check_service(device: &CacheDevice, cache: &CacheSpec, state: &StatePlace) -> Result<(), ServeError> {
    let refuse =
        |error: StateError| ServeError::Cache { path: cache.device.clone(), what: error.to_string() };
    let noted = noted(state, &device.superblock).map_err(refuse)?;
    if cache.service != CacheService::InService {
        return Ok(());
    }
    if let Some(copy) = older_copy(state, &device.superblock, &cache.device) {
        return Err(ServeError::Cache { path: cache.device.clone(), what: copy.to_string() });
    }
    // Either the record or a mark suffices to refuse the device.
    if noted.incomplete.is_none() && device.service()? == ServiceMark::InService {
        return Ok(());
    }
    let out = "it is out of service, and its blocks are stale; format it before it is used again".to_owned();
    let what = noted
        .doubt
        .map_or(out, |doubt| format!("it is unknown whether it was taken out of service: {doubt}"));
    Err(ServeError::Cache { path: cache.device.clone(), what })
}

/// Refuses a volume if its blocks on the cache device may be stale.
fn check_current(
    superblock: &Superblock,
    path: &Path,
    volume: &OpenVolume,
    state: &StatePlace,
) -> Result<(), ServeError> {
    let name = &volume.name;
    let Some(known) = superblock.volume(name) else { return Ok(()) };
    let uuid = uuid_text(superblock.uuid);
    let identities = [volume.identity.as_str(), known.origin_identity.as_str()];
    let sameness = Sameness::of(volume.claims);
    let since = identities.iter().find_map(|identity| served_since(state, &uuid, identity, sameness));
    let Some(since) = since else { return Ok(()) };
    let detach = ShellCommand::new("detach").path(path).word(name).state(state);
    let what = format!(
        "{since} since {} had it, and its blocks there may be stale; {}drop it ({detach})",
        path.display(),
        since.other_way(name)
    );
    Err(ServeError::Volume { name: name.clone(), what })
}

/// The record of a cache device in the state directory.
#[derive(Debug, Default)]
pub struct RecordedService {
    /// The volumes that may need the device; `None` if it is in service.
    pub incomplete: Option<VolumeSet>,
    /// The error of an unreadable record.
    pub doubt: Option<StateError>,
}

/// Checks whether a cache device is recorded as out of service. An unreadable record counts as `out of
/// service`, and every volume counts as needing the device.
///
/// # Errors
/// If the record is from a later version.
pub fn noted(state: &StatePlace, superblock: &Superblock) -> Result<RecordedService, StateError> {
    let Some(store) = state.store() else { return Ok(RecordedService::default()) };
    let all = |is_meant: &dyn Fn(&VolumeRecord) -> bool| {
        superblock.volumes.iter().filter(|record| is_meant(record)).map(|record| record.id).collect()
    };
    match store.cache(&uuid_text(superblock.uuid)) {
        Ok(record) => {
            let out = record.and_then(|record| record.out_of_service);
            let incomplete = out.map(|out| all(&|record| out.incomplete.contains(&record.name)));
            Ok(RecordedService { incomplete, doubt: None })
        }
        Err(error @ StateError::Newer { .. }) => Err(error),
        Err(doubt) => Ok(RecordedService { incomplete: Some(all(&|_| true)), doubt: Some(doubt) }),
    }
}

/// Whether an origin was served before: with this cache device, or, without one, by its record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Acquaintance {
    Known,
    Stranger,
}

fn knows(superblock: &Superblock, volume: &OpenVolume) -> Acquaintance {
    match superblock.volume(&volume.name) {
        Some(record) if volume.is_recognised_by(&record.origin_identity) => Acquaintance::Known,
        Some(_) | None => Acquaintance::Stranger,
    }
}

/// Refuses an origin that is a cache device, when it is attached for the first time and the user does not force
/// that. On a known origin a guest may have written such bytes, which must not prevent a start.
fn check_no_cache(volume: &OpenVolume, acquaintance: Acquaintance) -> Result<(), ServeError> {
    let unreadable =
        |error: ServeError| ServeError::Volume { name: volume.name.clone(), what: error.to_string() };
    if !volume.origin.carries_superblock().map_err(unreadable)? {
        return Ok(());
    }
    let identity = &volume.identity;
    if acquaintance == Acquaintance::Known || volume.claims.forced {
        tracing::warn!(
            event = "origin_looks_like_cache",
            "{identity}, the origin of {}, looks like a kickcache cache device",
            volume.name
        );
        return Ok(());
    }
    let what = format!(
        "its origin {identity} is a kickcache cache device, which writes would destroy; give the right \
         origin (were cache and origin swapped?), or use --force-origin to use it as an origin"
    );
    Err(ServeError::Volume { name: volume.name.clone(), what })
}

/// Refuses a volume with a block device of an earlier daemon that this start would not take over.
fn check_left_behind(
    volume: &mut OpenVolume,
    spec: &VolumeSpec,
    state: &StatePlace,
) -> Result<(), ServeError> {
    let noted = state.store().and_then(|store| store.origin(&volume.identity).ok().flatten());
    let noted = noted.map(|record| VolumeIdentity {
        cache: Some(record.cache_uuid).filter(|uuid| !uuid.is_empty()),
        ..VolumeIdentity::of_origin(&record.volume, &record.identity)
    });
    let (same, other): (Vec<_>, Vec<_>) = noted.into_iter().partition(|noted| noted.name == volume.name);
    if volume.known_as.cache.is_none() {
        volume.known_as.cache = same.into_iter().find_map(|noted| noted.cache);
    }
    frontend::check_left_behind(spec, &volume.known_as, other.first())
}

/// The error that cache and origin are swapped, if an origin of these volumes is a cache device; otherwise `error`.
fn swapped(error: ServeError, cache: &Path, volumes: Vec<OpenVolume>) -> ServeError {
    let is_cache = |volume: &OpenVolume| volume.origin.carries_superblock().unwrap_or(false);
    match volumes.into_iter().find(is_cache) {
        Some(volume) => {
            let what = format!(
                "its origin is a kickcache cache device, and {} is none: cache and origin are swapped",
                cache.display()
            );
            ServeError::Volume { name: volume.name, what }
        }
        None => error,
    }
}

pub(crate) fn open_held(
    spec: &VolumeSpec,
    state: &StatePlace,
    wish: &StopWish,
) -> Result<OpenVolume, ServeError> {
    let mut locks: Vec<OriginLock> = hold(spec, state)?.into_iter().collect();
    let opened = open_volume(spec, wish)?;
    for name in opened.origin.other_names() {
        locks.extend(hold_too(spec, name, state)?);
    }
    Ok(OpenVolume { locks, ..opened })
}

/// Checks a volume that is added to a running server with a cache device in service.
pub(crate) fn check_late(
    volume: &mut OpenVolume,
    spec: &VolumeSpec,
    superblock: &Superblock,
    path: &Path,
    state: &StatePlace,
) -> Result<(), ServeError> {
    check_no_cache(volume, knows(superblock, volume))?;
    let known = superblock.volume(&volume.name).map(|record| record.origin_identity.clone());
    volume.recognise(known.as_deref(), state);
    volume.known_as.cache = Some(uuid_text(superblock.uuid));
    volume.known_as.origins.extend(known.filter(|origin| *origin != volume.identity));
    check_left_behind(volume, spec, state)?;
    let replacement = match spec.dirty_loss {
        DirtyLoss::Refused => Replacement::Refuse,
        DirtyLoss::Accepted => Replacement::Accept,
    };
    let chosen = CacheChoice { path, uuid: Some(superblock.uuid), replacement };
    origin_records::check(state, chosen, &[candidate(volume, superblock)])?;
    check_current(superblock, path, volume, state)
}

fn open_volumes(config: &ServerConfig, cache: Option<&BlockFile>) -> Result<Vec<OpenVolume>, ServeError> {
    let mut volumes: Vec<OpenVolume> = Vec::new();
    for volume in &config.cache.volumes {
        let opened = open_held(volume, &config.state, &config.stop_wish)?;
        if let Some(origin) = opened.origin.local() {
            if let Some(cache) = cache {
                check_different(cache, origin)?;
            }
            let others = volumes.iter().filter_map(|other| other.origin.local());
            others.into_iter().try_for_each(|other| check_different(other, origin))?;
        }
        volumes.push(opened);
    }
    Ok(volumes)
}

fn open_volume(spec: &VolumeSpec, wish: &StopWish) -> Result<OpenVolume, ServeError> {
    let origin = Origin::open(spec, wish)?;
    check_pinned(spec, &origin)?;
    let identified = origin.identified();
    let identity = identified.identity.clone();
    Ok(OpenVolume {
        name: spec.name.clone(),
        size: origin.size(),
        known_as: VolumeIdentity::of_origin(&spec.name, &identity),
        identity,
        identified,
        check: OriginCheck::default(),
        zeroes: origin.zeroes(),
        allowed: spec.frontends.nbd.allowed_clients().to_vec(),
        origin,
        settings: spec.settings(),
        client_cap: spec.client_cap(),
        access: spec.access,
        claims: spec.claims,
        locks: Vec::new(),
    })
}

/// Refuses an opened origin that is not the file that was checked before.
fn check_pinned(spec: &VolumeSpec, origin: &Origin) -> Result<(), ServeError> {
    let (Some(pinned), Some(opened)) = (spec.origin_file, origin.local()) else { return Ok(()) };
    let found = opened.file().metadata().map(|metadata| Identity::of(&metadata));
    if found.is_ok_and(|found| found == pinned) {
        return Ok(());
    }
    let what =
        format!("another file was put at {} while it was opened; name its origin", opened.path().display());
    Err(ServeError::Volume { name: spec.name.clone(), what })
}

pub(crate) fn facts<'a>(volume: &'a OpenVolume, state: &'a StatePlace) -> OriginFacts<'a> {
    let OpenVolume { name, size, identity, identified, claims, .. } = volume;
    OriginFacts { name, size: *size, identity, older: &identified.older, claims: *claims, state }
}
