//! Gives records to the owner of the state directory.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

/// Gives a new file to the owner of its directory if this process is root.
pub(super) fn keep_owner(made: &File, directory: &Path) -> io::Result<()> {
    let owner = directory.metadata()?;
    if owner.uid() == 0 || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    fchown(made, Some(owner.uid()), Some(owner.gid()))
}
