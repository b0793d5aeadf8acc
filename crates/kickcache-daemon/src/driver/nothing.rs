//! A device that keeps nothing: in the place of a cache device that is left out.

use std::collections::VecDeque;

use kickcache_engine::device::DeviceError;
use kickcache_engine::time::Instant;
use kickcache_engine::units::ByteExtent;

use crate::driver::virtual_device::{VirtualCompletion, VirtualDevice, VirtualOperation};

/// Reads give zeroes, writes are lost; everything ends at once.
#[derive(Debug)]
pub(crate) struct Nothing {
    size: u64,
    ended: VecDeque<(Instant, u64)>,
}

impl Nothing {
    /// Nothing, of so many bytes.
    pub(crate) fn new(size: u64) -> Nothing {
        Nothing { size, ended: VecDeque::new() }
    }
}

impl VirtualDevice for Nothing {
    fn size(&self) -> u64 {
        self.size
    }

    fn identity(&self) -> String {
        "nothing".into()
    }

    fn submit(&mut self, now: Instant, token: u64, _operation: VirtualOperation) {
        self.ended.push_back((now, token));
    }

    fn poll(&mut self, _now: Instant) -> Option<VirtualCompletion> {
        let (_, token) = self.ended.pop_front()?;
        Some(VirtualCompletion { token, result: Ok(()) })
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.ended.front().map(|(since, _)| *since)
    }

    fn read(&mut self, _offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        into.fill(0);
        Ok(())
    }

    fn write(&mut self, _offset: u64, _from: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }

    fn zero(&mut self, _extent: ByteExtent) -> Result<(), DeviceError> {
        Ok(())
    }
}
