//! The pause of client writes at the end of a drain.
//!
//! Invariants:
//! * T-2: a pause takes at most [`HOLD_MAX`], and the time between two pauses is longer.

use crate::time::{Duration, Instant};

/// The first threshold: blocks that writeback cleans in this many nanoseconds.
const LITTLE: u64 = 50_000_000;
/// The least threshold, in blocks.
const LITTLE_MIN: u64 = 8;
/// The pause at the first threshold, in nanoseconds.
const HOLD: u64 = 200_000_000;
const HOLD_MAX: Duration = Duration::from_millis(1_600);
/// The least interval of checks for progress, and between two pauses.
const LOOK_EVERY: Duration = Duration::from_millis(2_000);
const LEVEL_MAX: u32 = 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct DrainEnd {
    /// How often the threshold was doubled.
    level: u32,
    /// Blocks left at the last check for progress, and the earliest time of the next check.
    left: u64,
    compare_at: Instant,
    /// The end of the current pause, and the earliest start of the next one.
    until: Option<Instant>,
    rest_until: Instant,
}

impl DrainEnd {
    /// Whether [`DrainEnd::look`] was called.
    pub(crate) fn has_begun(&self) -> bool {
        self.compare_at > Instant::ZERO
    }

    /// The end of the current pause, if any, with this many blocks left and nanoseconds of writeback for each, 0 before
    /// the first measurement.
    pub(crate) fn look(&mut self, now: Instant, left: u64, each: u64) -> Option<Instant> {
        if let Some(until) = self.until {
            if now < until {
                return self.until;
            }
            self.until = None;
            self.rest_until = now.plus(LOOK_EVERY);
            self.grow();
        }
        if now >= self.compare_at {
            if self.left > 0 && left >= self.left {
                self.grow();
            }
            (self.left, self.compare_at) = (left, now.plus(LOOK_EVERY));
        }
        let little = LITTLE_MIN.max(LITTLE.checked_div(each).unwrap_or(0)) << self.level;
        if left <= little && now >= self.rest_until {
            let hold = Duration::from_nanos(HOLD << self.level.min(8));
            self.until = Some(now.plus(if hold > HOLD_MAX { HOLD_MAX } else { hold }));
        }
        self.until
    }

    fn grow(&mut self) {
        self.level = (self.level + 1).min(LEVEL_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn writes_wait_once_little_is_left() {
        let mut end = DrainEnd::default();
        assert_eq!(end.look(at(0), 26, 2_000_000), None, "52 ms of writeback");
        assert_eq!(end.look(at(10), 25, 2_000_000), Some(at(210)));
        assert_eq!(end.look(at(100), 100, 2_000_000), Some(at(210)));
        assert_eq!(end.look(at(210), 10, 2_000_000), None, "writes go on");
        assert_eq!(end.look(at(2_209), 10, 2_000_000), None);
        assert_eq!(end.look(at(2_210), 10, 2_000_000), Some(at(2_610)), "the next pause is longer");
    }

    #[test]
    fn without_progress_more_blocks_count_as_little() {
        let mut end = DrainEnd::default();
        let first = (0..1_000).map(|look| look * 100).find(|look| end.look(at(*look), 200, 0).is_some());
        assert_eq!(first, Some(10_000), "8 blocks doubled five times");
        let mut end = DrainEnd::default();
        let falls = (0..500).map(|look| (look * 100, 600 - look));
        assert!(falls.take(590).all(|(look, left)| left <= 8 || end.look(at(look), left, 0).is_none()));
    }

    #[test]
    fn no_write_waits_longer_than_the_bound() {
        let mut end = DrainEnd::default();
        for look in 0..10_000 {
            let until = end.look(at(look * 50), 5, 0);
            assert!(until.is_none_or(|until| until.since(at(look * 50)) <= HOLD_MAX));
        }
    }
}
