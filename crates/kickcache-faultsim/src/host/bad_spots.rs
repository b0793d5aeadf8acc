//! Blocks of the cache device on which reads of data fail for the rest of a life, even after they are written again;
//! reads of metadata succeed.

use std::collections::BTreeSet;

use kickcache_engine::device::DeviceOperation;
use kickcache_engine::time::Instant;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};

pub const BAD_SPOTS_MAX: u64 = 4;
/// Reads of each bad spot that an engine may try per second by itself, in addition to the reads that clients request.
const TRIES_PER_SECOND: u64 = 4;
/// Reads of each bad spot that are allowed in addition at any time.
const TRIES_AT_ONCE: u64 = 200;

#[derive(Clone, Debug, Default)]
pub struct BadSpots {
    places: BTreeSet<u64>,
    since: Option<Instant>,
    failed: u64,
    requests: u64,
}

impl BadSpots {
    pub fn add(&mut self, place: u64) {
        if self.count() < BAD_SPOTS_MAX {
            self.places.insert(place / BLOCK_SIZE * BLOCK_SIZE);
        }
    }

    pub fn count(&self) -> u64 {
        self.places.len() as u64
    }

    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Whether a submission to the cache device fails because it is a read of data from a bad spot.
    pub(super) fn meets(&self, operation: &DeviceOperation, extent: ByteExtent) -> bool {
        let is_read = matches!(operation, DeviceOperation::Read { .. });
        is_read && self.places.range(extent.start..extent.end()).next().is_some()
    }

    pub(super) fn count_request(&mut self) {
        self.requests += 1;
    }

    /// # Errors
    /// If more reads have failed than the limits allow.
    pub(super) fn count_failed(&mut self, now: Instant) -> Result<(), String> {
        let since = *self.since.get_or_insert(now);
        self.failed += 1;
        let seconds = now.since(since).as_nanos() / 1_000_000_000;
        let tries = self.count() * (TRIES_AT_ONCE + seconds * TRIES_PER_SECOND);
        if self.failed > tries + self.requests * 2 * self.count() {
            return Err(format!("{} reads of {} blocks that cannot be read", self.failed, self.count()));
        }
        Ok(())
    }
}
