//! The limits of a volume, as `status` reports them.

use std::num::NonZeroU64;

use kickcache_engine::config::{Room, VolumeSettings};
use kickcache_engine::units::BLOCK_SIZE;
use serde::{Deserialize, Serialize};

use crate::plan::client_cap::ClientCap;

/// The limits of a volume.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LimitsReport {
    /// The share of its part of the log, from 0 to 1, above which dirty blocks are written back during
    /// requests.
    pub dirty_low: f64,
    /// The share above which client writes may be delayed.
    pub dirty_high: f64,
    /// The share at which writes may go through to the origin.
    pub dirty_limit: f64,
    /// Seconds without client requests after which the volume counts as idle.
    pub idle_after_seconds: f64,
    #[serde(default)]
    pub writeback_bytes_per_second: Option<u64>,
    #[serde(default)]
    pub writeback_requests_per_second: Option<u64>,
    #[serde(default)]
    pub client_bytes_per_second: Option<u64>,
    #[serde(default)]
    pub client_requests_per_second: Option<u64>,
    /// How long unused quota accumulates, in seconds, if clients have a cap.
    #[serde(default)]
    pub client_burst_seconds: Option<f64>,
    #[serde(default)]
    pub room_min_bytes: Option<u64>,
    /// The limit of the volume's bytes on the cache device, if it has one.
    #[serde(default)]
    pub room_max_bytes: Option<u64>,
}

impl LimitsReport {
    pub(super) fn new(settings: &VolumeSettings, clients: ClientCap, capacity: u64) -> LimitsReport {
        let room = |room: Option<Room>| room.map(|room| room.blocks(capacity).min(capacity) * BLOCK_SIZE);
        let burst = || clients.burst.as_nanos() as f64 / 1e9;
        LimitsReport {
            dirty_low: part(settings.dirty_low),
            dirty_high: part(settings.dirty_high),
            dirty_limit: part(settings.dirty_limit),
            idle_after_seconds: settings.idle_after.as_nanos() as f64 / 1e9,
            writeback_bytes_per_second: settings.writeback_cap.bytes.map(NonZeroU64::get),
            writeback_requests_per_second: settings.writeback_cap.requests.map(NonZeroU64::get),
            client_bytes_per_second: clients.rate.bytes.map(NonZeroU64::get),
            client_requests_per_second: clients.rate.requests.map(NonZeroU64::get),
            client_burst_seconds: (!clients.rate.is_off()).then(burst),
            room_min_bytes: room(settings.room_min),
            room_max_bytes: room(settings.room_max),
        }
    }
}

/// A part of 1024 as a share, rounded up to the thousandth.
fn part(of_1024: u16) -> f64 {
    (f64::from(of_1024) * 1000.0 / 1024.0).ceil() / 1000.0
}

#[cfg(test)]
mod tests {
    use kickcache_engine::units::VolumeId;

    use super::*;

    #[test]
    fn marks_are_reported_as_they_were_written() {
        let LimitsReport { dirty_low, dirty_high, dirty_limit, idle_after_seconds, .. } =
            LimitsReport::new(&VolumeSettings::new(VolumeId::new(0)), ClientCap::default(), 0);
        assert_eq!([dirty_low, dirty_high, dirty_limit, idle_after_seconds], [0.3, 0.5, 0.7, 0.5]);
    }
}
