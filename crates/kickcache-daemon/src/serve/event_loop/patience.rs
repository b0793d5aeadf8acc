//! How long a caller waits for a device that completes no operation.

use kickcache_engine::time::{Duration, Instant};

/// The least time between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(1_000);
/// Checks without progress after which a default patience is over.
const LOOKS_MAX: u32 = 9;
/// The time of [`LOOKS_MAX`] checks in seconds.
pub(crate) const PATIENCE_SECONDS: u64 = 9;

/// Counts checks without progress. Time is not used, because a device is not silent while this process was
/// stopped.
pub(crate) struct Patience {
    looks_max: u32,
    look_at: Option<Instant>,
    looks: u32,
    ends: u64,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience::of_looks(LOOKS_MAX)
    }
}

impl Patience {
    pub(crate) fn of_looks(looks_max: u32) -> Patience {
        Patience { looks_max, look_at: None, looks: 0, ends: 0 }
    }

    /// `true` after enough checks without a change of the number of completed operations.
    pub(crate) fn is_over(&mut self, now: Instant, waited_for: Option<u64>) -> bool {
        let Some(ends) = waited_for else {
            *self = Patience::of_looks(self.looks_max);
            return false;
        };
        let look_at = match self.look_at {
            Some(look_at) if ends == self.ends => look_at,
            Some(_) | None => {
                *self = Patience { look_at: Some(now.plus(LOOK_EVERY)), looks: 0, ends, ..*self };
                return false;
            }
        };
        if now >= look_at {
            self.looks += 1;
            self.look_at = Some(now.plus(LOOK_EVERY));
        }
        self.looks >= self.looks_max
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.look_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn patience_ends_after_some_checks_without_progress() {
        let mut patience = Patience::default();
        assert!((1..=9).all(|second| !patience.is_over(at(second), Some(4))));
        assert_eq!(patience.poll_timeout(), Some(at(10)));
        assert!(patience.is_over(at(10), Some(4)));
        assert!(!patience.is_over(at(11), Some(5)) && !patience.is_over(at(12), None));
        assert_eq!(patience.poll_timeout(), None);
        assert!((13..=21).all(|second| !patience.is_over(at(second), Some(5))));
        assert!(patience.is_over(at(22), Some(5)));
    }

    #[test]
    fn a_stopped_process_reports_no_silent_device() {
        let mut patience = Patience::default();
        assert!(!patience.is_over(at(1), Some(0)) && !patience.is_over(at(100), Some(0)));
        assert!(!patience.is_over(at(100), Some(0)), "one look, and not a hundred");
    }
}
