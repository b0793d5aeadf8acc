//! Devices that the system does not execute: another process, another machine or a simulation answers for them.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use kickcache_engine::request::{Durability, Unmap};
use kickcache_engine::time::Instant;
use kickcache_engine::units::ByteExtent;

/// What a queued device is asked for. Offsets and lengths are in bytes, multiples of 512.
#[derive(Clone, Copy, Debug)]
pub enum QueuedRequest<'a> {
    /// A read; its bytes are fetched with [`QueuedDevice::take_read`] when it ended.
    Read(ByteExtent),
    /// A write. The bytes are borrowed for the call alone.
    Write {
        /// Where.
        offset: u64,
        /// The bytes, one piece after the other.
        pieces: &'a [IoSlice<'a>],
        /// Whether it must be durable when it ends.
        durability: Durability,
    },
    /// Makes every write that ended before durable.
    Flush,
    /// Gives space back; the content becomes undefined.
    Discard(ByteExtent),
    /// Stores zeroes. May end with `EOPNOTSUPP`: zeroes are written then.
    WriteZeroes {
        /// Where.
        extent: ByteExtent,
        /// Whether space may be given back.
        unmap: Unmap,
        /// Whether they must be durable when it ends.
        durability: Durability,
    },
}

/// The end of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuedEnd {
    /// The number that came with the submission.
    pub token: u64,
    /// How it ended: an error is an errno of the system, such as `EIO`.
    pub result: Result<(), i32>,
}

/// A device that takes requests at any time and ends them later, in any order. No call may wait for anything.
pub trait QueuedDevice: Send {
    /// Takes a request; it ends in a later [`QueuedDevice::poll`], possibly at once. The token is not in use.
    fn submit(&mut self, now: Instant, token: u64, request: QueuedRequest<'_>);

    /// The next request that has ended by now.
    fn poll(&mut self, now: Instant) -> Option<QueuedEnd>;

    /// Whether the device may have lost, at this point, what it had ended and not flushed: [`QueuedDevice::poll`] gives nothing
    /// more until this was asked. What was submitted and has not ended is its own to repeat.
    fn take_restart(&mut self) -> bool {
        false
    }

    /// For how long whoever answers for the device has been away, if it is.
    fn away(&self) -> Option<Duration> {
        None
    }

    /// Fetches the bytes of a read, right after [`QueuedDevice::poll`] told that it ended well. `into` has the extent's
    /// length.
    fn take_read(&mut self, token: u64, extent: ByteExtent, into: &mut [IoSliceMut<'_>]);

    /// When the next request ends, as far as the device knows beforehand.
    fn next_wakeup(&self) -> Option<Instant>;

    /// A descriptor that is readable when there is something to poll, for devices that do not know it beforehand. It is
    /// the same for as long as the device lives, and [`QueuedDevice::poll`] makes it unreadable before it looks.
    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
