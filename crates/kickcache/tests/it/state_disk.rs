//! A state directory on a disk with a log: a power cut loses renames and contents that were not synced.

use std::fs;
use std::path::{Path, PathBuf};

use crate::disk::attach_loop;
use crate::tools;

/// For a while, ext4 writes neither its journal nor the contents of a file before its rename by itself.
const LAZY: &str = "noauto_da_alloc,commit=300";

/// Unmounted when dropped.
pub(crate) struct StateDisk {
    device: String,
    at: PathBuf,
}

impl StateDisk {
    pub(crate) fn make(file: &Path, at: &Path) -> Result<StateDisk, String> {
        let device = attach_loop(file, "on")?;
        let options = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", &device];
        tools::run("mkfs.ext4", options);
        StateDisk::mount(device, at)
    }

    fn mount(device: String, at: &Path) -> Result<StateDisk, String> {
        fs::create_dir_all(at).unwrap();
        let disk = StateDisk { device, at: at.into() };
        let output = tools::output("mount", ["-o", LAZY, &disk.device, at.to_str().unwrap()]);
        match output.status.success() {
            true => Ok(disk),
            false => Err(format!("cannot mount: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    }

    /// The state directory, which a daemon makes.
    pub(crate) fn folder(&self) -> PathBuf {
        self.at.join("state")
    }

    /// Copies the state directory of a file system that a power cut left.
    pub(crate) fn recover(file: &Path, at: &Path, into: &Path) -> Result<(), String> {
        let disk = StateDisk::mount(attach_loop(file, "off")?, at)?;
        let _ = fs::remove_dir_all(into);
        fs::create_dir(into).unwrap();
        for record in fs::read_dir(disk.folder()).into_iter().flatten().map(|entry| entry.unwrap()) {
            fs::copy(record.path(), into.join(record.file_name())).unwrap();
        }
        Ok(())
    }
}

impl Drop for StateDisk {
    fn drop(&mut self) {
        tools::output("umount", [&self.at]);
        tools::output("losetup", ["-d", &self.device]);
    }
}
