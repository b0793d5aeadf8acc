//! The identity that distinguishes a file from a later file at the same path.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::driver::device::identity::file_of_identity;
use crate::driver::rights::access;

/// The numbers of a file that together identify it at its path. Device numbers of file systems are omitted,
/// as they change at a reboot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The number of the file in its file system; 0 if the file system assigns new numbers at each mount, or is
    /// unknown.
    pub inode: u64,
    /// When the file was created, in nanoseconds since 1970.
    pub born_ns: u64,
}

/// Magic numbers of linux/magic.h for file systems that assign new file numbers at each mount: FAT, exFAT, FUSE,
/// overlay, 9p, SMB.
const MADE_UP_INODES: [u64; 7] =
    [0x4d44, 0x2011_bab0, 0x6573_5546, 0x794c_7630, 0x0102_1997, 0xff53_4d42, 0xfe53_4d42];

impl FileIdentity {
    /// The identity of the file of an origin, or of the file below a loop device, if it can be found.
    pub fn of_origin(identity: &str) -> Option<FileIdentity> {
        FileIdentity::of_file(&access::look(file_of_identity(identity)?).ok()?)
    }

    /// Identifies an open file; `None` if the file system records no creation times.
    pub fn of_file(file: &File) -> Option<FileIdentity> {
        let found = file.metadata().ok()?;
        let born = found.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
        let inode = if has_inodes(file) { found.ino() } else { 0 };
        Some(FileIdentity { inode, born_ns: u64::try_from(born.as_nanos()).ok()? })
    }

    /// Whether this is the recorded file; if the file number of either is 0, the creation time alone decides.
    pub fn is_same(self, noted: FileIdentity) -> bool {
        let is_unknown = self.inode == 0 || noted.inode == 0;
        self.born_ns == noted.born_ns && (is_unknown || self.inode == noted.inode)
    }
}

fn has_inodes(file: &File) -> bool {
    let system = rustix::fs::fstatfs(file).ok();
    let magic = system.and_then(|system| u64::try_from(system.f_type & 0xffff_ffff).ok());
    magic.is_some_and(|magic| !MADE_UP_INODES.contains(&magic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synthetic_inode_number_identifies_no_file() {
        let file = |inode, born_ns| FileIdentity { inode, born_ns };
        assert!(file(7, 1).is_same(file(7, 1)));
        assert!(!file(8, 1).is_same(file(7, 1)), "made in the same tick of the clock");
        assert!(!file(7, 2).is_same(file(7, 1)), "a number that is used again");
        assert!(file(0, 1).is_same(file(7, 1)) && file(7, 1).is_same(file(0, 1)));
        assert!(!file(0, 2).is_same(file(7, 1)));
    }
}
