//! A real file system on top: nbdfuse makes the volume a file, a loop device makes it a disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, Spec};
use crate::rng::Rng;
use crate::scratch::{KIB, MIB, Scratch};
use crate::{need_tools, skip, tools};

const FILES: u64 = 250;

/// A volume as a block device: nbdfuse and a loop device, taken apart when dropped.
struct Disk {
    fuse: Child,
    file: PathBuf,
    device: Option<String>,
    mounted: Option<PathBuf>,
}

impl Disk {
    fn attach(scratch: &Scratch, daemon: &Daemon, name: &str) -> Result<Disk, String> {
        let file = scratch.sparse(name, 0);
        let fuse = nbdfuse(&file, &daemon.uri());
        let mut disk = Disk { fuse, file, device: None, mounted: None };
        disk.wait_for_mount()?;
        let file = disk.file.to_str().unwrap();
        let output = tools::output("losetup", ["-f", "--show", "--direct-io=on", file]);
        if !output.status.success() {
            return Err(format!("no loop device: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        disk.device = Some(String::from_utf8(output.stdout).unwrap().trim().to_owned());
        Ok(disk)
    }

    fn wait_for_mount(&mut self) -> Result<(), String> {
        let start = Instant::now();
        while !tools::output("mountpoint", [self.file.as_os_str()]).status.success() {
            if self.fuse.try_wait().unwrap().is_some() || start.elapsed() > Duration::from_secs(20) {
                return Err("nbdfuse cannot mount here".into());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn device(&self) -> &str {
        self.device.as_deref().expect("attached")
    }

    fn mount(&mut self, at: &Path) {
        fs::create_dir_all(at).unwrap();
        tools::run("mount", ["-o", "discard", self.device(), at.to_str().unwrap()]);
        self.mounted = Some(at.into());
    }

    fn unmount(&mut self) {
        if let Some(at) = self.mounted.take() {
            tools::run("umount", [at]);
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(at) = &self.mounted {
            tools::output("umount", [at]);
        }
        if let Some(device) = &self.device {
            tools::output("losetup", ["-d", device]);
        }
        tools::output("fusermount3", ["-u".as_ref(), self.file.as_os_str()]);
        let start = Instant::now();
        while matches!(self.fuse.try_wait(), Ok(None)) && start.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.fuse.kill();
        let _ = self.fuse.wait();
    }
}

fn nbdfuse(file: &Path, uri: &str) -> Child {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "nbdfuse"]).arg(file).arg(uri);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

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
    need_tools!("nbdfuse", "losetup", "mkfs.ext4", "e2fsck", "fusermount3");
    if !tools::is_root() || !Path::new("/dev/fuse").exists() || !Path::new("/dev/loop-control").exists() {
        skip!("a file system on a loop device needs root, /dev/fuse and /dev/loop-control");
    }
    let scratch = Scratch::new();
    let tree = scratch.path("tree");
    plant_tree(&tree);
    let origin = scratch.sparse("origin", 192 * MIB);
    let daemon = Spec::new(&scratch, &origin, mode, "24M").start();
    {
        let mut disk = match Disk::attach(&scratch, &daemon, "disk") {
            Ok(disk) => disk,
            Err(why) => skip!("{why}"),
        };
        tools::run("mkfs.ext4", ["-q", "-F", disk.device()]);
        fill_and_check(&mut disk, &tree, &scratch.path("mounted"));
    }
    let daemon = daemon.stop().start();
    let mut disk = Disk::attach(&scratch, &daemon, "disk again").unwrap();
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
