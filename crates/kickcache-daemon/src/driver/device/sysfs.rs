//! Block devices as the kernel names them in /sys and /proc.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub const BLOCK_DEVICES: &str = "/sys/block";

/// The number of a device, as the kernel writes it: `259:0`.
pub fn number(device: u64) -> String {
    format!("{}:{}", libc::major(device), libc::minor(device))
}

pub(crate) fn folder(device: u64) -> PathBuf {
    Path::new("/sys/dev/block").join(number(device))
}

/// The file or device below a loop device, from its folder in /sys; `None` if it is no loop device in use.
pub fn loop_file(folder: &Path) -> Option<PathBuf> {
    let path = fs::read(folder.join("loop/backing_file")).ok()?;
    Some(OsStr::from_bytes(path.strip_suffix(b"\n").unwrap_or(&path)).into())
}

/// The name of a loop device on a file, by any of the file's names; `blocks` is [`BLOCK_DEVICES`].
pub fn loop_device_on(file: &Metadata, blocks: &Path) -> Option<String> {
    let is_it = |other: &Path| {
        other.metadata().is_ok_and(|other| (other.dev(), other.ino()) == (file.dev(), file.ino()))
    };
    let devices = fs::read_dir(blocks).ok()?.flatten();
    let mut above = devices.filter(|device| loop_file(&device.path()).is_some_and(|below| is_it(&below)));
    above.next().map(|device| device.file_name().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backing_file_of_a_loop_device_has_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("disk"), "x").unwrap();
        fs::write(path("other"), "x").unwrap();
        fs::hard_link(path("disk"), path("link")).unwrap();
        fs::create_dir_all(path("sys/loop7/loop")).unwrap();
        fs::create_dir_all(path("sys/vda")).unwrap();
        fs::write(path("sys/loop7/loop/backing_file"), format!("{}\n", path("disk").display())).unwrap();
        let above = |name: &str| loop_device_on(&path(name).metadata().unwrap(), &path("sys"));
        assert_eq!(["disk", "link"].map(above), [Some("loop7".into()), Some("loop7".into())]);
        assert_eq!(above("other"), None);
    }
}
