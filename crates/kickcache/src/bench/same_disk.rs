//! Whether two files or block devices are on the same disk, as a cache device and its origin must not be.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The links to all block devices, by their numbers.
const BY_NUMBER: &str = "/sys/dev/block";

/// Whether a disk has parts of both. A path that does not exist counts as a file in its folder.
pub(super) fn are_on_same_disk(one: &Path, other: &Path) -> bool {
    let by_number = Path::new(BY_NUMBER);
    !disks(one, by_number).is_disjoint(&disks(other, by_number))
}

/// The disks below a file or a block device, by name; a file system without a block device by its number.
fn disks(path: &Path, by_number: &Path) -> BTreeSet<PathBuf> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let Some(known) = path.ancestors().find_map(|path| path.metadata().ok()) else { return BTreeSet::new() };
    let device = if known.file_type().is_block_device() { known.rdev() } else { known.dev() };
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    match by_number.join(&number).canonicalize() {
        Ok(node) => disks_of(&node, by_number),
        Err(_) => BTreeSet::from([number.into()]),
    }
}

/// The disks below a block device, which may be a partition, a loop device, or made of other devices.
fn disks_of(node: &Path, by_number: &Path) -> BTreeSet<PathBuf> {
    let whole = if node.join("partition").exists() { node.parent().unwrap_or(node) } else { node };
    if let Ok(file) = fs::read_to_string(whole.join("loop/backing_file")) {
        return disks(Path::new(file.trim_end()), by_number);
    }
    let parts = fs::read_dir(whole.join("slaves")).into_iter().flatten().flatten();
    let parts: BTreeSet<PathBuf> = parts
        .filter_map(|part| part.path().canonicalize().ok())
        .flat_map(|part| disks_of(&part, by_number))
        .collect();
    if parts.is_empty() { BTreeSet::from([whole.to_path_buf()]) } else { parts }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn partitions_loop_devices_and_mappings_are_on_their_disks() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for part in ["sda/sda1", "sda/sda2", "sdb", "dm-0/slaves", "loop7/loop", "numbers"] {
            fs::create_dir_all(path(part)).unwrap();
        }
        for part in ["sda/sda1/partition", "sda/sda2/partition"] {
            fs::write(path(part), "1\n").unwrap();
        }
        symlink(path("sdb"), path("dm-0/slaves/sdb")).unwrap();
        symlink(path("sda/sda1"), path("dm-0/slaves/sda1")).unwrap();
        let device = path("").metadata().unwrap().dev();
        let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        symlink(path("sda/sda2"), path("numbers").join(number)).unwrap();
        fs::write(path("loop7/loop/backing_file"), format!("{}\n", path("new file").display())).unwrap();
        let of = |name: &str| {
            let found = disks_of(&path(name).canonicalize().unwrap(), &path("numbers"));
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
