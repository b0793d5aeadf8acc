//! The load of a device, its speed, and whether it would do more with more requests in flight.

use crate::time::Instant;

/// The fixed cost of a request, in bytes.
const OVERHEAD: u64 = 48 << 10;
/// Busy nanoseconds of a measurement. [`FIRST_COUNT`] requests are enough for the first measurement.
const WINDOW: u64 = 200_000_000;
const FIRST_COUNT: u32 = 8;
/// Scale of the pace: nanoseconds for this many bytes.
const SCALE: u64 = 1 << 20;
/// Levels of requests in flight, each twice as many as the one before.
const LEVELS: usize = 12;
/// More requests in flight make a device faster if, with fewer, work takes longer by more than this many percent.
const MORE: u64 = 20;

/// The cost of this many requests of this many bytes in all.
pub(crate) const fn work_of(requests: u64, bytes: u64) -> u64 {
    bytes + requests * OVERHEAD
}

/// Work of one device for one volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Load {
    in_flight: u64,
    requests: u64,
    /// Nanoseconds for `SCALE` bytes of work; 0 if not known.
    pace: u64,
    at: Instant,
    /// Of the current measurement: busy time, the same times requests in flight, work and requests that ended.
    time: u64,
    area: u64,
    work: u64,
    ended: u32,
    /// Work of writeback that ended in the same measurement while requests were in flight.
    others: u64,
    /// Work that ended in the measurements before.
    total: u64,
    /// The pace at each level of requests in flight, 0 if unknown, and the level of the last measurement.
    levels: [u64; LEVELS],
    level: usize,
}

impl Load {
    #[inline]
    fn pass(&mut self, now: Instant) {
        if now == self.at {
            return;
        }
        if self.requests > 0 {
            let span = now.since(self.at).as_nanos();
            self.time += span;
            self.area = self.area.saturating_add(self.requests * span);
        }
        self.at = now;
    }

    #[inline]
    pub(crate) fn begin(&mut self, now: Instant, bytes: u64) {
        self.pass(now);
        self.in_flight += work_of(1, bytes);
        self.requests += 1;
    }

    #[inline]
    pub(crate) fn end(&mut self, now: Instant, bytes: u64) {
        self.pass(now);
        let work = work_of(1, bytes);
        self.in_flight = self.in_flight.saturating_sub(work);
        self.requests = self.requests.saturating_sub(1);
        self.work += work;
        self.ended += 1;
        if self.ended == FIRST_COUNT && self.pace == 0 {
            self.note_pace();
        } else if self.time >= WINDOW {
            self.end_window();
        }
    }

    /// A read of this many bytes for writeback ended.
    pub(crate) fn end_other(&mut self, bytes: u64) {
        if self.requests > 0 {
            self.others += work_of(1, bytes);
        }
    }

    #[cold]
    fn note_pace(&mut self) -> u64 {
        let work = (self.work + self.others).max(1);
        let pace = (self.time.saturating_mul(SCALE) / work).max(1);
        // A lightly loaded device seems slow: its earlier pace counts for a while.
        self.pace = match self.pace {
            0 => pace,
            known if pace < known => (known + pace) / 2,
            known => known + (pace - known) / 8,
        };
        pace
    }

    #[cold]
    fn end_window(&mut self) {
        let pace = self.note_pace();
        let level = (self.area / self.time).max(1).ilog2() as usize;
        self.level = level.min(LEVELS - 1);
        let known = &mut self.levels[self.level];
        *known = if *known == 0 { pace } else { (*known + pace) / 2 };
        self.total += self.work;
        (self.time, self.area, self.work, self.others, self.ended) = (0, 0, 0, 0, 0);
    }

    /// Estimated nanoseconds until one more request of this many bytes would be done, 0 if the pace is unknown.
    pub(crate) fn expected(&self, bytes: u64) -> u64 {
        (self.in_flight + work_of(1, bytes)).saturating_mul(self.pace) / SCALE
    }

    /// Estimated nanoseconds until all requests in flight are done, 0 if the pace is unknown.
    #[inline]
    pub(crate) fn backlog(&self) -> u64 {
        self.in_flight.saturating_mul(self.pace) / SCALE
    }

    /// Nanoseconds that a request of this many bytes occupies the device, 0 if the pace is unknown.
    pub(crate) fn each(&self, bytes: u64) -> u64 {
        work_of(1, bytes).saturating_mul(self.pace) / SCALE
    }

    /// Whether more requests in flight did not make the device faster, as far as is known.
    pub(crate) fn is_at_its_limit(&self) -> bool {
        let below = self.levels[..self.level].iter().rev().find(|pace| **pace > 0);
        below.is_none_or(|below| below * 100 <= self.levels[self.level] * (100 + MORE))
    }

    pub(crate) const fn is_idle(&self) -> bool {
        self.requests == 0
    }

    pub(crate) const fn is_unknown(&self) -> bool {
        self.pace == 0
    }

    /// Requests that ended in the current window.
    pub(crate) const fn ended(&self) -> u32 {
        self.ended
    }

    /// Work that ended so far.
    pub(crate) const fn total(&self) -> u64 {
        self.total + self.work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(load: &mut Load, from: u64, depth: u64, micros: impl Fn(u64) -> u64) -> u64 {
        let mut now = from;
        let at = |now| Instant::from_nanos(now);
        (0..depth).for_each(|_| load.begin(at(now), 4096));
        while now < from + 2_000_000_000 {
            now += micros(depth) * 1_000;
            load.end(at(now), 4096);
            load.begin(at(now), 4096);
        }
        (0..depth).for_each(|_| load.end(at(now), 4096));
        now
    }

    #[test]
    fn a_capped_device_does_no_more_at_greater_depth() {
        let mut load = Load::default();
        let now = serve(&mut load, 0, 4, |_| 400);
        serve(&mut load, now, 32, |_| 400);
        assert!(load.is_at_its_limit());
    }

    #[test]
    fn a_device_without_a_queue_is_below_its_limit() {
        let mut load = Load::default();
        let now = serve(&mut load, 0, 4, |depth| 2_000 / depth);
        serve(&mut load, now, 32, |depth| 2_000 / depth);
        assert!(!load.is_at_its_limit());
    }

    #[test]
    fn a_stopped_clock_makes_no_backlog() {
        let mut load = Load::default();
        for number in 0..1_000 {
            let at = Instant::from_nanos(number * 100_000);
            (0..16).for_each(|_| load.begin(at, 4096));
            (0..16).for_each(|_| load.end(at, 4096));
        }
        (0..16).for_each(|_| load.begin(Instant::from_nanos(3_000_000_000), 4096));
        assert!(load.backlog() < 100_000, "{}", load.backlog());
    }
}
