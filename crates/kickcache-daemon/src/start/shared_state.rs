//! A state directory that other users can write.

use crate::driver::rights::trusted_path::check_private;
use crate::serve::config::StatePlace;
use crate::whole_path::whole_path;

/// Warns of a state directory that other users can write: its records decide which cache device is current, and which origin it has.
pub(crate) fn tell_shared_state(state: &StatePlace) {
    let StatePlace::Directory(directory) = state else { return };
    let directory = whole_path(directory);
    if !directory.exists() {
        return;
    }
    if let Err(others) = check_private(&directory) {
        tracing::warn!(
            event = "state_shared",
            "{others}: its records decide which cache device is current, and may be forged; make it, and each directory above it, \
             writable for its user alone. Until then a drain without a daemon needs the name of the origin"
        );
    }
}
