//! The limit on unflushed writes of an origin: about the amount that it flushes in 50 ms.

use crate::policy::load::work_of;
use crate::time::Duration;

/// The duration of a flush that the limit aims at, in nanoseconds.
const SPAN: u64 = 50_000_000;
/// Bytes of writeback that are worth a flush without a waiting client.
pub(crate) const FLUSH_PART: u64 = 4 << 20;
/// The limit before the first measurement.
const START: u64 = 8 * work_of(1, 4096);
/// From this limit on, the limit counts as accurate.
const ACCURATE: u64 = FLUSH_PART / 4096 * work_of(1, 4096);
const MOST: u64 = 1 << 40;
/// A flush raises the limit to this many times its work at most.
const GROWTH: u64 = 4;

/// The limit of one origin, in units of `work_of`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlushBudget {
    allowed: u64,
    /// A flush showed the limit itself, not only [`GROWTH`] times its work; or the limit was large enough.
    is_accurate: bool,
}

impl Default for FlushBudget {
    fn default() -> FlushBudget {
        FlushBudget::new()
    }
}

impl FlushBudget {
    pub(crate) const fn new() -> FlushBudget {
        FlushBudget { allowed: START, is_accurate: false }
    }

    pub(crate) const fn allowed(&self) -> u64 {
        self.allowed
    }

    pub(crate) const fn is_accurate(&self) -> bool {
        self.is_accurate
    }

    pub(crate) fn on_flushed(&mut self, work: u64, span: Duration) {
        if work == 0 {
            return;
        }
        let measured = u128::from(work) * u128::from(SPAN) / u128::from(span.as_nanos().max(1));
        let measured = u64::try_from(measured).unwrap_or(MOST).min(MOST);
        let most = work.saturating_mul(GROWTH).max(self.allowed);
        self.allowed = measured.min(most);
        self.is_accurate |= measured <= most || self.allowed >= ACCURATE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_fifty_milliseconds_of_flushing() {
        let mut budget = FlushBudget::new();
        let work = work_of(8, 8 * 4096);
        budget.on_flushed(work, Duration::from_millis(100));
        assert_eq!(budget.allowed(), work / 2);
        budget.on_flushed(work, Duration::from_millis(1));
        assert_eq!(budget.allowed(), GROWTH * work, "growth is bounded");
        budget.on_flushed(0, Duration::from_millis(1));
        assert_eq!(budget.allowed(), GROWTH * work, "an empty flush changes nothing");
        budget.on_flushed(100 * work, Duration::from_millis(500));
        assert_eq!(budget.allowed(), 10 * work);
    }
}
