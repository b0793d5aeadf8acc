//! Measurements for the policy that offloads work to an origin, and its decisions.

use crate::ids::RequestSlot;
use crate::inflight::writing::{Metered, Route, WriteData};
use crate::policy::load::work_of;
use crate::policy::offload::{Began, Clock, Kind, ServedBy};
use crate::policy::trials::ServedLoad;
use crate::state::State;
use crate::stats::VolumeCounters;
use crate::time::Instant;
use crate::units::{BLOCK_SIZE, ByteExtent, VolumeId};

/// Only writes of at least this many bytes may be offloaded to the origin: shorter ones share batches in the log.
const LONG_WRITE: u64 = 64 << 10;

impl State {
    fn clock(&self) -> Clock {
        Clock { now: self.now, device: self.device_time }
    }

    /// Whether the origin should serve a hit of this many bytes.
    pub(crate) fn is_offloaded(&self, volume: VolumeId, bytes: u64) -> bool {
        self.volumes.get(volume).offload.choose(self.now, Kind::Read, bytes) == ServedBy::Origin
    }

    /// Whether the origin should store a write of this many bytes instead of the log: only a long write.
    pub(crate) fn is_origin_sooner(&self, volume: VolumeId, bytes: u64) -> bool {
        bytes >= LONG_WRITE
            && self.volumes.get(volume).offload.choose(self.now, Kind::Write, bytes) == ServedBy::Origin
    }

    /// Whether the cache device is so busy that misses of this many bytes should not be filled.
    pub(crate) fn is_cache_behind(&self, volume: VolumeId, bytes: u64) -> bool {
        self.volumes.get(volume).offload.is_cache_behind(self.now, bytes)
    }

    /// The cache device begins to read blocks for a hit; returns the time, by its own clock.
    pub(crate) fn begin_metered_hit(&mut self, volume: VolumeId, count: u32) -> Instant {
        let clock = self.clock();
        self.volumes.get_mut(volume).offload.begin(clock, u64::from(count) * BLOCK_SIZE);
        clock.device
    }

    /// A read of blocks from the cache device has ended; `begun` is the time that [`State::begin_metered_hit`]
    /// returned.
    #[inline]
    pub(crate) fn end_metered_hit(&mut self, volume: VolumeId, begun: Instant, count: u32) {
        let clock = self.clock();
        let found = self.volumes.get_mut(volume);
        if found.offload.end(clock, Began { kind: Kind::Read, at: begun }, u64::from(count) * BLOCK_SIZE) {
            found.offload.look(clock.now, served(&found.counters));
        }
    }

    /// A read of an extent is queued at the origin; the caller reports its end with [`State::end_metered_read`].
    pub(crate) fn begin_metered_read(&mut self, volume: VolumeId, extent: ByteExtent) {
        let now = self.now;
        self.volumes.get_mut(volume).offload.begin_origin_read(now, extent);
    }

    /// A read of an extent from the origin has ended, with success or not.
    pub(crate) fn end_metered_read(&mut self, volume: VolumeId, extent: ByteExtent) {
        let now = self.now;
        self.volumes.get_mut(volume).offload.origin.end_read(now, extent);
    }

    /// The cache device begins to read blocks for writeback.
    pub(crate) fn begin_metered_writeback_read(&mut self, volume: VolumeId, count: usize) {
        let clock = self.clock();
        self.volumes.get_mut(volume).offload.begin_writeback_read(clock, count as u64 * BLOCK_SIZE);
    }

    /// The cache device's read of blocks for writeback has ended, with success or not.
    pub(crate) fn end_metered_writeback_read(&mut self, volume: VolumeId, count: usize) {
        let clock = self.clock();
        self.volumes.get_mut(volume).offload.end_writeback_read(clock, count as u64 * BLOCK_SIZE);
    }

    /// The write of a writeback is queued at the origin.
    pub(crate) fn begin_metered_writeback(&mut self, volume: VolumeId, bytes: u64) {
        let now = self.now;
        self.volumes.get_mut(volume).offload.origin.begin_writeback(now, bytes);
    }

    /// The write of a writeback has ended.
    pub(crate) fn end_metered_writeback(&mut self, volume: VolumeId, bytes: u64) {
        let now = self.now;
        self.volumes.get_mut(volume).offload.origin.end_writeback(now, bytes);
    }

    /// A write begins on its route: measures a long write with data, unless both log and origin store it, or the cache
    /// device is out of service.
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

    /// A write has ended on its route, or begins again: its measurement ends, if there is one.
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

/// The reads and writes of a volume's clients so far; the part of the cache device is left out.
const fn served(counters: &VolumeCounters) -> ServedLoad {
    let requests = counters.reads + counters.writes;
    ServedLoad { requests, work: work_of(requests, counters.read_bytes + counters.write_bytes), by_cache: 0 }
}
