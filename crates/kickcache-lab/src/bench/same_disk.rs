//! Whether two files or block devices are on the same disk, as a cache device and its origin should not be.

use std::path::Path;

use kickcache_daemon::driver::device::device_stack::DeviceStack;

pub(super) fn are_on_same_disk(one: &Path, other: &Path) -> bool {
    let stack = DeviceStack::of_host();
    !stack.disks_of(one).is_disjoint(&stack.disks_of(other))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::PathBuf;

    use kickcache_daemon::driver::device::sysfs::number;

    use super::*;

    #[test]
    fn partitions_loop_devices_and_mappings_are_on_their_disks() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for part in ["sda/sda1", "sda/sda2", "sdb", "dm-0/slaves", "loop7/loop", "dev/block"] {
            fs::create_dir_all(path(part)).unwrap();
        }
        for part in ["sda/sda1/partition", "sda/sda2/partition"] {
            fs::write(path(part), "1\n").unwrap();
        }
        symlink(path("sdb"), path("dm-0/slaves/sdb")).unwrap();
        symlink(path("sda/sda1"), path("dm-0/slaves/sda1")).unwrap();
        let own = number(path("").metadata().unwrap().dev());
        let numbers = [
            ("sda", "900:0"),
            ("sda/sda1", "900:1"),
            ("sda/sda2", &own),
            ("sdb", "900:16"),
            ("dm-0", "901:0"),
            ("loop7", "902:7"),
        ];
        for (name, number) in numbers {
            fs::write(path(name).join("dev"), format!("{number}\n")).unwrap();
            symlink(path(name), path("dev/block").join(number)).unwrap();
        }
        fs::write(path("loop7/loop/backing_file"), format!("{}\n", path("new file").display())).unwrap();
        let stack = DeviceStack { sys: path(""), mounts: path("no mounts") };
        let of = |name: &str| {
            let number = fs::read_to_string(path(name).join("dev")).unwrap();
            let found = stack.disks_under(number.trim().into());
            let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
            found.into_iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!((of("sda/sda1"), of("sdb")), (vec!["sda".into()], vec!["sdb".into()]));
        assert_eq!(of("dm-0"), ["sda", "sdb"]);
        assert_eq!(of("loop7"), ["sda"], "its file does not exist yet");
    }

    #[test]
    fn two_files_of_a_folder_share_a_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("one"), "").unwrap();
        assert!(are_on_same_disk(&path("one"), &path("other")));
        assert!(!are_on_same_disk(&path("one"), Path::new("/proc/version")));
    }
}
