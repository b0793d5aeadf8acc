//! A cache device is left out while its volumes are served.

use kickcache_engine::config::{EngineSettings, Service, VolumeSettings};
use kickcache_engine::engine::Engine;
use kickcache_engine::format::geometry::DEVICE_SIZE_MIN;
use kickcache_engine::format::superblock::{Superblock, VolumeRecord};

use crate::driver::executor::Medium;
use crate::driver::null_device::NullDevice;
use crate::operations::engine_exchange::exchange;
use crate::operations::held_superblock::{HeldSuperblock, LeaseWait};
use crate::operations::standby_engine::{Recovered, StandbyParts};
use crate::plan::removal::DirtyFate;
use crate::serve::control::NamedSettings;
use crate::serve::error::ServeError;
use crate::serve::server::{ServerContext, ServerHandle};
use crate::serve::verbs::exchange::{
    CacheUse, CurrentEngine, NewEngine, NewEngineKind, OldDevices, UncleanBlocks,
};
use crate::serve::verbs::superblock_lease::SuperblockWriter;
use crate::serve::volume_info::VolumeInfo;

/// Refuses to leave the device out if there is an obstacle; returns the dirty and unflushed blocks.
///
/// # Errors
/// The obstacle, or [`ServeError::Stopped`].
pub(crate) fn check(server: &ServerHandle, fate: DirtyFate) -> Result<Vec<UncleanBlocks>, ServeError> {
    let behind = server.in_turn(|verbs, _| verbs.current_engine())??;
    refuse(&server.context(), &behind, fate)?;
    Ok(behind.unclean)
}

fn refuse(around: &ServerContext, behind: &CurrentEngine, fate: DirtyFate) -> Result<(), ServeError> {
    if behind.cache == CacheUse::None {
        let what =
            "its volumes are served without a cache already; `kickcache replace` takes a new one in".into();
        return Err(ServeError::Cache { path: around.cache.clone(), what });
    }
    let orphan = behind.unclean.iter().find(|unclean| !unclean.is_served);
    if let (Some(UncleanBlocks { volume, blocks, .. }), DirtyFate::WrittenBack) = (orphan, fate) {
        let what = format!(
            "{blocks} of its blocks are dirty on {}, and it is not served, so that they are not written \
             back; serve it (`kickcache add`), or use --abandon-dirty",
            around.cache.display()
        );
        return Err(ServeError::Volume { name: volume.clone(), what });
    }
    Ok(())
}

/// Replaces the engine by one without a cache and closes the cache device; returns the blocks given up.
///
/// # Errors
/// If the engine cannot be replaced.
pub(crate) fn leave_out(
    server: &ServerHandle,
    fate: DirtyFate,
    settings: &[NamedSettings],
) -> Result<Vec<UncleanBlocks>, ServeError> {
    let (around, notes) = (&server.context(), server.notes());
    let held = HeldSuperblock::wait(server, SuperblockWriter::Exchange, LeaseWait::Short)?;
    let behind = server.in_turn(|verbs, _| verbs.current_engine())??;
    refuse(around, &behind, fate)?;
    let CachelessEngine { engine, superblock } = without_cache(around, &behind, settings)?;
    let other = NewEngine { engine, superblock, kind: NewEngineKind::WithoutCache(fate) };
    let OldDevices { lost, _cache: cache } = exchange(server, other)?;
    drop(held);
    if let Some(Err(error)) = notes.map(|notes| notes.leave_out()) {
        tracing::warn!(
            event = "record_failed",
            "the state directory does not record that the cache device is left out, which the device itself does: {error}"
        );
    }
    // Closes the device before the result is reported, as the user may then remove the drive.
    drop(cache);
    server.keep_notes(None);
    Ok(lost)
}

struct CachelessEngine {
    engine: Engine,
    superblock: Superblock,
}

fn without_cache(
    around: &ServerContext,
    behind: &CurrentEngine,
    settings: &[NamedSettings],
) -> Result<CachelessEngine, ServeError> {
    let path = &around.cache;
    let refuse = |source| ServeError::Engine { path: path.clone(), source };
    let mut superblock = Superblock::new([0; 16], DEVICE_SIZE_MIN).map_err(refuse)?;
    superblock.volumes = records(behind);
    let volumes = volume_settings(behind, settings)?;
    let aside = StandbyParts {
        clock: behind.clock.clone(),
        io_engine: behind.io_engine,
        settings: EngineSettings { service: Service::Out, ..around.engine },
        superblock: &superblock,
        volumes: &volumes,
        path,
    };
    let Recovered { engine, .. } = aside.recover(Medium::Queued(Box::new(NullDevice::default())))?;
    Ok(CachelessEngine { engine, superblock })
}

pub(crate) fn records(behind: &CurrentEngine) -> Vec<VolumeRecord> {
    let served = behind.superblock.volumes.iter().filter_map(|record| {
        let volume = behind.volumes.iter().find(|volume| volume.id == record.id)?;
        Some(VolumeRecord { origin_size: volume.size, ..record.clone() })
    });
    served.collect()
}

/// The new settings of the served volumes.
///
/// # Errors
/// If a served volume has none.
pub(crate) fn volume_settings(
    behind: &CurrentEngine,
    settings: &[NamedSettings],
) -> Result<Vec<VolumeSettings>, ServeError> {
    let of = |volume: &VolumeInfo| {
        let named = settings.iter().find(|named| named.volume == volume.name);
        let named = named.ok_or_else(|| ServeError::Volume {
            name: volume.name.clone(),
            what: "it was added meanwhile; try again".into(),
        })?;
        Ok(VolumeSettings { volume: volume.id, ..named.settings })
    };
    behind.volumes.iter().map(of).collect()
}
