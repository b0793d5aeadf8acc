//! The delay of client writes while room for dirty blocks is short or the volume is drained, so that clients match the
//! rate of writeback.
//!
//! Up to a longest delay, consecutive writes of a volume have a minimum distance, a hyperbola of the shortage: zero
//! without a shortage, and at half of [`SHORTAGE_MAX`] the time in which writeback cleans as many blocks. (Source:
//! ZFS's write throttle.)
//!
//! Invariants:
//! * T-1: the delay of a write is bounded, and zero before the rate of writeback is measured.

use crate::time::{Duration, Instant};

/// The largest shortage.
pub(crate) const SHORTAGE_MAX: u64 = 1024;
/// Shorter delays are skipped, in nanoseconds.
const WAIT_MIN: u64 = 20_000;
/// Nanoseconds of writeback for a measurement, and blocks for the first one.
const WINDOW: u64 = 200_000_000;
const FIRST_COUNT: u64 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Throttle {
    in_flight: u64,
    at: Instant,
    /// Of the current measurement: time with a writeback in flight, and blocks of writebacks that ended.
    time: u64,
    blocks: u64,
    each: u64,
    /// The earliest start of the next write by the shortage.
    next: Instant,
}

impl Throttle {
    fn pass(&mut self, now: Instant) {
        if self.in_flight > 0 {
            self.time += now.since(self.at).as_nanos();
        }
        self.at = now;
    }

    pub(crate) fn begin(&mut self, now: Instant) {
        self.pass(now);
        self.in_flight += 1;
    }

    pub(crate) fn end(&mut self, now: Instant, blocks: u64) {
        self.pass(now);
        self.in_flight = self.in_flight.saturating_sub(1);
        self.blocks += blocks;
        let is_first = self.each == 0 && self.blocks >= FIRST_COUNT;
        if self.blocks > 0 && (is_first || self.time >= WINDOW) {
            let each = (self.time / self.blocks).max(1);
            self.each = if self.each == 0 { each } else { (self.each + each) / 2 };
            (self.time, self.blocks) = (0, 0);
        }
    }

    /// Nanoseconds of writeback for each block, 0 before the first measurement.
    pub(crate) fn each(&self) -> u64 {
        self.each
    }

    /// The start of a write of this many blocks, at a shortage in parts of [`SHORTAGE_MAX`], at the latest after
    /// `wait_max`.
    pub(crate) fn admit(&mut self, now: Instant, blocks: u64, shortage: u64, wait_max: Duration) -> Instant {
        if shortage == 0 || self.each == 0 {
            self.next = now;
            return now;
        }
        let left = SHORTAGE_MAX.saturating_sub(shortage).max(1);
        let distance = self.each.saturating_mul(blocks).saturating_mul(shortage) / left;
        let latest = now.plus(wait_max);
        let at = self.next.max(now).min(latest);
        self.next = at.plus(Duration::from_nanos(distance)).min(latest);
        if at.since(now).as_nanos() < WAIT_MIN { now } else { at }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const WAIT_MAX: Duration = Duration::from_millis(100);

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    /// Writeback takes 10 ms a block.
    fn throttle() -> Throttle {
        let mut throttle = Throttle::default();
        throttle.begin(at(0));
        throttle.end(at(80_000), 8);
        throttle
    }

    /// The start of the second of two simultaneous writes.
    fn second(mut throttle: Throttle, blocks: u64, shortage: u64) -> Instant {
        let now = at(1_000_000);
        assert_eq!(throttle.admit(now, blocks, shortage, WAIT_MAX), now);
        throttle.admit(now, blocks, shortage, WAIT_MAX)
    }

    #[test]
    fn halfway_clients_write_as_fast_as_writeback_goes() {
        assert_eq!(second(throttle(), 1, SHORTAGE_MAX / 2), at(1_010_000));
        assert_eq!(second(throttle(), 3, SHORTAGE_MAX / 2), at(1_030_000));
        assert_eq!(second(throttle(), 1, SHORTAGE_MAX * 3 / 4), at(1_030_000));
        assert_eq!(second(throttle(), 1, SHORTAGE_MAX / 4), at(1_003_333).plus(Duration::from_nanos(333)));
        assert_eq!(second(throttle(), 1, 0), at(1_000_000));
    }

    #[test]
    fn the_wait_grows_with_the_shortage_and_has_a_bound() {
        let waits: Vec<_> = (0..=SHORTAGE_MAX).map(|shortage| second(throttle(), 1, shortage)).collect();
        assert!(waits.is_sorted());
        assert_eq!(waits.last(), Some(&at(1_000_000).plus(WAIT_MAX)));
        let mut throttle = throttle();
        let last = (0..1_000).map(|_| throttle.admit(at(0), 1, SHORTAGE_MAX / 2, WAIT_MAX)).last();
        assert_eq!(last, Some(at(0).plus(WAIT_MAX)));
    }

    #[test]
    fn no_write_waits_for_an_unknown_origin() {
        assert_eq!(second(Throttle::default(), 1, SHORTAGE_MAX), at(1_000_000));
    }
}
