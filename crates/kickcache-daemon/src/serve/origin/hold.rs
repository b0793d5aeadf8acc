//! An origin that no lock of the system keeps for its daemon is locked in the state directory.

use crate::plan::origin_source::OriginSource;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;
use crate::state::OriginLock;

/// Keeps others from serving the export; `None` if it is a device, which is locked itself, or if there is no state directory.
///
/// # Errors
/// [`ServeError::Volume`] if somebody else serves it.
pub(crate) fn hold(spec: &VolumeSpec, state: &StatePlace) -> Result<Option<OriginLock>, ServeError> {
    let (OriginSource::Nbd(uri), Some(store)) = (&spec.origin, state.store()) else { return Ok(None) };
    let identity = uri.identity();
    match store.lock_origin(&identity, spec.access) {
        Ok(Some(lock)) => Ok(Some(lock)),
        Ok(None) => {
            let path = store.origin_lock_path(&identity);
            let what = format!(
                "its origin {uri} is served by another kickcache, or twice by this one (who holds it: fuser {}); stop that one, \
                 or give another origin",
                path.display()
            );
            Err(ServeError::Volume { name: spec.name.clone(), what })
        }
        // Serving without a lock is better than not serving; a full disk is told once more by the notes.
        Err(error) => {
            tracing::warn!("{error}: take care to serve {uri} once only");
            Ok(None)
        }
    }
}
