//! A small file system in memory, for tests of a full disk.

use std::fs;
use std::path::PathBuf;

use crate::scratch::Scratch;
use crate::tools;

/// Mounted until it is dropped.
pub(crate) struct Tmpfs {
    pub(crate) place: PathBuf,
}

impl Tmpfs {
    /// The size is in the notation of mount(8).
    pub(crate) fn new(scratch: &Scratch, size: &str) -> Result<Tmpfs, String> {
        let place = scratch.path("tmpfs");
        fs::create_dir(&place).unwrap();
        let size = format!("size={size}");
        let arguments = ["-t", "tmpfs", "-o", &size, "tmpfs", place.to_str().unwrap()];
        match tools::output("mount", arguments).status.success() {
            true => Ok(Tmpfs { place }),
            false => Err("tmpfs cannot be mounted".into()),
        }
    }

    pub(crate) fn fill(&self) {
        let mut size = 1 << 20;
        let mut content = Vec::new();
        while size >= 1 {
            content.resize(content.len() + size, 1);
            if fs::write(self.ballast(), &content).is_err() {
                content.truncate(content.len() - size);
                size /= 2;
            }
        }
        let _ = fs::write(self.ballast(), content);
    }

    pub(crate) fn clear(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    /// `how` is `ro` or `rw`.
    pub(crate) fn remount(&self, how: &str) {
        let how = format!("remount,{how}");
        tools::run("mount", ["-o", &how, self.place.to_str().unwrap()]);
    }

    fn ballast(&self) -> PathBuf {
        self.place.join("ballast")
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        tools::output("umount", ["-l".as_ref(), self.place.as_os_str()]);
    }
}
