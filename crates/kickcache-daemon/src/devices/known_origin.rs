//! A file that is to become a cache device, but is recorded as an origin.

use std::path::Path;

use crate::driver::device::identity_of;
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;
use crate::shell_command::ShellCommand;

/// Refuses to format the recorded origin of a volume.
///
/// # Errors
/// [`ServeError::Cache`] if the file is recorded as an origin, or if the record cannot be read.
pub fn check_no_origin(place: &StatePlace, path: &Path) -> Result<(), ServeError> {
    let (Some(store), Ok(identity)) = (place.store(), identity_of(path)) else { return Ok(()) };
    let what = match store.origin(&identity) {
        Ok(None) => return Ok(()),
        Ok(Some(record)) => format!(
            "it is recorded as the origin of {}, which was served with {}; choose another device, or, if that volume is given up",
            record.volume,
            record.cache_path.display()
        ),
        Err(error) => format!(
            "it is unknown whether it is the origin of a volume: {error}, or choose another device, or, if that volume is given up"
        ),
    };
    let format = ShellCommand::new("format").word("--force").path(path).state(place);
    let what = format!("{what}, format it explicitly ({format}), which destroys its contents");
    Err(ServeError::Cache { path: path.into(), what })
}
