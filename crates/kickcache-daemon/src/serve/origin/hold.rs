//! An origin that no lock of the system keeps for its daemon is locked in the state directory.

use crate::devices::state::OriginLock;
use crate::opener::Opener;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;

/// Locks an origin with a server against other daemons; `None` for origins without a server, if there is no state
/// directory, or if it has no lock to give, which is logged.
///
/// # Errors
/// [`ServeError::Volume`] if it is served already, or [`ServeError::Origin`].
pub(crate) fn hold(spec: &VolumeSpec, state: &StatePlace) -> Result<Option<OriginLock>, ServeError> {
    if !spec.origin.has_server() {
        return Ok(None);
    }
    let refuse = |source| ServeError::Origin { name: spec.name.clone(), source };
    lock(spec, &spec.origin.identity().map_err(refuse)?, "", state)
}

/// As [`hold`], with another name of an origin with a server.
///
/// # Errors
/// [`ServeError::Volume`] if it is served already.
pub(crate) fn hold_too(
    spec: &VolumeSpec,
    name: &str,
    state: &StatePlace,
) -> Result<Option<OriginLock>, ServeError> {
    lock(spec, name, &format!(" is {name}, too, and"), state)
}

fn lock(
    spec: &VolumeSpec,
    identity: &str,
    known_as: &str,
    state: &StatePlace,
) -> Result<Option<OriginLock>, ServeError> {
    let (Some(store), origin) = (state.store(), &spec.origin) else { return Ok(None) };
    match store.lock_origin(identity, spec.access) {
        Ok(Some(lock)) => Ok(Some(lock)),
        Ok(None) => {
            let path = store.origin_lock_path(identity);
            let server = match Opener::of_any(&[&path]) {
                Some(opener) => format!("another kickcache ({opener})"),
                None => format!(
                    "another kickcache, or twice by this one (find the process with: fuser {})",
                    path.display()
                ),
            };
            let what = format!(
                "its origin {origin}{known_as} is served by {server}; stop that one, or give another origin"
            );
            Err(ServeError::Volume { name: spec.name.clone(), what })
        }
        // Serving without a lock is better than not serving.
        Err(error) => {
            tracing::warn!(event = "lock_unavailable", "{error}: take care to serve {origin} once only");
            Ok(None)
        }
    }
}
