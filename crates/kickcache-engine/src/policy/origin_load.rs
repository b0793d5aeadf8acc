//! The load of an origin, and the latency of a random read.

use crate::policy::load::Load;
use crate::time::{Duration, Instant};
use crate::units::ByteExtent;

/// A read that begins at most this many bytes from the end of the last read is not random.
const NEAR: u64 = 1 << 20;
/// Nanoseconds after which the latency of a random read is no longer valid.
const FORGET: u64 = 60_000_000_000;
/// Nanoseconds after a failed read of cached blocks during which the origin is avoided.
const AVOID: u64 = 10_000_000_000;
/// Nanoseconds with more than one read in flight that make a measurement.
const WINDOW: u64 = 200_000_000;
/// Nanoseconds after which a measurement of small reads is no longer valid.
const FORGET_LIMIT: u64 = 600_000_000_000;
/// Reads are small up to this many bytes.
const SMALL: u64 = 64 << 10;
/// The lowest latency grows by at most one part in this many with each longer random read.
const LEAST_GROWS: u64 = 64;
/// Reads wait for others if their mean latency is at least this many halves of the lowest one.
const WAITS_HALVES: u64 = 3;

/// Reads while others were in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Limit {
    in_flight: u64,
    at: Instant,
    /// Of the current measurement: time with several in flight, the same times their number, reads that ended in it,
    /// and their bytes.
    time: u64,
    area: u64,
    count: u64,
    bytes: u64,
    /// A writeback or a long read happened meanwhile.
    is_disturbed: bool,
    /// Nanoseconds for each small read of an origin at its limit, 0 if unknown, and the time of the measurement.
    small: u64,
    small_at: Instant,
}

impl Limit {
    fn pass(&mut self, now: Instant) {
        if self.in_flight > 1 {
            let span = now.since(self.at).as_nanos();
            self.time += span;
            self.area = self.area.saturating_add(span.saturating_mul(self.in_flight));
        }
        self.at = now;
    }

    fn begin(&mut self, now: Instant) {
        self.pass(now);
        self.in_flight += 1;
    }

    /// A read ended; the lowest latency is `least` nanoseconds.
    fn end(&mut self, now: Instant, bytes: u64, least: u64) {
        self.pass(now);
        if self.in_flight > 1 {
            self.count += 1;
            self.bytes += bytes;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.time >= WINDOW && self.count > 0 {
            if !core::mem::take(&mut self.is_disturbed) {
                self.measure(now, least);
            }
            (self.time, self.area, self.count, self.bytes) = (0, 0, 0, 0);
        }
    }

    fn measure(&mut self, now: Instant, least: u64) {
        let (each, mean, latency) = (self.time / self.count, self.bytes / self.count, self.area / self.count);
        if mean <= SMALL && least > 0 && latency.saturating_mul(2) >= least * WAITS_HALVES {
            self.small = if self.small == 0 { each } else { (self.small + each) / 2 };
            self.small_at = now;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct OriginLoad {
    /// The measured reads and client writes.
    load: Load,
    writebacks: Load,
    /// A random read in flight that is timed: its first byte, and the time of its begin.
    timed: Option<(u64, Instant)>,
    last_end: u64,
    /// Mean nanoseconds of the last timed reads, 0 if unknown, and the end of the last one.
    random_read: u64,
    random_at: Instant,
    avoid_until: Instant,
    limit: Limit,
    /// The lowest recent latency of a random read in nanoseconds, 0 if unknown.
    least: u64,
}

impl OriginLoad {
    pub(crate) fn begin_write(&mut self, now: Instant, bytes: u64) {
        self.load.begin(now, bytes);
    }

    pub(crate) fn end_write(&mut self, now: Instant, bytes: u64) {
        self.load.end(now, bytes);
    }

    pub(crate) fn begin_writeback(&mut self, now: Instant, bytes: u64) {
        self.writebacks.begin(now, bytes);
        self.limit.is_disturbed = true;
    }

    pub(crate) fn end_writeback(&mut self, now: Instant, bytes: u64) {
        self.writebacks.end(now, bytes);
    }

    /// An estimate: nanoseconds until one more request of this many bytes would be done; `None` while the pace is
    /// unknown.
    pub(crate) fn expected(&self, bytes: u64) -> Option<u64> {
        (!self.load.is_unknown()).then(|| self.load.expected(bytes) + self.writebacks.backlog())
    }

    /// Nanoseconds until all requests in flight are done.
    pub(crate) fn backlog(&self) -> u64 {
        self.load.backlog() + self.writebacks.backlog()
    }

    /// Whether no measured access is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.load.is_idle() && self.writebacks.is_idle()
    }

    /// A read begins; its end is reported with the same extent.
    pub(crate) fn begin_read(&mut self, now: Instant, extent: ByteExtent) {
        self.load.begin(now, extent.length);
        self.limit.begin(now);
        self.limit.is_disturbed |= extent.length > SMALL;
        let is_random = extent.start.abs_diff(self.last_end) > NEAR && extent.length <= SMALL;
        if self.timed.is_none() && is_random && self.writebacks.is_idle() {
            self.timed = Some((extent.start, now));
        }
        self.last_end = extent.end();
    }

    pub(crate) fn end_read(&mut self, now: Instant, extent: ByteExtent) {
        self.load.end(now, extent.length);
        self.limit.is_disturbed |= !self.writebacks.is_idle() || extent.length > SMALL;
        self.limit.end(now, extent.length, self.least);
        let Some((_, begun)) = self.timed.take_if(|(start, _)| *start == extent.start) else { return };
        if !self.writebacks.is_idle() {
            return;
        }
        let nanos = now.since(begun).as_nanos();
        let least = if self.least == 0 { nanos } else { self.least + self.least / LEAST_GROWS };
        self.least = least.min(nanos);
        self.random_read = match self.random_read {
            0 => nanos,
            known => (7 * known + nanos) / 8,
        };
        self.random_at = now;
    }

    /// Mean nanoseconds of a random read, if there was one recently.
    pub(crate) fn random_read(&self, now: Instant) -> Option<u64> {
        let is_known = self.random_read > 0 && now.since(self.random_at).as_nanos() < FORGET;
        is_known.then_some(self.random_read)
    }

    /// Nanoseconds of a small read of an origin at its limit, if the origin was at its limit recently.
    pub(crate) fn small_read(&self, now: Instant) -> Option<u64> {
        let Limit { small, small_at, .. } = self.limit;
        (small > 0 && now.since(small_at).as_nanos() < FORGET_LIMIT).then_some(small)
    }

    pub(crate) fn on_error(&mut self, now: Instant) {
        self.avoid_until = now.plus(Duration::from_nanos(AVOID));
    }

    /// Whether a read of cached blocks from the origin failed recently.
    pub(crate) fn is_avoided(&self, now: Instant) -> bool {
        now < self.avoid_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::BLOCK_SIZE;

    const fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn read(origin: &mut OriginLoad, from: u64, millis: u64, start: u64) {
        let extent = ByteExtent { start, length: 4096 };
        origin.begin_read(at(from), extent);
        origin.end_read(at(from + millis), extent);
    }

    #[test]
    fn only_random_reads_give_the_latency() {
        let mut origin = OriginLoad::default();
        read(&mut origin, 0, 1, 4096);
        assert_eq!(origin.random_read(at(1)), None, "near the beginning");
        origin.begin_read(at(2), ByteExtent { start: 50 << 20, length: 1 << 20 });
        origin.end_read(at(9), ByteExtent { start: 50 << 20, length: 1 << 20 });
        assert_eq!(origin.random_read(at(9)), None, "a long one waits for its bytes");
        read(&mut origin, 10, 8, 100 << 20);
        assert_eq!(origin.random_read(at(20)), Some(8_000_000));
        (0..100).for_each(|number| read(&mut origin, 20 + number, 1, (100 << 20) + (number + 1) * 4096));
        assert_eq!(origin.random_read(at(200)), Some(8_000_000));
        assert_eq!(origin.random_read(at(60_018)), None, "a minute ago");
    }

    #[test]
    fn random_reads_during_writeback_give_no_latency() {
        let mut origin = OriginLoad::default();
        read(&mut origin, 0, 4, 100 << 20);
        origin.begin_writeback(at(10), BLOCK_SIZE);
        read(&mut origin, 20, 90, 200 << 20);
        origin.end_writeback(at(200), BLOCK_SIZE);
        origin.begin_read(at(300), ByteExtent { start: 300 << 20, length: 4096 });
        origin.begin_writeback(at(301), BLOCK_SIZE);
        origin.end_read(at(400), ByteExtent { start: 300 << 20, length: 4096 });
        assert_eq!(origin.random_read(at(500)), Some(4_000_000));
        origin.end_writeback(at(501), BLOCK_SIZE);
        read(&mut origin, 600, 12, 400 << 20);
        assert_eq!(origin.random_read(at(700)), Some(5_000_000));
    }

    #[test]
    fn an_origin_that_failed_is_left_alone_for_a_while() {
        let mut origin = OriginLoad::default();
        assert!(!origin.is_avoided(at(0)));
        origin.on_error(at(1));
        assert!(origin.is_avoided(at(10_000)) && !origin.is_avoided(at(10_001)));
    }

    /// Keeps this many reads of a length in flight for a second; one ends every `micros` microseconds.
    fn crowd(origin: &mut OriginLoad, from: u64, (depth, micros, length): (u64, u64, u64)) {
        let extent = |number: u64| ByteExtent { start: number << 30, length };
        let time = |step: u64| Instant::from_nanos(from * 1_000_000 + step * micros * 1_000);
        (0..depth).for_each(|number| origin.begin_read(time(0), extent(number)));
        let steps = 1_000_000 / micros;
        for step in 1..=steps {
            origin.end_read(time(step), extent(step - 1));
            origin.begin_read(time(step), extent(depth + step - 1));
        }
        (0..depth).for_each(|number| origin.end_read(time(steps), extent(steps + number)));
    }

    #[test]
    fn the_cost_of_small_reads_is_measured_at_the_limit() {
        let mut origin = OriginLoad::default();
        crowd(&mut origin, 0, (1, 4_000, 4096));
        assert_eq!(origin.small_read(at(1_000)), None, "one request in flight does not show the limit");
        crowd(&mut origin, 1_000, (8, 4_000, 4096));
        assert_eq!(origin.small_read(at(2_000)), Some(4_000_000));
        origin.begin_writeback(at(1_990), 256 << 10);
        crowd(&mut origin, 2_000, (8, 12_000, 4096));
        origin.end_writeback(at(2_950), 256 << 10);
        crowd(&mut origin, 2_950, (1, 100, 4096));
        assert_eq!(origin.small_read(at(2_960)), Some(4_000_000), "during writeback it takes longer");
        crowd(&mut origin, 2_970, (8, 12_000, 1 << 20));
        assert_eq!(origin.small_read(at(3_970)), Some(4_000_000), "long reads are no small ones");
        assert_eq!(origin.small_read(at(602_000)), None, "ten minutes ago");
    }

    #[test]
    fn a_read_is_expected_behind_writeback() {
        let mut origin = OriginLoad::default();
        crowd(&mut origin, 0, (1, 500, 4096));
        let alone = origin.expected(4096).unwrap();
        assert!((400_000..=600_000).contains(&alone), "{alone}");
        for number in 0..40 {
            origin.begin_writeback(at(1_000 + 20 * number), 256 << 10);
            origin.end_writeback(at(1_010 + 20 * number), 256 << 10);
        }
        assert_eq!(origin.expected(4096), Some(alone), "nothing is written back");
        (0..2).for_each(|_| origin.begin_writeback(at(2_000), 256 << 10));
        assert!(!origin.is_idle());
        let behind = origin.expected(4096).unwrap() - alone;
        assert!((18_000_000..=22_000_000).contains(&behind), "two of 10 ms each: {behind}");
    }

    #[test]
    fn an_origin_without_queueing_is_below_its_limit() {
        let mut origin = OriginLoad::default();
        crowd(&mut origin, 0, (1, 5_000, 4096));
        crowd(&mut origin, 1_000, (2, 2_500, 4096));
        assert_eq!(origin.small_read(at(2_000)), None);
    }
}
