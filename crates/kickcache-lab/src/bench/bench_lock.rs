//! A lock against concurrent benches on one disk, unless each bench only reads.
//!
//! It is independent of the lock of a daemon, because the bench also reads disks that a daemon serves.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::bail;
use kickcache_daemon::opener::{Opener, in_brackets};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use crate::bench::job::Access;

#[derive(Debug, Default)]
pub(super) struct BenchLocks(RefCell<Vec<BenchLock>>);

impl BenchLocks {
    /// Takes the lock of a device or a file, and holds it until this is dropped; without effect if the path
    /// cannot be opened or its file system has no locks. Targets of one bench share a lock; a target that
    /// writes replaces the lock of a reader by that of a writer.
    ///
    /// # Errors
    /// As [`BenchLock::take`].
    pub(super) fn keep(&self, path: &Path, access: Access) -> anyhow::Result<()> {
        let mut kept = self.0.borrow_mut();
        let known = kept.iter().position(|hold| hold.is_of(path));
        match known {
            Some(index) if access == Access::Writes && kept[index].access == Access::Reads => {
                // The reader's lock is released first: it would also refuse a writer's lock of this process on
                // another open file.
                let Some(file) = BenchLock::open(path, access) else { return Ok(()) };
                kept.remove(index);
                kept.push(BenchLock::of(file, path, access)?);
            }
            Some(_) => {}
            None => kept.extend(BenchLock::take(path, access)?),
        }
        Ok(())
    }
}

/// A lock on a device or a file, if its file system has locks: no other bench writes to it, nor reads it if
/// this bench writes.
#[derive(Debug)]
struct BenchLock {
    /// Held open: the lock ends when the file is closed.
    _file: File,
    access: Access,
    device: u64,
    inode: u64,
}

impl BenchLock {
    /// Takes the lock; `None` if the path cannot be opened.
    ///
    /// # Errors
    /// A sentence, if another open file has a lock on it and not both only read.
    fn take(path: &Path, access: Access) -> anyhow::Result<Option<BenchLock>> {
        let Some(file) = BenchLock::open(path, access) else { return Ok(None) };
        BenchLock::of(file, path, access).map(Some)
    }

    fn open(path: &Path, access: Access) -> Option<File> {
        OpenOptions::new().read(true).write(access == Access::Writes).open(path).ok()
    }

    fn of(file: File, path: &Path, access: Access) -> anyhow::Result<BenchLock> {
        let metadata = file.metadata()?;
        let kind = if access == Access::Writes { libc::F_WRLCK } else { libc::F_RDLCK };
        let lock = libc::flock {
            l_type: i16::try_from(kind).unwrap_or_default(),
            l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&lock)) {
            Err(Errno::EAGAIN | Errno::EACCES) => bail!(
                "{} is measured by another bench{}; let that one end first, or name another target",
                path.display(),
                in_brackets(Opener::of_any(&[path]).as_ref())
            ),
            // A file system without locks gives another error, and the bench runs without a lock.
            Ok(_) | Err(_) => {
                Ok(BenchLock { device: metadata.dev(), inode: metadata.ino(), access, _file: file })
            }
        }
    }

    fn is_of(&self, path: &Path) -> bool {
        path.metadata().is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.inode))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_read_share_and_one_that_writes_is_alone() {
        let (one, other) = (tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap());
        let take = |access| BenchLock::take(one.path(), access).map(|hold| hold.expect("it can be opened"));
        let readers = [take(Access::Reads).unwrap(), take(Access::Reads).unwrap()];
        assert!(readers[0].is_of(one.path()) && !readers[0].is_of(other.path()));
        let refused = take(Access::Writes).unwrap_err().to_string();
        assert!(refused.contains("is measured by another bench"), "{refused}");
        drop(File::open(one.path()).unwrap());
        assert!(take(Access::Writes).is_err());
        drop(readers);
        let _writer = take(Access::Writes).unwrap();
        assert!(take(Access::Reads).is_err() && take(Access::Writes).is_err());
        one.reopen().unwrap().try_lock().unwrap();
    }

    #[test]
    fn a_target_that_writes_excludes_readers_of_other_benches() {
        let disk = tempfile::NamedTempFile::new().unwrap();
        let (own, other) = (BenchLocks::default(), BenchLocks::default());
        own.keep(disk.path(), Access::Reads).unwrap();
        own.keep(disk.path(), Access::Writes).unwrap();
        assert!(other.keep(disk.path(), Access::Reads).is_err());
        own.keep(disk.path(), Access::Reads).unwrap();
        assert!(other.keep(disk.path(), Access::Reads).is_err(), "it stays the lock of a writer");
        drop(own);
        let reader = BenchLocks::default();
        other.keep(disk.path(), Access::Reads).unwrap();
        reader.keep(disk.path(), Access::Reads).unwrap();
        assert!(other.keep(disk.path(), Access::Writes).is_err(), "another bench reads it");
    }
}
