//! Block devices as the kernel names them in /sys and /proc.

use std::fs;
use std::path::{Path, PathBuf};

/// The number of a device, as the kernel writes it: `259:0`.
pub fn number(device: u64) -> String {
    format!("{}:{}", libc::major(device), libc::minor(device))
}

/// The folder of a device in /sys.
pub(crate) fn folder(device: u64) -> PathBuf {
    Path::new("/sys/dev/block").join(number(device))
}

/// The file or device that a loop device lies on, from its folder in /sys; nothing if it is no loop device in use.
pub fn loop_file(folder: &Path) -> Option<PathBuf> {
    let path = fs::read_to_string(folder.join("loop/backing_file")).ok()?;
    Some(path.trim_end_matches('\n').into())
}
