//! Devices whose requests the system does not execute.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use kickcache_engine::request::{Durability, Unmap};
use kickcache_engine::samples::Sample;
use kickcache_engine::time::Instant;
use kickcache_engine::units::ByteExtent;

/// A request to a queued device. Offsets and lengths are in bytes, multiples of 512.
#[derive(Clone, Copy, Debug)]
pub enum QueuedRequest<'a> {
    /// A read; its bytes are fetched with [`QueuedDevice::take_read`] when it ended.
    Read(ByteExtent),
    /// A write; the bytes are borrowed for the call alone.
    Write { offset: u64, pieces: &'a [IoSlice<'a>], durability: Durability },
    /// Makes every write that ended before durable.
    Flush,
    /// Gives space back; the content becomes undefined.
    Discard(ByteExtent),
    /// Stores zeroes; may end with `EOPNOTSUPP`.
    WriteZeroes { extent: ByteExtent, unmap: Unmap, durability: Durability },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuedEnd {
    pub token: u64,
    /// The result; an error is an errno of the system, such as `EIO`.
    pub result: Result<(), i32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceExtent {
    pub length: u64,
    pub is_hole: bool,
    pub is_zero: bool,
}

/// The answer of a device to a query of its extents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExtentsTold {
    pub token: u64,
    /// The extents from the start of the query's extent, as far as the device reports them; empty if it
    /// cannot report any.
    pub extents: Vec<DeviceExtent>,
}

/// The server of a device is unreachable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerOutage {
    pub span: Duration,
    /// How the connection was lost, or why the last attempt to use a server failed.
    pub why: String,
    /// The time until requests fail; zero if they fail already.
    pub fails_in: Duration,
}

/// A device that takes requests at any time and ends them later, in any order. No call may wait, except
/// [`QueuedDevice::end_compare`].
pub trait QueuedDevice: Send {
    /// Takes a request; it ends in a later [`QueuedDevice::poll`], possibly at once. The token is not in use.
    fn submit(&mut self, now: Instant, token: u64, request: QueuedRequest<'_>);

    /// The next request that has ended by `now`.
    fn poll(&mut self, now: Instant) -> Option<QueuedEnd>;

    /// Whether the device may have lost, at this point, completed and unflushed requests:
    /// [`QueuedDevice::poll`] returns nothing more until this was called. The device itself repeats submitted
    /// requests that have not ended.
    fn take_restart(&mut self) -> bool {
        false
    }

    /// If the server of the device is unreachable: for how long, and why.
    fn away(&self) -> Option<ServerOutage> {
        None
    }

    /// Makes requests fail soon, although a server may return.
    fn give_up(&mut self) {}

    /// Begins to compare the device with samples of its expected contents, once, at the start. Earlier
    /// submissions wait for the end: until then the device sends no other request.
    fn begin_compare(&mut self, _samples: &[Sample]) {}

    /// The time limit counts from the start of the comparison.
    ///
    /// # Errors
    /// A sentence, if the device has other data, or does not answer.
    fn end_compare(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Samples of the expected contents when the device continues after a restart. Each reported restart is
    /// followed by one call; until then the device sends no request.
    fn expect(&mut self, _samples: Vec<Sample>) {}

    fn has_extents(&self) -> bool {
        false
    }

    /// Queries which parts of an extent are holes. [`QueuedDevice::take_extents`] returns the answer after a
    /// later [`QueuedDevice::poll`].
    fn ask_extents(&mut self, _token: u64, _extent: ByteExtent) {}

    fn take_extents(&mut self) -> Option<ExtentsTold> {
        None
    }

    /// Fetches the bytes of a read, right after [`QueuedDevice::poll`] reported its success. `into` has the
    /// extent's length.
    fn take_read(&mut self, token: u64, extent: ByteExtent, into: &mut [IoSliceMut<'_>]);

    /// The time of the next end of a request, if it is certain in advance.
    fn next_wakeup(&self) -> Option<Instant>;

    /// A descriptor that is readable when there is something to poll. The descriptor stays the same for the
    /// life of the device; [`QueuedDevice::poll`] makes it unreadable before it looks for results.
    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
