//! A state directory that others can write.

use std::path::Path;

use kickcache_daemon::driver::rights::trusted_path::check_private;

/// Warns of a state directory that others can write: they decide which cache device counts as current, and which origin it has.
pub(super) fn tell_shared_state(directory: Option<&Path>) {
    if let Some(Err(others)) = directory.filter(|directory| directory.exists()).map(check_private) {
        tracing::warn!(
            event = "state_shared",
            "{others}: its records decide which cache device counts and may be forged; make it, and each directory above it, writable \
             for its user alone. `kickcache drain --cache` takes no origin from it"
        );
    }
}
