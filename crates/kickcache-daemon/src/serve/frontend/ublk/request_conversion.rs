//! Converts requests of the kernel into requests of the engine, and results back.

use kickcache_engine::request::{Durability, Errno, Operation, Unmap};
use kickcache_engine::units::ByteExtent;

use crate::serve::frontend::ublk::abi::IoDescription;

const SECTOR_BYTES: u64 = 512;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 2;
const DISCARD: u32 = 3;
const WRITE_ZEROES: u32 = 5;

const OPERATION_MASK: u32 = 0xff;
const FUA: u32 = 1 << 13;
const NO_UNMAP: u32 = 1 << 15;

/// The operation of the kernel's request; `None` for an operation that no device offers.
pub(crate) fn operation(description: &IoDescription) -> Option<Operation> {
    let flags = description.operation_and_flags;
    let durability = if flags & FUA == 0 { Durability::Volatile } else { Durability::Durable };
    let unmap = if flags & NO_UNMAP == 0 { Unmap::Allow } else { Unmap::Forbid };
    match flags & OPERATION_MASK {
        READ => Some(Operation::Read),
        WRITE => Some(Operation::Write(durability)),
        FLUSH => Some(Operation::Flush),
        DISCARD => Some(Operation::Discard),
        WRITE_ZEROES => Some(Operation::WriteZeroes { unmap, durability }),
        _ => None,
    }
}

/// The extent on the volume, in bytes; `None` if the extent ends behind `size`. A flush has no place: its
/// sector is -1.
pub(crate) fn extent(description: &IoDescription, size: u64) -> Option<ByteExtent> {
    if description.operation_and_flags & OPERATION_MASK == FLUSH {
        return Some(ByteExtent { start: 0, length: 0 });
    }
    let start = description.first_sector.checked_mul(SECTOR_BYTES)?;
    let length = u64::from(description.sector_count) * SECTOR_BYTES;
    let end = start.checked_add(length)?;
    (end <= size).then_some(ByteExtent { start, length })
}

/// The result of a request of `bytes`: the bytes done, or a negative errno.
pub(crate) fn result(bytes: i32, reply: Result<(), Errno>) -> i32 {
    match reply {
        Ok(()) => bytes,
        Err(Errno::Io) => -libc::EIO,
        Err(Errno::Invalid) => -libc::EINVAL,
        Err(Errno::NoSpace) => -libc::ENOSPC,
        Err(Errno::NotSupported) => -libc::EOPNOTSUPP,
        Err(Errno::NotPermitted) => -libc::EPERM,
        Err(Errno::Shutdown) => -libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(operation_and_flags: u32) -> Option<Operation> {
        operation(&IoDescription { operation_and_flags, ..IoDescription::default() })
    }

    #[test]
    fn operations_and_flags_are_the_kernels() {
        assert_eq!(asks(0), Some(Operation::Read));
        assert_eq!(asks(1), Some(Operation::Write(Durability::Volatile)));
        assert_eq!(asks(1 | 1 << 13), Some(Operation::Write(Durability::Durable)));
        assert_eq!(asks(2), Some(Operation::Flush));
        assert_eq!(asks(3), Some(Operation::Discard));
        for (fua, durability) in [(0, Durability::Volatile), (1 << 13, Durability::Durable)] {
            let zeroes = |unmap| Some(Operation::WriteZeroes { unmap, durability });
            assert_eq!(asks(5 | fua), zeroes(Unmap::Allow));
            assert_eq!(asks(5 | fua | 1 << 15), zeroes(Unmap::Forbid));
        }
        assert_eq!(asks(4), None, "write same was never offered");
    }

    #[test]
    fn an_extent_ends_within_the_volume() {
        let at = |first_sector, sector_count| {
            let description = IoDescription { first_sector, sector_count, ..IoDescription::default() };
            extent(&description, 8192).map(|extent| (extent.start, extent.length))
        };
        assert_eq!(at(8, 8), Some((4096, 4096)));
        assert_eq!(at(8, 9), None, "a sector behind the end");
        assert_eq!(at(u64::MAX, 1), None, "an offset that no number holds");
        let flush =
            IoDescription { operation_and_flags: 2, first_sector: u64::MAX, ..IoDescription::default() };
        assert_eq!(extent(&flush, 8192), Some(ByteExtent { start: 0, length: 0 }));
    }

    #[test]
    fn an_error_is_an_errno_below_zero() {
        assert_eq!(result(4096, Ok(())), 4096);
        assert_eq!(result(4096, Err(Errno::NoSpace)), -libc::ENOSPC);
        assert_eq!(result(4096, Err(Errno::Shutdown)), -libc::EIO);
    }
}
