//! Measurements for the policy that offloads work to an origin.

use crate::ids::RequestSlot;
use crate::inflight::writing::{Metered, Route, WriteData};
use crate::policy::load::work_of;
use crate::policy::offload::{Began, Clock, Kind, ServedBy};
use crate::policy::trials::ServedLoad;
use crate::state::State;
use crate::stats::VolumeCounters;
use crate::time::Instant;
use crate::units::{BLOCK_SIZE, ByteExtent, VolumeId};

/// The least bytes of a write that may be offloaded to the origin.
const LONG_WRITE: u64 = 64 << 10;

impl State {
    fn clock(&self) -> Clock {
        Clock { now: self.now, device: self.device_time }
    }

    /// Whether the origin should serve a hit of this many bytes.
    pub(crate) fn is_offloaded(&self, volume: VolumeId, bytes: u64) -> bool {
        self.volumes.get(volume).offload.choose(self.now, Kind::Read, bytes) == ServedBy::Origin
    }

    /// Whether the origin should store a write of this many bytes instead of the log.
    pub(crate) fn is_origin_sooner(&self, volume: VolumeId, bytes: u64) -> bool {
        bytes >= LONG_WRITE
            && self.volumes.get(volume).offload.choose(self.now, Kind::Write, bytes) == ServedBy::Origin
    }

    /// Whether the cache device is so busy that misses of this many bytes should not be filled.
    pub(crate) fn is_cache_behind(&self, volume: VolumeId, bytes: u64) -> bool {
        self.volumes.get(volume).offload.is_cache_behind(self.now, bytes)
    }

    /// Begins to measure a hit; returns its start for [`State::end_metered_hit`].
    pub(crate) fn begin_metered_hit(&mut self, volume: VolumeId, count: u32) -> Instant {
        let clock = self.clock();
        self.volumes.get_mut(volume).offload.begin(clock, u64::from(count) * BLOCK_SIZE);
        clock.device
    }

    #[inline]
    pub(crate) fn end_metered_hit(&mut self, volume: VolumeId, begun: Instant, count: u32) {
        let clock = self.clock();
        let found = self.volumes.get_mut(volume);
        if found.offload.end(clock, Began { kind: Kind::Read, at: begun }, u64::from(count) * BLOCK_SIZE) {
            found.offload.look(clock.now, served(&found.counters));
        }
    }

    pub(crate) fn begin_metered_read(&mut self, volume: VolumeId, extent: ByteExtent) {
        let now = self.now;
        self.volumes.get_mut(volume).offload.begin_origin_read(now, extent);
    }

    pub(crate) fn end_metered_read(&mut self, volume: VolumeId, extent: ByteExtent) {
        let now = self.now;
        self.volumes.get_mut(volume).offload.origin.end_read(now, extent);
    }

    pub(crate) fn begin_metered_writeback_read(&mut self, volume: VolumeId, count: usize) {
        let clock = self.clock();
        self.volumes.get_mut(volume).offload.begin_writeback_read(clock, count as u64 * BLOCK_SIZE);
    }

    pub(crate) fn end_metered_writeback_read(&mut self, volume: VolumeId, count: usize) {
        let clock = self.clock();
        self.volumes.get_mut(volume).offload.end_writeback_read(clock, count as u64 * BLOCK_SIZE);
    }

    pub(crate) fn begin_metered_writeback(&mut self, volume: VolumeId, bytes: u64) {
        let now = self.now;
        self.volumes.get_mut(volume).offload.origin.begin_writeback(now, bytes);
    }

    pub(crate) fn end_metered_writeback(&mut self, volume: VolumeId, bytes: u64) {
        let now = self.now;
        self.volumes.get_mut(volume).offload.origin.end_writeback(now, bytes);
    }

    /// Begins to measure a long write on some routes.
    pub(crate) fn meter_write(&mut self, slot: RequestSlot, route: Route) {
        let clock = self.clock();
        let pending = self.requests.get_mut(slot);
        let volume = pending.volume;
        let writing = pending.writing();
        let bytes = writing.extent.length;
        let source = match route {
            Route::Log => ServedBy::Cache,
            Route::Around | Route::Supersede => ServedBy::Origin,
            Route::LogThrough | Route::Through => return,
        };
        if bytes < LONG_WRITE || writing.source == WriteData::Zeroes || writing.metered.is_some() {
            return;
        }
        writing.metered = Some(Metered { source, begun: clock.device });
        let offload = &mut self.volumes.get_mut(volume).offload;
        match source {
            ServedBy::Cache => offload.begin(clock, bytes),
            ServedBy::Origin => offload.begin_origin_write(clock.now, bytes),
        }
    }

    pub(crate) fn end_metered(&mut self, slot: RequestSlot) {
        let clock = self.clock();
        let pending = self.requests.get_mut(slot);
        let volume = pending.volume;
        let writing = pending.writing();
        let bytes = writing.extent.length;
        let Some(Metered { source, begun }) = writing.metered.take() else { return };
        let found = self.volumes.get_mut(volume);
        match source {
            ServedBy::Origin => found.offload.origin.end_write(clock.now, bytes),
            ServedBy::Cache => {
                if found.offload.end(clock, Began { kind: Kind::Write, at: begun }, bytes) {
                    found.offload.look(clock.now, served(&found.counters));
                }
            }
        }
    }
}

const fn served(counters: &VolumeCounters) -> ServedLoad {
    let requests = counters.reads + counters.writes;
    ServedLoad { requests, work: work_of(requests, counters.read_bytes + counters.write_bytes), by_cache: 0 }
}
