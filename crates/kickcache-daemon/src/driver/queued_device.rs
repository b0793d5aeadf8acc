//! Devices that the system does not execute: another process, another machine or a simulation answers for them.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use kickcache_engine::request::{Durability, Unmap};
use kickcache_engine::samples::Sample;
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

/// A part of a device, as the device tells of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceExtent {
    /// Bytes.
    pub length: u64,
    /// Nothing is stored for it.
    pub is_hole: bool,
    /// It reads as zeroes.
    pub is_zero: bool,
}

/// What a device was asked to tell of itself, and did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExtentsTold {
    /// The number that came with the question.
    pub token: u64,
    /// From the start of what was asked for on, as far as the device tells; none if it cannot say.
    pub extents: Vec<DeviceExtent>,
}

/// Whoever answers for a device is away.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Away {
    /// For so long.
    pub span: Duration,
    /// How it was lost, or what is wrong with who came in its place.
    pub why: String,
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

    /// Since when and why whoever answers for the device has been away, if it is.
    fn away(&self) -> Option<Away> {
        None
    }

    /// Nobody waits for it any more: what it was given fails soon, though a server may come back.
    fn give_up(&mut self) {}

    /// Begins to compare the device with samples of what it must hold, once, at the start. What is submitted before waits for the
    /// end: until then nobody is asked for anything else.
    fn begin_compare(&mut self, _samples: &[Sample]) {}

    /// Ends that. The one call that may take as long as the device does; how long that is counts from the beginning, so that
    /// several devices that do not answer take no longer than one.
    ///
    /// # Errors
    /// A sentence, if it holds something else, or does not answer.
    fn end_compare(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Samples of what the device must hold when it goes on after a restart. Each restart that was taken is followed by one
    /// call; until then the device asks nobody for anything.
    fn expect(&mut self, _samples: Vec<Sample>) {}

    /// Whether it tells which of its parts are holes.
    fn has_extents(&self) -> bool {
        false
    }

    /// Asks which parts of an extent are holes. The answer comes out of [`QueuedDevice::take_extents`] some time after
    /// [`QueuedDevice::poll`] had a look.
    fn ask_extents(&mut self, _token: u64, _extent: ByteExtent) {}

    /// The next answer.
    fn take_extents(&mut self) -> Option<ExtentsTold> {
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
