//! Puts a cache device into use while volumes are served without one.

use std::path::Path;
use std::sync::Arc;

use kickcache_engine::config::{EngineSettings, FreedSegments, Service, VolumeSettings};
use kickcache_engine::format::superblock::Superblock;

use crate::devices::cache_device::CacheDevice;
use crate::devices::older_copy::noted_start;
use crate::devices::origin_records::{Candidate, Holdings, OriginRecords};
use crate::devices::reservation_check::check_rooms;
use crate::driver::device::{AccessMode, check_different};
use crate::driver::executor::Medium;
use crate::operations::cache_removal::{records, volume_settings};
use crate::operations::engine_exchange::exchange;
use crate::operations::held_superblock::{HeldSuperblock, LeaseWait};
use crate::operations::standby_engine::{Recovered, StandbyParts};
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::control::NamedSettings;
use crate::serve::error::ServeError;
use crate::serve::server::{ServerContext, ServerHandle};
use crate::serve::verbs::exchange::{CacheUse, CurrentEngine, NewEngine, NewEngineKind};
use crate::serve::verbs::superblock_lease::SuperblockWriter;

pub(crate) struct CacheInsertion<'a> {
    /// The volumes with their present settings.
    pub(crate) volumes: &'a [VolumeSpec],
    pub(crate) settings: &'a [NamedSettings],
    pub(crate) freed_segments: FreedSegments,
}

/// Checks for obstacles to putting a cache device of this many bytes into use, without a change.
///
/// # Errors
/// An obstacle, or [`ServeError::Stopped`].
pub(crate) fn check(
    server: &ServerHandle,
    device: &Path,
    size: u64,
    volumes: &[VolumeSpec],
) -> Result<(), ServeError> {
    refuse(&server.context(), &server.in_turn(|verbs, _| verbs.current_engine())??)?;
    let superblock = Superblock::new([0; 16], size);
    let failed = |source| ServeError::Engine { path: device.into(), source };
    check_rooms(device, &superblock.map_err(failed)?.geometry, volumes)
}

fn refuse(around: &ServerContext, behind: &CurrentEngine) -> Result<(), ServeError> {
    match behind.cache {
        CacheUse::None => Ok(()),
        CacheUse::Used => {
            let what = "it is used; leave it out first (`kickcache leave-out`)".into();
            Err(ServeError::Cache { path: around.cache.clone(), what })
        }
    }
}

/// Replaces the engine without a cache by one with a new cache device.
///
/// # Errors
/// If the device is not taken in; the volumes are served as before.
pub(crate) fn take_in(
    server: &ServerHandle,
    taken_in: &CacheInsertion<'_>,
    format: impl FnOnce() -> Result<CacheDevice, ServeError>,
) -> Result<(), ServeError> {
    let around = &server.context();
    let held = HeldSuperblock::wait(server, SuperblockWriter::Exchange, LeaseWait::Short)?;
    let behind = server.in_turn(|verbs, _| verbs.current_engine())??;
    refuse(around, &behind)?;
    let Ready { other, notes } = prepare(around, &behind, taken_in, format)?;
    match exchange(server, other) {
        Ok(former) => drop(former),
        Err(error) => {
            notes.undo();
            return Err(error);
        }
    }
    drop(held);
    server.keep_notes(Some(notes));
    Ok(())
}

struct Ready {
    other: NewEngine,
    notes: Arc<OriginRecords>,
}

fn prepare(
    around: &ServerContext,
    behind: &CurrentEngine,
    taken_in: &CacheInsertion<'_>,
    format: impl FnOnce() -> Result<CacheDevice, ServeError>,
) -> Result<Ready, ServeError> {
    let mut device = format()?;
    let path = device.file.path().to_path_buf();
    behind.origins.iter().try_for_each(|origin| check_different(&device.file, origin))?;
    check_rooms(&path, &device.superblock.geometry, taken_in.volumes)?;
    device.set_volumes(records(behind));
    device.store()?;
    device.count_start(noted_start(&around.state, &device.superblock));
    let volumes = volume_settings(behind, taken_in.settings)?;
    let engine =
        EngineSettings { service: Service::In, freed_segments: taken_in.freed_segments, ..around.engine };
    let CacheDevice { file, superblock, .. } = device;
    let aside = StandbyParts {
        clock: behind.clock.clone(),
        io_engine: behind.io_engine,
        settings: engine,
        superblock: &superblock,
        volumes: &volumes,
        path: &path,
    };
    let Recovered { engine, cache } = aside.recover(Medium::File(file))?;
    let file =
        cache.ok_or_else(|| ServeError::Cache { path: path.clone(), what: "it has another owner".into() })?;
    let notes = note(around, behind, &volumes, &superblock, &path)?;
    let kind = NewEngineKind::WithCache(file, Arc::clone(&notes));
    Ok(Ready { other: NewEngine { engine, superblock, kind }, notes })
}

/// Records the cache device of each volume, before a block on the device can be dirty.
fn note(
    around: &ServerContext,
    behind: &CurrentEngine,
    settings: &[VolumeSettings],
    superblock: &Superblock,
    path: &Path,
) -> Result<Arc<OriginRecords>, ServeError> {
    let candidates = settings.iter().filter_map(|settings| {
        let volume = behind.volumes.iter().find(|volume| volume.id == settings.volume)?;
        let candidate = Candidate {
            name: &volume.name,
            identity: &volume.origin,
            mode: settings.mode,
            access: if volume.read_only { AccessMode::ReadOnly } else { AccessMode::ReadWrite },
            holdings: Holdings::Nothing,
        };
        Some((volume.id, candidate))
    });
    let candidates: Vec<_> = candidates.collect();
    OriginRecords::begin(&around.state, (superblock, path), &candidates).map(Arc::new)
}
