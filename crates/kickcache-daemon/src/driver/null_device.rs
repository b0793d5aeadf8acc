//! A device that stores no data.

use std::collections::VecDeque;
use std::io::IoSliceMut;

use kickcache_engine::time::Instant;
use kickcache_engine::units::ByteExtent;

use crate::driver::queued_device::{QueuedDevice, QueuedEnd, QueuedRequest};

/// Reads return zeroes, writes are dropped; every operation ends at once.
#[derive(Debug, Default)]
pub(crate) struct NullDevice {
    ended: VecDeque<(Instant, u64)>,
}

impl QueuedDevice for NullDevice {
    fn submit(&mut self, now: Instant, token: u64, _request: QueuedRequest<'_>) {
        self.ended.push_back((now, token));
    }

    fn poll(&mut self, _now: Instant) -> Option<QueuedEnd> {
        let (_, token) = self.ended.pop_front()?;
        Some(QueuedEnd { token, result: Ok(()) })
    }

    fn take_read(&mut self, _token: u64, _extent: ByteExtent, into: &mut [IoSliceMut<'_>]) {
        into.iter_mut().for_each(|piece| piece.fill(0));
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.ended.front().map(|(since, _)| *since)
    }
}
