//! A real file system on a volume.

use std::fs;
use std::path::Path;

use crate::daemon::Spec;
use crate::disk::{self, Disk};
use crate::rng::Rng;
use crate::scratch::{KIB, MIB, Scratch};
use crate::{skip, tools};

const FILES: u64 = 250;

/// Files of many sizes in some folders.
fn plant_tree(root: &Path) {
    let mut rng = Rng::new(77);
    for number in 0..FILES {
        let dir = root.join(format!("d{}/e{}", number % 7, number % 3));
        fs::create_dir_all(&dir).unwrap();
        let size = match number % 5 {
            0 => rng.below(100),
            1..=3 => rng.below(64 * KIB),
            _ => rng.below(MIB),
        };
        fs::write(dir.join(format!("f{number}")), rng.bytes(usize::try_from(size).unwrap())).unwrap();
    }
}

fn compare(tree: &Path, copy: &Path) {
    tools::run("diff", ["-r".as_ref(), tree.as_os_str(), copy.as_os_str()]);
}

fn file_system_survives(mode: &'static str) {
    if let Some(why) = disk::missing() {
        skip!("{why}");
    }
    let scratch = Scratch::new();
    let tree = scratch.path("tree");
    plant_tree(&tree);
    let origin = scratch.sparse("origin", 192 * MIB);
    let daemon = Spec::new(&scratch, &origin, mode, "24M").start();
    {
        let mut disk = match Disk::attach(&scratch, &daemon.uri(), "disk") {
            Ok(disk) => disk,
            Err(why) => skip!("{why}"),
        };
        tools::run("mkfs.ext4", ["-q", "-F", disk.device()]);
        fill_and_check(&mut disk, &tree, &scratch.path("mounted"));
    }
    let daemon = daemon.stop().start();
    let mut disk = Disk::attach(&scratch, &daemon.uri(), "disk again").unwrap();
    tools::run("e2fsck", ["-f", "-n", disk.device()]);
    disk.mount(&scratch.path("mounted again"));
    compare(&tree, &scratch.path("mounted again").join("copy"));
    disk.unmount();
    drop(disk);
    daemon.stop();
}

fn fill_and_check(disk: &mut Disk, tree: &Path, at: &Path) {
    disk.mount(at);
    for name in ["copy", "gone"] {
        tools::run("cp", ["-a".as_ref(), tree.as_os_str(), at.join(name).as_os_str()]);
    }
    tools::run("sync", ["-f".as_ref(), at.as_os_str()]);
    fs::remove_dir_all(at.join("gone")).unwrap();
    tools::run("fstrim", [at]);
    disk.unmount();
    tools::run("e2fsck", ["-f", "-n", disk.device()]);
    disk.mount(at);
    compare(tree, &at.join("copy"));
    disk.unmount();
}

#[test]
fn ext4_survives_on_write_back() {
    file_system_survives("write-back");
}

#[test]
fn ext4_survives_on_write_through() {
    file_system_survives("write-through");
}
