//! Leaving a cache device: its volumes will be served from their origins alone, so what it holds of them must go.

use std::path::Path;

use kickcache_engine::units::ByteExtent;

use crate::offline::change::{DirtyBlocks, detach};
use crate::offline::contents::read;
use crate::offline::error::OfflineError;
use crate::offline::metadata::superblock;
use crate::offline::source::Source;
use crate::state::uuid_text;

/// A cache device that was left.
#[derive(Debug)]
pub struct Left {
    /// Dirty extents that are lost, by the name of their volume.
    pub lost: Vec<(String, Vec<ByteExtent>)>,
    /// Why the device does not know that it was left, if it does not: what it holds is old, and it must be formatted
    /// before it is used again.
    pub untold: Option<OfflineError>,
}

/// Removes volumes from a cache device, as far as it can still be read and written.
///
/// # Errors
/// If the device is in use; and, unless dirty blocks may be lost, if it holds any of these volumes, or cannot be read,
/// so that nobody knows.
pub fn leave(path: &Path, names: &[&str], dirty: DirtyBlocks) -> Result<Left, OfflineError> {
    let held = match held(path, names) {
        Ok(held) => held,
        Err(error @ OfflineError::Busy(_)) => return Err(error),
        Err(error) if dirty == DirtyBlocks::Keep => {
            return Err(OfflineError::Unknown { path: path.into(), source: Box::new(error) });
        }
        Err(error) => return Ok(Left { lost: Vec::new(), untold: Some(error) }),
    };
    for (name, extents) in &held {
        if !extents.is_empty() && dirty == DirtyBlocks::Keep {
            return Err(OfflineError::dirty(path, name, extents.clone()));
        }
    }
    let detached = held.iter().try_for_each(|(name, _)| detach(path, name, dirty).map(drop));
    Ok(Left { lost: held.into_iter().filter(|(_, lost)| !lost.is_empty()).collect(), untold: detached.err() })
}

/// The volumes among these that have dirty blocks on the device, with their extents.
///
/// # Errors
/// If the device is in use, or cannot be read, so that nobody knows.
pub fn needed(path: &Path, names: &[&str]) -> Result<Vec<(String, Vec<ByteExtent>)>, OfflineError> {
    let held = held(path, names).map_err(|error| match error {
        OfflineError::Busy(_) => error,
        error => OfflineError::Unknown { path: path.into(), source: Box::new(error) },
    })?;
    Ok(held.into_iter().filter(|(_, extents)| !extents.is_empty()).collect())
}

/// The uuid of a cache device, if it can be read.
pub fn uuid_of(path: &Path) -> Option<String> {
    superblock(&Source::open(path).ok()?).ok().map(|superblock| uuid_text(superblock.uuid))
}

/// The volumes that the device knows among these, with their dirty extents.
fn held(path: &Path, names: &[&str]) -> Result<Vec<(String, Vec<ByteExtent>)>, OfflineError> {
    let contents = read(path)?;
    let known = contents.superblock.volumes.iter().zip(contents.dirty);
    let wanted = known.filter(|(record, _)| names.contains(&record.name.as_str()));
    Ok(wanted.map(|(record, (_, extents))| (record.name.clone(), extents)).collect())
}
