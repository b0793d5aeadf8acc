//! What the start of a server found on its cache device.

use kickcache_engine::stats::Status;
use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::{BLOCK_SIZE, VolumeId};

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovery {
    pub took: Duration,
    ended: Instant,
    /// For each volume, the bytes of its dirty blocks at the end of the recovery.
    dirty: Vec<(VolumeId, u64)>,
}

impl Recovery {
    pub(crate) fn new(began: Instant, ended: Instant, status: &Status) -> Recovery {
        let dirty = status.volumes.iter().map(|volume| (volume.volume, volume.dirty_blocks * BLOCK_SIZE));
        Recovery { took: ended.since(began), ended, dirty: dirty.collect() }
    }

    /// The bytes of a volume's dirty blocks at the end of the recovery; 0 for an unknown volume.
    pub fn dirty_bytes(&self, volume: VolumeId) -> u64 {
        self.dirty.iter().find(|(known, _)| *known == volume).map_or(0, |(_, bytes)| *bytes)
    }

    /// As [`Recovery::dirty_bytes`], but 0 if the volume has had no dirty block at some time since.
    pub fn left_bytes(&self, volume: VolumeId, status: &Status) -> u64 {
        let found = status.volumes.iter().find(|found| found.volume == volume);
        let since = found.and_then(|found| found.dirty_since);
        if since.is_some_and(|since| since <= self.ended) { self.dirty_bytes(volume) } else { 0 }
    }
}
