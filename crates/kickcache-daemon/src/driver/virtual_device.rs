//! Devices that live in this process: a simulated slow disk as an origin.
//!
//! Time and content are told apart: `submit` and `poll` say when an operation ends, `read`, `write` and `zero` move
//! the bytes. The driver stores the bytes of a write just before its `submit`, and fetches those of a read when
//! `poll` says that it ended.

use kickcache_engine::device::DeviceError;
use kickcache_engine::time::Instant;
use kickcache_engine::units::ByteExtent;

/// What a virtual device shall do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VirtualOperation {
    /// A read; the driver calls [`VirtualDevice::read`] when it ended.
    Read(ByteExtent),
    /// A write; the driver called [`VirtualDevice::write`] before.
    Write(ByteExtent),
    /// A flush.
    Flush,
    /// A discard or write-zeroes; the driver called [`VirtualDevice::zero`] before.
    Zero(ByteExtent),
}

/// The end of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VirtualCompletion {
    /// The number that came with the submission.
    pub token: u64,
    /// How it ended.
    pub result: Result<(), DeviceError>,
}

/// A device that is computed in this process. All offsets and lengths are multiples of 512.
pub trait VirtualDevice: Send {
    /// Bytes of the device, a multiple of 512.
    fn size(&self) -> u64;

    /// What the cache device recognises it by, such as `simulated:disk`.
    fn identity(&self) -> String;

    /// Takes an operation; it ends in a later [`VirtualDevice::poll`], in any order, possibly at once.
    fn submit(&mut self, now: Instant, token: u64, operation: VirtualOperation);

    /// The next operation that has ended by now.
    fn poll(&mut self, now: Instant) -> Option<VirtualCompletion>;

    /// When the next operation ends, if one is in flight.
    fn next_wakeup(&self) -> Option<Instant>;

    /// Fetches bytes.
    ///
    /// # Errors
    /// If the device's own storage fails.
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError>;

    /// Stores bytes.
    ///
    /// # Errors
    /// If the device's own storage fails.
    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), DeviceError>;

    /// Stores zeroes.
    ///
    /// # Errors
    /// If the device's own storage fails.
    fn zero(&mut self, extent: ByteExtent) -> Result<(), DeviceError>;
}
