//! Whether a device or file that a bench or a calibration would write to is in use. `--destroy-data` permits
//! the loss of data, not the use of a device that is in use.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::bail;
use kickcache_daemon::driver::device::sysfs::{BLOCK_DEVICES, loop_device_on};
use kickcache_daemon::driver::device::{AccessMode, BlockFile, Emptiness, OpenError};
use kickcache_daemon::opener::{Opener, in_brackets};
use rustix::fs::OFlags;

use crate::bench::place::Place;

/// Fails if the kernel uses a disk or a file, another program has locked it, or it cannot be opened for writes.
/// Directories and exports are not checked.
///
/// # Errors
/// A sentence with the reason, and the user if that is known.
pub(crate) fn check_unused(place: &Place) -> anyhow::Result<()> {
    let Place::Disk(path) = place else { return Ok(()) };
    let metadata = path.metadata()?;
    if metadata.file_type().is_block_device() {
        let flags = i32::try_from(OFlags::EXCL.bits()).unwrap_or(0);
        let opened = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
        if opened.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy) {
            let by = in_brackets(Opener::of_any(&[path]).as_ref());
            bail!(
                "{} is in use{by}: mounted, or a part of another device; name another target",
                path.display()
            );
        }
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if let Some(user) = user_of(path, Path::new(BLOCK_DEVICES), &swaps)? {
        bail!("{} is in use: it is {user}; name another target", path.display());
    }
    // Locks are checked in the same way as by a daemon, also on the file below a loop device.
    match BlockFile::open(path, AccessMode::ReadWrite, Emptiness::Allowed) {
        Ok(_) => Ok(()),
        Err(OpenError::Busy { by, .. }) => bail!(
            "{} is locked by another program{}, as by a daemon that serves it; name another target",
            path.display(),
            in_brackets(by.as_ref())
        ),
        Err(OpenError::ReadOnly { user, source, .. }) => bail!(
            "{} cannot be written by {user} ({source}); make it writable, or leave out --destroy-data",
            path.display()
        ),
        Err(error) => Err(error.into()),
    }
}

/// The kernel's use of a file as swap or below a loop device, in words; `None` if there is neither.
fn user_of(path: &Path, blocks: &Path, swaps: &str) -> anyhow::Result<Option<String>> {
    let metadata = path.metadata()?;
    let identity = (metadata.dev(), metadata.ino());
    let is_it = |other: &Path| other.metadata().is_ok_and(|other| (other.dev(), other.ino()) == identity);
    // The first line is a heading.
    let mut swap = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    if swap.any(|name| is_it(Path::new(&name.replace("\\040", " ")))) {
        return Ok(Some("swap".into()));
    }
    Ok(loop_device_on(&metadata, blocks).map(|above| format!("the backing file of the device {above}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backing_file_of_a_loop_device_is_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("disk"), "x").unwrap();
        fs::write(path("other"), "x").unwrap();
        fs::hard_link(path("disk"), path("link")).unwrap();
        fs::create_dir_all(path("sys/loop7/loop")).unwrap();
        fs::create_dir_all(path("sys/vda")).unwrap();
        fs::write(path("sys/loop7/loop/backing_file"), format!("{}\n", path("disk").display())).unwrap();
        let user = |name: &str| user_of(&path(name), &path("sys"), "").unwrap();
        assert_eq!(user("disk").as_deref(), Some("the backing file of the device loop7"));
        assert_eq!(user("link"), user("disk"));
        assert_eq!(user("other"), None);
    }

    #[test]
    fn a_swap_file_is_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("swap");
        fs::write(&path, "x").unwrap();
        let swaps = |name: &str| format!("Filename Type Size Used Priority\n{name} file 1024 0 -2\n");
        let user = |swaps: &str| user_of(&path, Path::new("/nonexistent"), swaps).unwrap();
        assert_eq!(user(&swaps(path.to_str().unwrap())).as_deref(), Some("swap"));
        assert_eq!(user(&swaps("/other")), None);
    }

    #[test]
    fn a_file_that_a_daemon_has_locked_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let place = Place::Disk(file.path().into());
        check_unused(&place).unwrap();
        file.as_file().try_lock().unwrap();
        let error = check_unused(&place).unwrap_err().to_string();
        assert!(error.contains("is locked by another program"), "{error}");
    }
}
