//! Whether the file system of a file can punch holes: where it can, zeroes are fast.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::driver::device::file_system::is_fuse;

/// Bytes of the hole that is tried.
const HOLE: u64 = 4096;

/// Whether holes can be punched: tried on a file without a name beside this one, whose times would tell of it. Where there can be
/// none, it is tried behind the end of this one, where nothing is. Not tried on FUSE, whose programs complain to whoever started
/// them; the answer is no there.
pub(super) fn can_punch(file: &File, path: &Path, size: u64) -> bool {
    if is_fuse(file) {
        return false;
    }
    match nameless_beside(file, path) {
        Some(nameless) => punches(&nameless, 0),
        None => punches(file, size.next_multiple_of(HOLE)),
    }
}

/// A new file without a name, on the same file system.
fn nameless_beside(file: &File, path: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    let made = options.write(true).mode(0o600).custom_flags(libc::O_TMPFILE).open(path.parent()?).ok()?;
    let is_beside = made.metadata().ok()?.dev() == file.metadata().ok()?.dev();
    is_beside.then_some(made)
}

fn punches(file: &File, offset: u64) -> bool {
    let Ok(offset) = i64::try_from(offset) else { return false };
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: fallocate takes no memory.
    unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, HOLE.cast_signed()) == 0 }
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
        assert!(can_punch(&file, &path, 8192));
        assert_eq!(file.metadata().unwrap().modified().unwrap(), then);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
