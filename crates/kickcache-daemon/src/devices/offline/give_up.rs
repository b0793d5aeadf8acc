//! Giving a cache device up.

use std::path::Path;

use kickcache_engine::units::ByteExtent;

use crate::devices::missed_device::lose_dirty;
use crate::devices::offline::change::{DirtyBlocks, detach};
use crate::devices::offline::contents::{Contents, read};
use crate::devices::offline::error::OfflineError;
use crate::devices::offline::metadata::superblock;
use crate::devices::offline::offline_device::OfflineDevice;
use crate::devices::offline::stale_blocks::{Need, need};
use crate::devices::state::uuid_text;
use crate::serve::config::StatePlace;

/// The result of giving a cache device up.
#[derive(Debug)]
pub struct AbandonedDevice {
    /// Dirty extents that are lost, by the name of their volume; empty if the device could not be read.
    pub lost: Vec<(String, Vec<ByteExtent>)>,
    /// The volumes with dropped dirty blocks which, by the records, the origins have too.
    pub dropped: Vec<String>,
    /// Why the device could not record this; `None` if it could.
    pub untold: Option<OfflineError>,
}

/// Removes volumes from a cache device, as far as it can still be read and written.
///
/// # Errors
/// If the device is in use; and, unless dirty blocks may be lost, if it is unreadable, or has dirty blocks of
/// these volumes that may be needed.
pub fn leave(
    path: &Path,
    names: &[&str],
    dirty: DirtyBlocks,
    state: &StatePlace,
) -> Result<AbandonedDevice, OfflineError> {
    let held = match held(path, names, state) {
        Ok(held) => held,
        Err(error @ OfflineError::Busy { .. }) => return Err(error),
        Err(error) if dirty == DirtyBlocks::Keep => {
            return Err(unknown(path, error));
        }
        Err(error) => {
            return Ok(AbandonedDevice { lost: Vec::new(), dropped: Vec::new(), untold: Some(error) });
        }
    };
    if let (Some(volume), DirtyBlocks::Keep) = (held.iter().find(|volume| volume.is_needed()), dirty) {
        return Err(OfflineError::dirty(
            state,
            path,
            &volume.name,
            volume.dirty.clone(),
            lose_dirty(&volume.name),
        ));
    }
    let leave = |volume: &VolumeExtents| {
        let dirty = if volume.need == Need::None { DirtyBlocks::Lose } else { dirty };
        detach(path, &volume.name, dirty, state).map(drop)
    };
    let untold = held.iter().try_for_each(leave).err();
    let dirty = held.into_iter().filter(|volume| !volume.dirty.is_empty());
    let (lost, dropped): (Vec<VolumeExtents>, Vec<VolumeExtents>) = dirty.partition(VolumeExtents::is_needed);
    Ok(AbandonedDevice {
        lost: lost.into_iter().map(|volume| (volume.name, volume.dirty)).collect(),
        dropped: dropped.into_iter().map(|volume| volume.name).collect(),
        untold,
    })
}

/// A volume with dirty blocks on a device that its origin may lack.
pub struct Needed {
    pub name: String,
    pub dirty: Vec<ByteExtent>,
}

/// The volumes with dirty blocks on the device which their origins may lack.
///
/// # Errors
/// If the device is in use or unreadable.
pub fn needed(path: &Path, names: &[&str], state: &StatePlace) -> Result<Vec<Needed>, OfflineError> {
    let held = held(path, names, state).map_err(|error| match error {
        OfflineError::Busy { .. } => error,
        error => unknown(path, error),
    })?;
    Ok(held
        .into_iter()
        .filter(VolumeExtents::is_needed)
        .map(|volume| Needed { name: volume.name, dirty: volume.dirty })
        .collect())
}

/// The uuid of a cache device, if it can be read and is not in use.
pub fn uuid_of(path: &Path) -> Option<String> {
    superblock(&OfflineDevice::open(path).ok()?).ok().map(|superblock| uuid_text(superblock.uuid))
}

fn unknown(path: &Path, error: OfflineError) -> OfflineError {
    OfflineError::Unknown { path: path.into(), lose: lose_dirty("VOLUME"), source: Box::new(error) }
}

struct VolumeExtents {
    name: String,
    dirty: Vec<ByteExtent>,
    need: Need,
}

impl VolumeExtents {
    fn is_needed(&self) -> bool {
        !self.dirty.is_empty() && self.need == Need::Possible
    }
}

fn held(path: &Path, names: &[&str], state: &StatePlace) -> Result<Vec<VolumeExtents>, OfflineError> {
    let Contents { superblock, dirty, .. } = read(path)?;
    let known = superblock.volumes.iter().zip(dirty);
    let wanted = known.filter(|(record, _)| names.contains(&record.name.as_str()));
    let held = wanted.map(|(record, (_, dirty))| VolumeExtents {
        name: record.name.clone(),
        dirty,
        need: need(state, &superblock, &record.origin_identity),
    });
    Ok(held.collect())
}
