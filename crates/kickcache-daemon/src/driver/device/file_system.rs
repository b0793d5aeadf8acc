//! Properties that depend on the file system of a file.

use std::fs::File;

/// File systems that honour `RWF_DSYNC` for asynchronous direct writes: ext2 to ext4, XFS, Btrfs. FUSE drops
/// it.
const KEEP_DSYNC: [i64; 3] = [0xef53, 0x5846_5342, 0x9123_683e];
/// File systems that punch holes: those of `KEEP_DSYNC`, F2FS and tmpfs.
const PUNCH_HOLES: [i64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];
const FUSE: i64 = 0x6573_5546;
/// FUSE, NFS, CIFS, SMB2, 9P, Ceph, AFS in two drivers, Lustre.
const REMOTE: [i64; 9] =
    [FUSE, 0x6969, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x00c3_6400, 0x5346_414f, 0x6b41_4653, 0x0bd0_0bd0];

pub(super) fn keeps_dsync(file: &File) -> bool {
    is_one_of(file, &KEEP_DSYNC)
}

pub(super) fn punches_holes(file: &File) -> bool {
    is_one_of(file, &PUNCH_HOLES)
}

/// Whether another program or machine may have to answer a system call on the file.
pub(super) fn is_remote(file: &File) -> bool {
    is_one_of(file, &REMOTE)
}

/// Whether a program in user space serves the file system.
pub(crate) fn is_fuse(file: &File) -> bool {
    is_one_of(file, &[FUSE])
}

fn is_one_of(file: &File, types: &[i64]) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|found| types.contains(&found.f_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_remote_file_system_is_trusted_with_the_flag() {
        assert!(REMOTE.iter().all(|remote| !KEEP_DSYNC.contains(remote)));
    }
}
