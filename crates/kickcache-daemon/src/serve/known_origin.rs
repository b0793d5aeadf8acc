//! A file that shall become a cache device, and is known as an origin: blank as it may be, it is somebody's disk.

use std::path::Path;

use crate::driver::device::identity_of;
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;
use crate::state::StateStore;

/// Refuses to format what is noted as the origin of a volume. What does not exist is nobody's.
///
/// # Errors
/// [`ServeError::Cache`], whose sentence names the volume and its cache device.
pub fn check_no_origin(place: &StatePlace, path: &Path) -> Result<(), ServeError> {
    let (StatePlace::Directory(directory), Ok(identity)) = (place, identity_of(path)) else { return Ok(()) };
    // A note that cannot be read is told where origins are opened.
    let Some(record) = StateStore::new(directory).origin(&identity).ok().flatten() else { return Ok(()) };
    let what = format!(
        "it is noted as the origin of {}, which was served with {}; choose another one, or, if that volume is given up, say \
         so (kickcache format --force), which destroys what is there",
        record.volume,
        record.cache_path.display()
    );
    Err(ServeError::Cache { path: path.into(), what })
}
