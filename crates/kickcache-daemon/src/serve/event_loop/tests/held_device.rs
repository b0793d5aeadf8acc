//! An origin whose requests end when a test ends them.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::sync::{Mutex, MutexGuard};

use kickcache_engine::request::{Durability, Unmap};
use kickcache_engine::units::ByteExtent;

use super::*;
use crate::driver::queued_device::{QueuedDevice, QueuedEnd, QueuedRequest};

/// A request that the origin received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OriginRequest {
    Read,
    Write(Durability),
    Flush,
    Discard,
    Zeroes(Unmap, Durability),
}

/// The test's side of the origin.
#[derive(Clone, Default)]
pub(super) struct HeldRequests(Arc<Mutex<Requests>>);

#[derive(Default)]
struct Requests {
    held: VecDeque<u64>,
    sent: Vec<OriginRequest>,
    ended: VecDeque<QueuedEnd>,
}

impl HeldRequests {
    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap()
    }

    /// The requests so far.
    pub(super) fn sent(&self) -> Vec<OriginRequest> {
        self.lock().sent.clone()
    }

    /// Requests that have not ended.
    pub(super) fn count(&self) -> usize {
        self.lock().held.len()
    }

    /// Ends the oldest request.
    pub(super) fn end(&self, result: Result<(), i32>) {
        let mut requests = self.lock();
        let token = requests.held.pop_front().expect("a request is held");
        requests.ended.push_back(QueuedEnd { token, result });
    }
}

pub(super) struct HeldDevice(pub(super) HeldRequests);

impl QueuedDevice for HeldDevice {
    fn submit(&mut self, _now: Instant, token: u64, request: QueuedRequest<'_>) {
        let sent = match request {
            QueuedRequest::Read(_) => OriginRequest::Read,
            QueuedRequest::Write { durability, .. } => OriginRequest::Write(durability),
            QueuedRequest::Flush => OriginRequest::Flush,
            QueuedRequest::Discard(_) => OriginRequest::Discard,
            QueuedRequest::WriteZeroes { unmap, durability, .. } => OriginRequest::Zeroes(unmap, durability),
        };
        let mut requests = self.0.lock();
        requests.held.push_back(token);
        requests.sent.push(sent);
    }

    fn poll(&mut self, _now: Instant) -> Option<QueuedEnd> {
        self.0.lock().ended.pop_front()
    }

    fn take_read(&mut self, _token: u64, _extent: ByteExtent, into: &mut [IoSliceMut<'_>]) {
        into.iter_mut().for_each(|piece| piece.fill(7));
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.0.lock().ended.front().map(|_| Instant::ZERO)
    }
}
