//! The devices below a cache model, and their counters.

use kickcache_engine::time::{Instant, earlier};
use kickcache_engine::units::ByteExtent;

use crate::device_model::{DeviceModel, ModelOperation, ModelRequest};
use crate::result::DeviceResult;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Place {
    Cache,
    Origin,
}

pub(crate) type Errand = (Place, ModelOperation, ByteExtent);

struct Tallied {
    model: Box<dyn DeviceModel>,
    result: DeviceResult,
    in_flight: u64,
    busy_since: Instant,
    /// The time of the next completion or internal change.
    next: Option<Instant>,
}

impl Tallied {
    fn new(model: Box<dyn DeviceModel>) -> Tallied {
        let next = model.next_event();
        Tallied { model, result: DeviceResult::default(), in_flight: 0, busy_since: Instant::ZERO, next }
    }

    fn count(&mut self, at: Instant, request: &ModelRequest) {
        match request.operation {
            ModelOperation::Read => {
                self.result.reads += 1;
                self.result.read_bytes += request.length;
            }
            ModelOperation::Write | ModelOperation::WriteDurable => {
                self.result.writes += 1;
                self.result.write_bytes += request.length;
                self.result.written.add(at, request.length);
            }
            ModelOperation::Flush => self.result.flushes += 1,
        }
    }
}

pub struct Devices {
    cache: Option<Tallied>,
    origin: Tallied,
    start: Instant,
}

impl Devices {
    pub fn bare(origin: Box<dyn DeviceModel>) -> Devices {
        Devices { cache: None, origin: Tallied::new(origin), start: Instant::ZERO }
    }

    pub fn cached(cache: Box<dyn DeviceModel>, origin: Box<dyn DeviceModel>) -> Devices {
        Devices { cache: Some(Tallied::new(cache)), ..Devices::bare(origin) }
    }

    pub(crate) fn start_at(&mut self, start: Instant) {
        self.start = start;
        let all = self.cache.iter_mut().chain([&mut self.origin]);
        all.for_each(|device| device.busy_since = start);
    }

    fn get(&mut self, place: Place) -> &mut Tallied {
        match place {
            Place::Cache => self.cache.as_mut().expect("a bare device has no cache device"),
            Place::Origin => &mut self.origin,
        }
    }

    /// Submits an operation to a device; `poll` returns its token when the operation has ended.
    ///
    /// # Panics
    /// If `place` is the cache device, and there is none.
    pub fn submit(&mut self, now: Instant, place: Place, request: ModelRequest) {
        let at = Instant::ZERO.plus(now.since(self.start));
        let device = self.get(place);
        if device.in_flight == 0 {
            device.busy_since = now;
        }
        device.in_flight += 1;
        device.count(at, &request);
        device.model.submit(now, request);
        device.next = device.model.next_event();
    }

    pub(crate) fn send(&mut self, now: Instant, to: Errand, token: u32) {
        let (place, operation, extent) = to;
        let (offset, length) = (extent.start, extent.length);
        self.submit(now, place, ModelRequest { operation, offset, length, token: u64::from(token) });
    }

    pub(crate) fn next_event(&self) -> Option<Instant> {
        earlier(self.cache.as_ref().and_then(|cache| cache.next), self.origin.next)
    }

    pub(crate) fn poll(&mut self, now: Instant) -> Option<(Place, u64)> {
        let start = self.start;
        let cache = self.cache.as_mut().and_then(|cache| cache.poll(start, now));
        let poll_origin = || Some((Place::Origin, self.origin.poll(start, now)?));
        cache.map(|token| (Place::Cache, token)).or_else(poll_origin)
    }

    /// The counters up to `now`, of the cache device and of the origin; they begin again at 0.
    pub(crate) fn take_results(&mut self, now: Instant) -> (Option<DeviceResult>, DeviceResult) {
        let start = self.start;
        for device in self.cache.iter_mut().chain([&mut self.origin]).filter(|device| device.in_flight > 0) {
            device.end_busy(start, now);
        }
        let cache = self.cache.as_mut().map(|cache| std::mem::take(&mut cache.result));
        (cache, std::mem::take(&mut self.origin.result))
    }
}

impl Tallied {
    fn poll(&mut self, start: Instant, now: Instant) -> Option<u64> {
        // A model without a due event is not polled, because a poll may start work.
        if self.next.is_none_or(|at| at > now) {
            return None;
        }
        let token = self.model.poll(now);
        self.next = self.model.next_event();
        let token = token?;
        self.in_flight -= 1;
        if self.in_flight == 0 {
            self.end_busy(start, now);
        }
        Some(token)
    }

    fn end_busy(&mut self, start: Instant, now: Instant) {
        let of_run = |at: Instant| Instant::ZERO.plus(at.since(start));
        self.result.busy.add_span(of_run(self.busy_since), of_run(now));
    }
}
