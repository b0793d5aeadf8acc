//! The driver's clock: nanoseconds since its start.
//!
//! A gap of 0.5 s or more in which the process does not run does not count, once a loop has detected it. The
//! times of the turns of a loop never go back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kickcache_engine::time::{Duration, Instant};

/// The least lateness at which a loop counts as not having run.
pub(crate) const GAP_MIN: Duration = Duration::from_millis(500);

/// Clones of a clock show the same time.
#[derive(Clone, Debug)]
pub struct Clock {
    zero: std::time::Instant,
    /// Nanoseconds that do not count.
    gaps: Arc<AtomicU64>,
}

impl Clock {
    pub fn start() -> Clock {
        Clock { zero: std::time::Instant::now(), gaps: Arc::default() }
    }

    #[cfg(test)]
    pub(crate) fn started_ago(seconds: u64) -> Clock {
        let zero = std::time::Instant::now().checked_sub(std::time::Duration::from_secs(seconds));
        Clock { zero: zero.expect("the machine runs for longer"), gaps: Arc::default() }
    }

    pub fn now(&self) -> Instant {
        let elapsed = u64::try_from(self.zero.elapsed().as_nanos());
        let elapsed = elapsed.expect("584 years fit into 64 bits of nanoseconds");
        Instant::from_nanos(elapsed.saturating_sub(self.gaps.load(Ordering::Relaxed)))
    }

    /// The present time for a loop that was to run at `expected`. If the loop is late by [`GAP_MIN`] or more,
    /// the process counts as not having run since `expected`, and the time since then does not count.
    pub(crate) fn wake(&self, expected: Instant) -> Wakening {
        let now = self.now();
        let late = now.since(expected);
        if late < GAP_MIN {
            return Wakening { now, gap: Duration::from_nanos(0) };
        }
        self.gaps.fetch_add(late.as_nanos(), Ordering::Relaxed);
        Wakening { now: expected, gap: late }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wakening {
    pub(crate) now: Instant,
    /// The time in which the process did not run.
    pub(crate) gap: Duration,
}

/// By how much a wait was too long, if by [`GAP_MIN`] or more. Zero otherwise, and for a wait without a
/// limit.
pub(crate) fn missed(wait: Option<std::time::Duration>, waited: std::time::Duration) -> std::time::Duration {
    let late = wait.map_or(std::time::Duration::ZERO, |wait| waited.saturating_sub(wait));
    if late.as_nanos() >= GAP_MIN.as_nanos().into() { late } else { std::time::Duration::ZERO }
}

/// A stopwatch of a thread that reads it at least once a second: between two readings, a second counts at
/// most.
#[derive(Clone, Copy, Debug)]
pub struct WatchedTime {
    passed: std::time::Duration,
    looked_at: std::time::Instant,
}

impl WatchedTime {
    pub const LOOK_MAX: std::time::Duration = std::time::Duration::from_secs(1);

    pub fn begin() -> WatchedTime {
        WatchedTime { passed: std::time::Duration::ZERO, looked_at: std::time::Instant::now() }
    }

    pub fn look(&mut self) -> std::time::Duration {
        self.look_at(std::time::Instant::now())
    }

    fn look_at(&mut self, now: std::time::Instant) -> std::time::Duration {
        self.passed += now.saturating_duration_since(self.looked_at).min(WatchedTime::LOOK_MAX);
        self.looked_at = now;
        self.passed
    }
}

pub fn span(from: Instant, to: Instant) -> std::time::Duration {
    std::time::Duration::from_nanos(to.since(from).as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn time_in_which_the_process_was_stopped_does_not_count() {
        let clock = Clock::started_ago(1_000);
        let other = clock.clone();
        let Wakening { now, gap } = clock.wake(at(600));
        assert!(gap >= Duration::from_millis(400_000) && now == at(600));
        let later = other.now();
        assert!(later >= now && later < at(900), "clones show the same: {later:?}");
    }

    #[test]
    fn checks_in_time_leave_no_gap() {
        let Wakening { now, gap } = Clock::started_ago(1_000).wake(at(5_000));
        assert!(gap == Duration::from_nanos(0) && now >= at(1_000));
    }

    #[test]
    fn a_wait_that_ends_far_too_late_does_not_count() {
        let seconds = std::time::Duration::from_secs;
        assert_eq!(missed(Some(seconds(2)), seconds(14)), seconds(12));
        assert_eq!(missed(Some(seconds(2)), seconds(2)), seconds(0));
        assert_eq!(missed(None, seconds(14)), seconds(0), "something came");
    }

    #[test]
    fn between_two_looks_a_second_counts_at_most() {
        let mut time = WatchedTime::begin();
        let after = |millis| std::time::Duration::from_millis(millis);
        let begun = time.looked_at;
        assert_eq!(time.look_at(begun + after(300)), after(300));
        assert_eq!(time.look_at(begun + after(60_300)), after(1_300), "it was stopped for a minute");
        assert_eq!(time.look_at(begun + after(60_400)), after(1_400));
    }
}
