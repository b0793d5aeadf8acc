//! Whether files changed.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// The metadata of some files in the file system; if a stamp differs, the contents may have changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stamp(Vec<Option<FileStamp>>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: i64,
    modified_nanos: i64,
}

impl Stamp {
    pub(crate) fn of(files: &[PathBuf]) -> Stamp {
        Stamp(files.iter().map(file_stamp).collect())
    }
}

fn file_stamp(path: &PathBuf) -> Option<FileStamp> {
    let found = std::fs::metadata(path).ok()?;
    Some(FileStamp {
        device: found.dev(),
        inode: found.ino(),
        size: found.size(),
        modified: found.mtime(),
        modified_nanos: found.mtime_nsec(),
    })
}
