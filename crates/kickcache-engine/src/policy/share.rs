//! Which device answers what both could: the cache device, unless it is slow and the origin would be sooner.
//!
//! A meter for each device knows how much is in flight there and how fast it went lately; their quotient is how long
//! one request more would take. Behind a cap the sum of both devices serves more than the faster one alone. A flash
//! cache before a rotating disk never comes near the point where this begins.

use crate::time::Instant;

/// A request that the cache device answers within so many nanoseconds stays there.
const SLOW: u64 = 1_000_000;
/// What a request costs beside its bytes, in bytes: a device has a cap on both.
const OVERHEAD: u64 = 48 << 10;
/// A cache device that is slow takes nothing new while one would wait for the origin at most so many times as long: when
/// both have enough to do, what is brought in costs the cache device a write and is not served sooner.
const BUSY_SHARE: u64 = 2;
/// Nanoseconds after which an origin that was not asked is tried again.
const TRY_AGAIN: u64 = 1_000_000_000;
/// Nanoseconds for which an origin that failed is not asked.
const AVOID: u64 = 10_000_000_000;
/// Busy nanoseconds that make a measurement: caps let pass what they have for a slice of time at once. So many
/// requests are enough for a first one.
const WINDOW: u64 = 200_000_000;
const FIRST_COUNT: u32 = 8;
/// Scale of the pace: nanoseconds for so many bytes.
const SCALE: u64 = 1 << 20;

/// Where something is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Cache,
    Origin,
}

/// The work of one device for one volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Meter {
    in_flight: u64,
    /// Nanoseconds for `SCALE` bytes of work; 0 if not known.
    pace: u64,
    /// When something began or ended last while it was at work.
    at: Instant,
    time: u64,
    done: u64,
    count: u32,
}

impl Meter {
    fn begin(&mut self, now: Instant, work: u64) {
        if self.in_flight == 0 {
            self.at = now;
        }
        self.in_flight += work;
    }

    fn end(&mut self, now: Instant, work: u64) {
        self.in_flight = self.in_flight.saturating_sub(work);
        self.time += now.since(self.at).as_nanos();
        self.at = now;
        self.done += work;
        self.count += 1;
        let is_first = self.count == FIRST_COUNT && self.pace == 0;
        if self.time < WINDOW && !is_first {
            return;
        }
        let pace = self.time.saturating_mul(SCALE) / self.done.max(1);
        // A device that has little to do seems slow: what it could do before counts for a while.
        self.pace = match self.pace {
            0 => pace.max(1),
            known if pace < known => (known + pace) / 2,
            known => known + (pace - known) / 8,
        };
        if !is_first {
            (self.time, self.done) = (0, 0);
        }
    }

    /// Nanoseconds until `work` more would be done.
    fn expected(&self, work: u64) -> u64 {
        (self.in_flight + work).saturating_mul(self.pace) / SCALE
    }
}

/// The policy's memory for one volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Share {
    cache: Meter,
    origin: Meter,
    avoid_until: Instant,
}

const fn work_of(bytes: u64) -> u64 {
    bytes + OVERHEAD
}

impl Share {
    /// Where so many bytes are to be served that both devices have, or may get.
    pub(crate) fn choose(&self, now: Instant, bytes: u64) -> Source {
        let work = work_of(bytes);
        let cache = self.cache.expected(work);
        if cache < SLOW || now < self.avoid_until {
            return Source::Cache;
        }
        let is_idle = self.origin.in_flight == 0;
        let is_forgotten = now.since(self.origin.at).as_nanos() >= TRY_AGAIN || self.origin.pace == 0;
        if is_idle && is_forgotten {
            return Source::Origin;
        }
        let is_known = self.origin.pace > 0;
        if is_known && self.origin.expected(work) < cache { Source::Origin } else { Source::Cache }
    }

    fn meter(&mut self, source: Source) -> &mut Meter {
        match source {
            Source::Cache => &mut self.cache,
            Source::Origin => &mut self.origin,
        }
    }

    /// Whether the cache device has so much to do with what it holds that it is to take no more.
    pub(crate) fn is_cache_behind(&self, now: Instant, bytes: u64) -> bool {
        let waits = self.cache.expected(0);
        let is_busy = waits >= SLOW && waits * BUSY_SHARE >= self.origin.expected(work_of(bytes));
        is_busy || self.choose(now, bytes) == Source::Origin
    }

    /// A device begins to serve so many bytes.
    pub(crate) fn on_begin(&mut self, now: Instant, source: Source, bytes: u64) {
        self.meter(source).begin(now, work_of(bytes));
    }

    /// It has.
    pub(crate) fn on_end(&mut self, now: Instant, source: Source, bytes: u64) {
        self.meter(source).end(now, work_of(bytes));
    }

    /// The origin could not.
    pub(crate) fn on_error(&mut self, now: Instant) {
        self.avoid_until = now.plus(crate::time::Duration::from_nanos(AVOID));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What both devices did in a second of 64 requests in flight, one request each so many microseconds.
    fn serve(cache_micros: u64, origin_micros: u64) -> [u64; 2] {
        let mut share = Share::default();
        let mut served = [0, 0];
        let mut free = [0, 0];
        let mut in_flight = alloc::collections::BTreeSet::new();
        let mut now = 0;
        for number in 0..u64::MAX {
            if in_flight.len() == 64 {
                let (at, _, index): (u64, u64, usize) = in_flight.pop_first().unwrap();
                now = at;
                let source = if index == 0 { Source::Cache } else { Source::Origin };
                share.on_end(Instant::from_nanos(now), source, 4096);
                served[index] += 1;
            }
            if now >= 1_000_000_000 {
                break;
            }
            let source = share.choose(Instant::from_nanos(now), 4096);
            let index = usize::from(source == Source::Origin);
            share.on_begin(Instant::from_nanos(now), source, 4096);
            free[index] = free[index].max(now) + [cache_micros, origin_micros][index] * 1_000;
            in_flight.insert((free[index], number, index));
        }
        served
    }

    #[test]
    fn two_slow_devices_serve_what_both_can() {
        let [cache, origin] = serve(357, 410);
        assert!((2_700..2_810).contains(&cache), "{cache}");
        assert!((2_300..2_450).contains(&origin), "{origin}");
    }

    #[test]
    fn a_cache_device_with_a_queue_takes_nothing_new_until_the_origin_has_a_longer_one() {
        let (mut share, at) = (Share::default(), Instant::from_nanos);
        for source in [Source::Cache, Source::Origin] {
            (0..64).for_each(|_| share.on_begin(at(0), source, 4096));
            (1..=64).for_each(|number| share.on_end(at(number * 400_000), source, 4096));
        }
        let now = at(26_000_000);
        assert!(!share.is_cache_behind(now, 4096), "nothing is in flight");
        (0..10).for_each(|_| share.on_begin(now, Source::Cache, 4096));
        assert!(share.is_cache_behind(now, 4096));
        (0..15).for_each(|_| share.on_begin(now, Source::Origin, 4096));
        assert_eq!(share.choose(now, 4096), Source::Cache);
        assert!(share.is_cache_behind(now, 4096), "both have enough to do");
        (0..15).for_each(|_| share.on_begin(now, Source::Origin, 4096));
        assert!(!share.is_cache_behind(now, 4096));
    }

    #[test]
    fn a_fast_cache_device_is_left_alone() {
        let [cache, origin] = serve(10, 8_000);
        assert!(cache > 99_000);
        assert_eq!(origin, 0);
    }

    #[test]
    fn a_much_slower_origin_is_only_tried() {
        let [_, origin] = serve(357, 100_000);
        assert!(origin <= 3, "{origin}");
    }
}
