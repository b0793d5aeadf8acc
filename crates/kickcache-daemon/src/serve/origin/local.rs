//! An origin on this machine: a file or block device.

use std::path::Path;

use kickcache_engine::units::BLOCK_SIZE;

use crate::driver::device::{AccessMode, BlockFile, Emptiness, OpenError};
use crate::plan::origin_claims::OriginClaims;
use crate::serve::error::ServeError;

/// Opens a local origin, reads its first block and flushes it once.
///
/// # Errors
/// [`ServeError::Origin`], or [`ServeError::Volume`] if no volume can have its size.
pub(super) fn open(
    volume: &str,
    path: &Path,
    access: AccessMode,
    claims: OriginClaims,
) -> Result<BlockFile, ServeError> {
    let mut file = open_file(volume, path, access)?;
    file.probe().map_err(|source| ServeError::Origin { name: volume.into(), source })?;
    see_to_flush(volume, &mut file, claims)?;
    Ok(file)
}

/// Refuses an origin that cannot be flushed, unless the user accepts it.
fn see_to_flush(name: &str, origin: &mut BlockFile, claims: OriginClaims) -> Result<(), ServeError> {
    match origin.probe_flush() {
        Ok(()) => Ok(()),
        Err(source) if !claims.flushless => Err(ServeError::Origin { name: name.into(), source }),
        Err(_) => {
            let path = origin.path().display();
            tracing::warn!(
                event = "origin_not_flushable",
                "the origin of {name}, {path}, cannot be flushed: when its power fails, writes may be \
                 lost that were reported as durable"
            );
            origin.assume_flushed();
            Ok(())
        }
    }
}

fn open_file(name: &str, path: &Path, access: AccessMode) -> Result<BlockFile, ServeError> {
    let opened = BlockFile::open(path, access, Emptiness::Refused);
    let odd = match &opened {
        Ok(file) => Some(file.exact_size()).filter(|size| !size.is_multiple_of(BLOCK_SIZE)),
        Err(OpenError::Empty { found, .. }) => Some(*found),
        Err(_) => None,
    };
    let Some(found) = odd else {
        return opened.map_err(|source| ServeError::Origin { name: name.into(), source });
    };
    let wanted = found.max(1).next_multiple_of(BLOCK_SIZE);
    let what = format!(
        "its origin {} has {found} bytes, and a volume has a multiple of 4096; extend it (truncate -s {wanted}), or give \
         another one",
        path.display()
    );
    Err(ServeError::Volume { name: name.into(), what })
}
