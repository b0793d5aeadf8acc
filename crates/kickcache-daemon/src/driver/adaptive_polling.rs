//! Whether it pays to look at the ring for a moment before sleeping.

use std::time::Duration;

/// The longest time that the loop polls before it sleeps.
pub(crate) const LOOK_MAX: Duration = Duration::from_micros(50);

/// The longest work between two waits at which the cost of a wakeup matters.
const WORK_MAX: Duration = Duration::from_micros(20);

/// The most I/Os in flight at which polling may pay.
const FEW: usize = 2;
const SCORE_LEAST: u8 = 8;
const SCORE_MAX: u8 = 16;
/// A wait longer than a poll, or much work before it, lowers the score by this.
const DISAPPOINTMENT: u8 = 2;

/// A score of the last waits.
#[derive(Debug, Default)]
pub(crate) struct AdaptivePolling {
    score: u8,
}

impl AdaptivePolling {
    pub(crate) fn looks(&self, in_flight: usize) -> bool {
        self.score >= SCORE_LEAST && in_flight <= FEW
    }

    /// Learns from a wait, and from the work since the previous wait.
    pub(crate) fn learn(&mut self, worked: Duration, waited: Duration) {
        self.score = if waited <= LOOK_MAX && worked <= WORK_MAX {
            (self.score + 1).min(SCORE_MAX)
        } else {
            self.score.saturating_sub(DISAPPOINTMENT)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Duration = Duration::from_micros(5);
    const SHORT: Duration = Duration::from_micros(20);
    const LONG: Duration = Duration::from_micros(80);

    fn after(waits: impl IntoIterator<Item = Duration>) -> AdaptivePolling {
        let mut adaptive_polling = AdaptivePolling::default();
        waits.into_iter().for_each(|wait| adaptive_polling.learn(WORK, wait));
        adaptive_polling
    }

    #[test]
    fn an_idle_thread_does_not_look() {
        assert!(!after([]).looks(1));
        assert!(!after([LONG; 100]).looks(1));
        assert!(!after([SHORT; 100].into_iter().chain([LONG; 5])).looks(1));
    }

    #[test]
    fn a_busy_thread_does_not_look() {
        let patient = after([SHORT; 100]);
        assert!(patient.looks(FEW) && !patient.looks(FEW + 1));
    }

    #[test]
    fn short_waits_are_looked_out() {
        assert!(after([SHORT; 8]).looks(1));
        assert!(after([SHORT; 100].into_iter().chain([LONG; 4])).looks(1));
    }

    #[test]
    fn long_work_is_not_polled_for() {
        let mut patient = after([SHORT; 100]);
        (0..5).for_each(|_| patient.learn(WORK_MAX * 2, SHORT));
        assert!(!patient.looks(1));
    }

    #[test]
    fn a_wait_that_is_long_every_other_time_is_slept() {
        assert!(!after([SHORT, LONG].into_iter().cycle().take(100)).looks(1));
        assert!(after([SHORT, SHORT, SHORT, LONG].into_iter().cycle().take(100)).looks(1));
    }
}
