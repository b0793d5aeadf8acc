//! The users of a block device of this host.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::device_user::DeviceUser;
use super::exclusive::claimant;
use crate::driver::device::sysfs::{loop_file, number};

/// The user of a block device or of its partitions, if a user is found.
pub fn user_of(device: &Path) -> Option<DeviceUser> {
    known_user_of(device).or_else(|| claimant(device))
}

/// As [`user_of`], but only users that are visible without an open of the device.
pub(crate) fn known_user_of(device: &Path) -> Option<DeviceUser> {
    let name = device.file_name()?.to_str()?;
    Host { proc: "/proc".into(), sys: "/sys".into() }.user_of(name)
}

/// The process that has a character device open; the server of a ublk device opens it before the start.
pub(crate) fn opener_of(node: &Path) -> Option<DeviceUser> {
    let found = fs::metadata(node).ok().filter(|found| found.file_type().is_char_device())?;
    let node = Part { name: String::new(), number: number(found.rdev()) };
    Host { proc: "/proc".into(), sys: "/sys".into() }.opener(&[node])
}

struct Host {
    proc: PathBuf,
    sys: PathBuf,
}

struct Part {
    name: String,
    /// Major and minor number, as the kernel writes them: `259:0`.
    number: String,
}

impl Host {
    fn user_of(&self, name: &str) -> Option<DeviceUser> {
        let parts = self.parts(name);
        let mounts = self.mount_tables();
        let by_part = |part: &Part| {
            let mounted = mounts.iter().find_map(|table| mounted(table, &part.number));
            let on_top = || self.holder(part).or_else(|| self.loop_device(part));
            mounted.or_else(|| self.swap(part)).or_else(on_top).or_else(|| self.file_system(part))
        };
        parts.iter().find_map(by_part).or_else(|| self.opener(&parts))
    }

    fn parts(&self, name: &str) -> Vec<Part> {
        let folder = self.sys.join("class/block").join(name);
        let below = fs::read_dir(&folder).into_iter().flatten().flatten();
        let below = below.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let partitions = below.filter(|entry| folder.join(entry).join("partition").exists());
        let part = |name: String, folder: &Path| {
            let number = fs::read_to_string(folder.join("dev")).ok()?.trim().to_owned();
            Some(Part { name, number })
        };
        let whole = part(name.into(), &folder);
        whole
            .into_iter()
            .chain(partitions.filter_map(|name| part(name.clone(), &folder.join(name))))
            .collect()
    }

    /// The mount tables of the processes' mount namespaces, first that of this process.
    fn mount_tables(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let ids = self.process_ids().map(|id| id.to_string());
        let mut tables = Vec::new();
        for id in std::iter::once("self".to_owned()).chain(ids) {
            let process = self.proc.join(id);
            let is_new = fs::read_link(process.join("ns/mnt")).map_or(true, |space| seen.insert(space));
            if is_new {
                tables.extend(fs::read_to_string(process.join("mountinfo")));
            }
        }
        tables
    }

    fn swap(&self, part: &Part) -> Option<DeviceUser> {
        let swaps = fs::read_to_string(self.proc.join("swaps")).ok()?;
        let mut paths =
            swaps.lines().filter_map(|line| Path::new(line.split_whitespace().next()?).file_name());
        paths.any(|name| name == part.name.as_str()).then(|| DeviceUser::Swap(part.name.clone()))
    }

    fn holder(&self, part: &Part) -> Option<DeviceUser> {
        let holders = self.sys.join("class/block").join(&part.name).join("holders");
        let holder = fs::read_dir(holders).ok()?.next()?.ok()?;
        Some(DeviceUser::Device(holder.file_name().to_string_lossy().into()))
    }

    /// A loop device is not listed as a holder of the device below it.
    fn loop_device(&self, part: &Part) -> Option<DeviceUser> {
        let devices = fs::read_dir(self.sys.join("class/block")).ok()?.flatten();
        let stands_on_it = |device: &PathBuf| {
            loop_file(device).is_some_and(|file| file == Path::new("/dev").join(&part.name))
        };
        let device = devices.map(|entry| entry.path()).find(stands_on_it)?;
        Some(DeviceUser::Device(device.file_name()?.to_string_lossy().into()))
    }

    /// A file system that is in no mount table any more: it was unmounted lazily.
    fn file_system(&self, part: &Part) -> Option<DeviceUser> {
        let kinds = fs::read_dir(self.sys.join("fs")).ok()?.flatten();
        let kind = kinds.map(|kind| kind.path()).find(|kind| kind.join(&part.name).exists())?;
        Some(DeviceUser::FileSystem(kind.file_name()?.to_string_lossy().into()))
    }

    fn opener(&self, parts: &[Part]) -> Option<DeviceUser> {
        let is_it = |path: &Path| {
            fs::metadata(path).is_ok_and(|found| {
                let number = number(found.rdev());
                parts.iter().any(|part| part.number == number)
            })
        };
        let has_open = |id: &u32| {
            let descriptors = fs::read_dir(self.proc.join(id.to_string()).join("fd"));
            descriptors.is_ok_and(|all| all.flatten().any(|entry| is_it(&entry.path())))
        };
        let id = self.process_ids().find(has_open)?;
        let name = fs::read_to_string(self.proc.join(id.to_string()).join("comm")).unwrap_or_default();
        Some(DeviceUser::Process(id, name.trim().into()))
    }

    fn process_ids(&self) -> impl Iterator<Item = u32> {
        let entries = fs::read_dir(&self.proc).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
    }
}

fn mounted(table: &str, number: &str) -> Option<DeviceUser> {
    let line = table.lines().find(|line| line.split(' ').nth(2) == Some(number))?;
    Some(DeviceUser::Mount(line.split(' ').nth(4)?.into()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A host with a device 259:0 and its partition 259:1, without users.
    struct Fake {
        folder: tempfile::TempDir,
    }

    impl Fake {
        fn new() -> Fake {
            let fake = Fake { folder: tempfile::tempdir().unwrap() };
            fake.write("sys/class/block/ublkb0/dev", "259:0\n");
            fake.write("sys/class/block/ublkb0/ublkb0p1/dev", "259:1\n");
            fake.write("sys/class/block/ublkb0/ublkb0p1/partition", "1\n");
            fake.write("sys/class/block/ublkb0/queue/dev", "not a partition");
            fake.write("proc/self/mountinfo", "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
            fake.write("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n");
            fake.write("proc/77/comm", "fio\n");
            fake
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn user(&self) -> Option<String> {
            let host = Host { proc: self.folder.path().join("proc"), sys: self.folder.path().join("sys") };
            host.user_of("ublkb0").map(|user| user.to_string())
        }
    }

    #[test]
    fn a_device_without_holders_is_unused() {
        assert_eq!(Fake::new().user(), None);
    }

    #[test]
    fn a_mounted_file_system_uses_its_device() {
        let fake = Fake::new();
        fake.write("proc/self/mountinfo", "22 21 259:0 / /srv/data rw - ext4 /dev/ublkb0 rw\n");
        assert_eq!(fake.user().unwrap(), "the file system mounted on /srv/data");
    }

    #[test]
    fn a_file_system_on_a_partition_uses_the_device_too() {
        let fake = Fake::new();
        fake.write("proc/self/mountinfo", "22 21 259:1 / /srv/part rw - ext4 /dev/ublkb0p1 rw\n");
        assert_eq!(fake.user().unwrap(), "the file system mounted on /srv/part");
    }

    #[test]
    fn so_does_one_that_only_a_container_sees() {
        let fake = Fake::new();
        fake.write("proc/77/mountinfo", "22 21 259:0 / /inside rw - ext4 /dev/ublkb0 rw\n");
        assert_eq!(fake.user().unwrap(), "the file system mounted on /inside");
    }

    #[test]
    fn a_file_system_that_was_unmounted_lazily_uses_it_still() {
        let fake = Fake::new();
        fake.write("sys/fs/ext4/ublkb0p1/errors_count", "0");
        assert_eq!(fake.user().unwrap(), "a file system (ext4)");
    }

    #[test]
    fn swap_and_devices_on_top_use_it() {
        let fake = Fake::new();
        fake.write("proc/swaps", "Filename Type\n/dev/ublkb0p1 partition 1 0 -2\n");
        assert_eq!(fake.user().unwrap(), "swap");
        let fake = Fake::new();
        fake.write("sys/class/block/ublkb0/holders/dm-3/dev", "");
        assert_eq!(fake.user().unwrap(), "the device dm-3");
        let fake = Fake::new();
        fake.write("sys/class/block/loop2/loop/backing_file", "/srv/ublkb0\n");
        assert_eq!(fake.user(), None, "a file with this name");
        fake.write("sys/class/block/loop3/loop/backing_file", "/dev/ublkb0p1\n");
        assert_eq!(fake.user().unwrap(), "the device loop3");
    }

    #[test]
    fn a_process_that_has_it_open_uses_it() {
        let fake = Fake::new();
        let null = number(fs::metadata("/dev/null").unwrap().rdev());
        fake.write("sys/class/block/ublkb0/dev", &null);
        let descriptors = fake.folder.path().join("proc/77/fd");
        fs::create_dir_all(&descriptors).unwrap();
        symlink("/dev/zero", descriptors.join("3")).unwrap();
        assert_eq!(fake.user(), None, "another device is open");
        symlink("/dev/null", descriptors.join("4")).unwrap();
        assert_eq!(fake.user().unwrap(), "the process 77 (fio)");
    }
}
