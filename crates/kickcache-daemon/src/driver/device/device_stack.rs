//! The block devices below a path.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::driver::device::sysfs::{loop_file, number};

/// The places of the kernel's information on stacked devices.
pub struct DeviceStack {
    pub sys: PathBuf,
    pub mounts: PathBuf,
}

impl DeviceStack {
    pub fn of_host() -> DeviceStack {
        DeviceStack { sys: "/sys".into(), mounts: "/proc/self/mountinfo".into() }
    }

    /// The whole devices that a path is, or is on, as folders in sysfs; a file system without a device is named by its
    /// device number. A file that does not exist counts as its nearest folder that exists.
    pub(crate) fn devices_of(&self, path: &Path) -> BTreeSet<PathBuf> {
        self.number_of(path).map_or_else(BTreeSet::new, |number| self.devices_under(number))
    }

    /// The devices of [`DeviceStack::devices_of`] without another device below.
    pub fn disks_of(&self, path: &Path) -> BTreeSet<PathBuf> {
        self.number_of(path).map_or_else(BTreeSet::new, |number| self.disks_under(number))
    }

    /// The lowest whole devices that a device is on top of, or the device itself.
    pub fn disks_under(&self, number: String) -> BTreeSet<PathBuf> {
        let is_disk = |device: &PathBuf| self.below(device).is_empty();
        self.devices_under(number).into_iter().filter(is_disk).collect()
    }

    /// The whole devices that a device is, or is on top of.
    pub(crate) fn devices_under(&self, number: String) -> BTreeSet<PathBuf> {
        let (mut left, mut found) = (vec![number], BTreeSet::new());
        while let Some(number) = left.pop() {
            match self.whole_device(&number) {
                Some(device) if found.insert(device.clone()) => left.extend(self.below(&device)),
                Some(_) => {}
                None => drop(found.insert(number.into())),
            }
        }
        found
    }

    /// The folder of a device; for a partition, the folder of the whole device.
    fn whole_device(&self, number: &str) -> Option<PathBuf> {
        let place = fs::canonicalize(self.sys.join("dev/block").join(number)).ok()?;
        let is_part = place.join("partition").exists();
        if is_part { place.parent().map(Path::to_path_buf) } else { Some(place) }
    }

    fn below(&self, device: &Path) -> Vec<String> {
        let slaves = fs::read_dir(device.join("slaves")).into_iter().flatten().flatten();
        let mut numbers: Vec<String> =
            slaves.filter_map(|slave| fs::read_to_string(slave.path().join("dev")).ok()).collect();
        numbers.iter_mut().for_each(|number| *number = number.trim().to_owned());
        numbers.extend(loop_file(device).and_then(|file| self.number_of(&file)));
        numbers
    }

    /// The number of a block device, or of the block device or file system that a file is on.
    fn number_of(&self, path: &Path) -> Option<String> {
        let path = existing(path)?;
        let found = fs::metadata(&path).ok()?;
        if found.file_type().is_block_device() {
            return Some(number(found.rdev()));
        }
        if libc::major(found.dev()) != 0 {
            return Some(number(found.dev()));
        }
        let source = fs::canonicalize(path).ok().and_then(|path| self.source_of(&path));
        source.or_else(|| Some(number(found.dev())))
    }

    fn source_of(&self, path: &Path) -> Option<String> {
        let found = fs::metadata(self.mount_source(path)?).ok()?;
        found.file_type().is_block_device().then(|| number(found.rdev()))
    }

    fn mount_source(&self, path: &Path) -> Option<String> {
        let mounts = fs::read_to_string(&self.mounts).ok()?;
        let mounts = mounts.lines().filter_map(|line| {
            let place = line.split(' ').nth(4)?;
            let source = line.split_once(" - ")?.1.split(' ').nth(1)?;
            Some((place, source)).filter(|_| path.starts_with(place))
        });
        // If several file systems are mounted at one place, the last one hides the others.
        mounts.max_by_key(|(place, _)| place.len()).map(|(_, source)| source.to_owned())
    }
}

fn existing(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    path.ancestors().find(|path| path.exists()).map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deviceless_file_system_is_on_its_mount_source() {
        let folder = tempfile::tempdir().unwrap();
        let stack = DeviceStack { sys: folder.path().into(), mounts: folder.path().join("mountinfo") };
        let mounts = "1 0 8:1 / / rw - ext4 /dev/null rw\n2 1 0:44 / /srv/a rw shared:3 - btrfs /dev/loop-control rw\n";
        fs::write(&stack.mounts, mounts).unwrap();
        let source = |path: &str| stack.mount_source(Path::new(path));
        assert_eq!(source("/srv/a/file").as_deref(), Some("/dev/loop-control"));
        assert_eq!(source("/srv/ab").as_deref(), Some("/dev/null"));
    }
}
