//! What the policy that shares work out between the devices is told of long writes.

use crate::inflight::requests::{RequestSlot, Route, Source as Payload};
use crate::policy::share::Source;
use crate::state::State;
use crate::units::VolumeId;

/// Shorter writes share batches in the log, which no device takes sooner.
const LONG_WRITE: u64 = 64 << 10;

impl State {
    /// Whether a long write is done sooner at the origin than in the log.
    pub(crate) fn is_origin_sooner(&self, volume: VolumeId, bytes: u64) -> bool {
        bytes >= LONG_WRITE && self.volume(volume).share.choose(self.now, bytes) == Source::Origin
    }

    /// A write sets out on its route.
    pub(crate) fn meter_write(&mut self, slot: RequestSlot) {
        let pending = self.requests.get_mut(slot);
        let volume = pending.volume;
        let writing = pending.writing();
        let bytes = writing.extent.length;
        let source = match writing.route {
            Route::Log => Source::Cache,
            Route::Around => Source::Origin,
            Route::LogThrough | Route::Through => return,
        };
        if bytes < LONG_WRITE || writing.source == Payload::Zeroes || writing.metered.is_some() {
            return;
        }
        writing.metered = Some(source);
        let now = self.now;
        self.volume_mut(volume).share.on_begin(now, source, bytes);
    }

    /// A write has come to the end of its route, or begins again.
    pub(crate) fn end_metered(&mut self, slot: RequestSlot) {
        let pending = self.requests.get_mut(slot);
        let volume = pending.volume;
        let writing = pending.writing();
        let bytes = writing.extent.length;
        if let Some(source) = writing.metered.take() {
            let now = self.now;
            self.volume_mut(volume).share.on_end(now, source, bytes);
        }
    }
}
