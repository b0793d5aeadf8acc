//! What is known of an origin before it is asked for more: its load, and how long a random read takes.

use crate::policy::load::Load;
use crate::time::{Duration, Instant};
use crate::units::ByteExtent;

/// A read that begins at most this many bytes from where the last one ended is not a random one.
const NEAR: u64 = 1 << 20;
/// Nanoseconds after which a random read's latency is not known any more.
const FORGET: u64 = 60_000_000_000;
/// Nanoseconds for which an origin that failed is not asked.
const AVOID: u64 = 10_000_000_000;

/// The policy's memory of an origin. Its latencies are of the wall clock: what a late processor adds makes it look slower.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct OriginLoad {
    pub(crate) load: Load,
    /// A random read in flight that is timed: its first byte, and when it began.
    timed: Option<(u64, Instant)>,
    last_end: u64,
    /// Mean nanoseconds of the last random reads, and when that was.
    random_read: u64,
    random_at: Instant,
    avoid_until: Instant,
}

impl OriginLoad {
    /// A read of which the end will be told with the same extent.
    pub(crate) fn begin_read(&mut self, now: Instant, extent: ByteExtent) {
        self.load.begin(now, extent.length);
        if self.timed.is_none() && extent.start.abs_diff(self.last_end) > NEAR {
            self.timed = Some((extent.start, now));
        }
        self.last_end = extent.end();
    }

    pub(crate) fn end_read(&mut self, now: Instant, extent: ByteExtent) {
        self.load.end(now, extent.length);
        let Some((_, begun)) = self.timed.take_if(|(start, _)| *start == extent.start) else { return };
        let nanos = now.since(begun).as_nanos();
        self.random_read = match self.random_read {
            0 => nanos,
            known => (7 * known + nanos) / 8,
        };
        self.random_at = now;
    }

    /// Mean nanoseconds of a random read, if there was one lately.
    pub(crate) fn random_read(&self, now: Instant) -> Option<u64> {
        let is_known = self.random_read > 0 && now.since(self.random_at).as_nanos() < FORGET;
        is_known.then_some(self.random_read)
    }

    pub(crate) fn on_error(&mut self, now: Instant) {
        self.avoid_until = now.plus(Duration::from_nanos(AVOID));
    }

    /// Whether it failed lately.
    pub(crate) fn is_avoided(&self, now: Instant) -> bool {
        now < self.avoid_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn read(origin: &mut OriginLoad, from: u64, millis: u64, start: u64) {
        let extent = ByteExtent { start, length: 4096 };
        origin.begin_read(at(from), extent);
        origin.end_read(at(from + millis), extent);
    }

    #[test]
    fn only_random_reads_tell_how_long_they_take() {
        let mut origin = OriginLoad::default();
        read(&mut origin, 0, 1, 4096);
        assert_eq!(origin.random_read(at(1)), None, "near the beginning");
        read(&mut origin, 10, 8, 100 << 20);
        assert_eq!(origin.random_read(at(20)), Some(8_000_000));
        (0..100).for_each(|number| read(&mut origin, 20 + number, 1, (100 << 20) + (number + 1) * 4096));
        assert_eq!(origin.random_read(at(200)), Some(8_000_000));
        assert_eq!(origin.random_read(at(60_018)), None, "a minute ago");
    }

    #[test]
    fn an_origin_that_failed_is_left_alone_for_a_while() {
        let mut origin = OriginLoad::default();
        assert!(!origin.is_avoided(at(0)));
        origin.on_error(at(1));
        assert!(origin.is_avoided(at(10_000)) && !origin.is_avoided(at(10_001)));
    }
}
