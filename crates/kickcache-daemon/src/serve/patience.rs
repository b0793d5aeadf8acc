//! How long somebody waits for a device that completes nothing.

use kickcache_engine::time::{Duration, Instant};

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(1_000);
/// This many looks without an end are too many: a little less than what makes a device silent.
const LOOKS_MAX: u32 = 9;
/// That, for people.
pub(crate) const PATIENCE_SECONDS: u64 = 9;

/// Looks that found nothing new. They are counted, and not the time: a device is not silent because this process was stopped.
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
    /// One that lasts for this many looks.
    pub(crate) fn of_looks(looks_max: u32) -> Patience {
        Patience { looks_max, look_at: None, looks: 0, ends: 0 }
    }

    /// Takes how much the device has completed so far, if somebody waits for it; `true` once that is too long.
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

    /// When to look, if nothing happens before.
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
    fn it_is_over_after_some_looks_that_found_nothing_new() {
        let mut patience = Patience::default();
        assert!((1..=9).all(|second| !patience.is_over(at(second), Some(4))));
        assert_eq!(patience.poll_timeout(), Some(at(10)));
        assert!(patience.is_over(at(10), Some(4)));
        // Something came, and nobody waited.
        assert!(!patience.is_over(at(11), Some(5)) && !patience.is_over(at(12), None));
        assert_eq!(patience.poll_timeout(), None);
        assert!((13..=21).all(|second| !patience.is_over(at(second), Some(5))));
        assert!(patience.is_over(at(22), Some(5)));
    }

    #[test]
    fn a_process_that_was_stopped_calls_nobody_silent() {
        let mut patience = Patience::default();
        assert!(!patience.is_over(at(1), Some(0)) && !patience.is_over(at(100), Some(0)));
        assert!(!patience.is_over(at(100), Some(0)), "one look, and not a hundred");
    }
}
