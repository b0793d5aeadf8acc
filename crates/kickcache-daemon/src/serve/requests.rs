//! Requests in flight in the engine, and their front ends.

use kickcache_engine::request::{Operation, RequestId};
use kickcache_engine::time::Instant;
use kickcache_engine::units::VolumeId;

use crate::serve::frontend::kinds::Pending;

#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) volume: VolumeId,
    pub(crate) operation: Operation,
    /// The bytes of the request's extent; 0 for a flush.
    pub(crate) bytes: u64,
    /// The time at which the request was passed to the engine, after any wait for a cap or another engine.
    pub(crate) begun: Instant,
    pub(crate) pending: Pending,
}

/// The requests in flight, by their numbers from the buffers.
#[derive(Default)]
pub(crate) struct Requests {
    slots: Vec<Option<InFlight>>,
    count: usize,
}

impl Requests {
    pub(crate) fn insert(&mut self, id: RequestId, request: InFlight) {
        let index = index(id);
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        let before = self.slots[index].replace(request);
        assert!(before.is_none(), "request {id:?} is in flight already");
        self.count += 1;
    }

    /// # Panics
    /// If the engine answers a request twice, or an unknown one.
    pub(crate) fn remove(&mut self, id: RequestId) -> InFlight {
        let request = self.slots.get_mut(index(id)).and_then(Option::take);
        self.count -= 1;
        request.expect("the engine answers each request once")
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

fn index(id: RequestId) -> usize {
    usize::try_from(id.get()).expect("usize has at least 32 bits")
}
