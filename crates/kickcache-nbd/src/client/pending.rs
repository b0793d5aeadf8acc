//! The requests of a client that are in flight.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};

use super::coverage::Coverage;
use super::error::ClientError;
use crate::reply::{NbdErrno, StatusExtent};

/// The fields of a request in flight that are needed to read its reply.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) offset: u64,
    /// Bytes of data that a successful reply carries: 0 except for a read.
    pub(super) data_length: usize,
    pub(super) gathered: ReceivedChunks,
}

#[derive(Debug, Default)]
pub(super) struct ReceivedChunks {
    pub(super) data: Vec<u8>,
    pub(super) covered: Coverage,
    pub(super) extents: Vec<StatusExtent>,
    pub(super) error: Option<(NbdErrno, String)>,
}

/// The requests queued or in flight, by cookie; shared by the two halves.
#[derive(Debug, Default)]
pub(super) struct Pending {
    requests: Mutex<HashMap<u64, InFlight>>,
}

impl Pending {
    pub(super) fn insert(&self, cookie: u64, request: InFlight) -> Result<(), ClientError> {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        match requests.entry(cookie) {
            Entry::Occupied(_) => Err(ClientError::CookieInFlight(cookie)),
            Entry::Vacant(place) => {
                place.insert(request);
                Ok(())
            }
        }
    }

    pub(super) fn take(&self, cookie: u64) -> Option<InFlight> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).remove(&cookie)
    }

    pub(super) fn put_back(&self, cookie: u64, request: InFlight) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).insert(cookie, request);
    }

    /// Bytes of data a successful reply carries; `None` if no such request is in flight.
    pub(super) fn data_length(&self, cookie: u64) -> Option<usize> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.get(&cookie).map(|request| request.data_length)
    }

    pub(super) fn len(&self) -> usize {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
