//! A volume as a block device, by nbdfuse and a loop device.

use std::fs;
use std::path::{Path, PathBuf};

use crate::fuse::{self, Fuse};
use crate::scratch::Scratch;
use crate::tools;

/// A disk that can be mounted; taken apart when dropped.
pub(crate) struct Disk {
    device: String,
    mounted: Option<PathBuf>,
    /// Below the loop device: dropped last.
    _fuse: Fuse,
}

impl Disk {
    pub(crate) fn attach(scratch: &Scratch, uri: &str, name: &str) -> Result<Disk, String> {
        let fuse = Fuse::mount(scratch, name, uri)?;
        let device = attach_loop(fuse.file(), "on")?;
        Ok(Disk { device, mounted: None, _fuse: fuse })
    }

    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    pub(crate) fn mount(&mut self, at: &Path) {
        fs::create_dir_all(at).unwrap();
        tools::run("mount", ["-o", "discard", self.device(), at.to_str().unwrap()]);
        self.mounted = Some(at.into());
    }

    pub(crate) fn unmount(&mut self) {
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
        tools::output("losetup", ["-d", &self.device]);
    }
}

pub(crate) fn attach_loop(file: &Path, direct: &str) -> Result<String, String> {
    let direct = format!("--direct-io={direct}");
    let output = tools::output("losetup", ["-f", "--show", &direct, file.to_str().unwrap()]);
    if !output.status.success() {
        return Err(format!("no loop device: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

/// The reason why this machine cannot make a file system on a volume, if it cannot.
pub(crate) fn missing() -> Option<String> {
    let tool = ["losetup", "mkfs.ext4", "e2fsck"].into_iter().find(|tool| !tools::is_installed(tool));
    match (fuse::missing(), tool) {
        (Some(why), _) => Some(why),
        (None, Some(tool)) => Some(format!("{tool} is not installed")),
        (None, None) if !tools::is_root() || !Path::new("/dev/loop-control").exists() => {
            Some("a file system on a loop device needs root and /dev/loop-control".into())
        }
        (None, None) => None,
    }
}
