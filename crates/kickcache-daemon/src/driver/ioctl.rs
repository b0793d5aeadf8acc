//! Properties of a device by ioctl and statx.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use crate::driver::device::Kind;
use crate::driver::minimum_block::MinimumBlock;

const BLKGETSIZE64: libc::Ioctl = 0x8008_1272;
const BLKROGET: libc::Ioctl = 0x125E;
const BLKSSZGET: libc::Ioctl = 0x1268;
const STATX_DIOALIGN: u32 = 0x2000;

pub(crate) fn block_size(file: &File) -> io::Result<u64> {
    let mut bytes: u64 = 0;
    // SAFETY: BLKGETSIZE64 writes one 64-bit number.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), BLKGETSIZE64, &raw mut bytes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(bytes) }
}

/// Whether the kernel refuses writes to a block device that it allowed to be opened for writing.
pub(crate) fn is_protected(file: &File) -> bool {
    let mut protected: i32 = 0;
    // SAFETY: BLKROGET writes one int.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), BLKROGET, &raw mut protected) };
    result == 0 && protected != 0
}

/// The alignment that O_DIRECT needs, in bytes; 512 if the kernel does not report it.
pub(crate) fn direct_alignment(file: &File, kind: Kind) -> u64 {
    match kind {
        Kind::File => file_alignment(file).unwrap_or(512),
        Kind::Block => minimum_block(file, kind).bytes(),
    }
}

/// The smallest block that `fallocate` and BLKDISCARD accept; file systems accept any range.
pub(crate) fn minimum_block(file: &File, kind: Kind) -> MinimumBlock {
    let found = match kind {
        Kind::File => None,
        Kind::Block => sector_size(file).and_then(MinimumBlock::new),
    };
    found.unwrap_or(MinimumBlock::SECTOR)
}

fn sector_size(file: &File) -> Option<u64> {
    let mut bytes: i32 = 0;
    // SAFETY: BLKSSZGET writes one int.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), BLKSSZGET, &raw mut bytes) };
    if result < 0 { None } else { u64::try_from(bytes).ok() }
}

fn file_alignment(file: &File) -> Option<u64> {
    let mut found = MaybeUninit::<libc::statx>::zeroed();
    let flags = libc::AT_EMPTY_PATH;
    // SAFETY: statx writes the struct, and the path is an empty C string.
    let result =
        unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, STATX_DIOALIGN, found.as_mut_ptr()) };
    if result < 0 {
        return None;
    }
    // SAFETY: all zeroes are a valid statx, and the call has filled it.
    let found = unsafe { found.assume_init() };
    let told = found.stx_mask & STATX_DIOALIGN != 0 && found.stx_dio_offset_align != 0;
    told.then_some(u64::from(found.stx_dio_offset_align))
}
