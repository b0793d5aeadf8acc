//! Whether the file system of a file can punch holes.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::driver::device::file_system::{is_fuse, punches_holes};

const HOLE: i64 = 4096;

/// Whether holes can be punched: tried on a file without a name in the same folder. A hole in the file
/// itself, even behind its end, would change its times, by which the next start detects changes of an origin.
/// If no such file can be created on the same file system, the type of the file system decides. On FUSE, this
/// is not tried, and the answer is no.
pub(super) fn can_punch(file: &File, path: &Path) -> bool {
    if is_fuse(file) {
        return false;
    }
    nameless_beside(file, path).map_or_else(|| punches_holes(file), |nameless| punches(&nameless))
}

fn nameless_beside(file: &File, path: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    let made = options.write(true).mode(0o600).custom_flags(libc::O_TMPFILE).open(path.parent()?).ok()?;
    let is_beside = made.metadata().ok()?.dev() == file.metadata().ok()?.dev();
    is_beside.then_some(made)
}

fn punches(file: &File) -> bool {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: fallocate takes no memory.
    unsafe { libc::fallocate(file.as_raw_fd(), mode, 0, HOLE) == 0 }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_file_does_not_change_by_it() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        file.set_modified(then).unwrap();
        assert!(can_punch(&file, &path));
        assert_eq!(file.metadata().unwrap().modified().unwrap(), then);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_in_a_folder_without_access_is_unchanged_too() {
        let folder = TempDir::new().unwrap();
        let file = File::create(folder.path().join("file")).unwrap();
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        file.set_modified(then).unwrap();
        let answer = can_punch(&file, &folder.path().join("absent/file"));
        assert_eq!((file.metadata().unwrap().modified().unwrap(), answer), (then, punches_holes(&file)));
    }
}
