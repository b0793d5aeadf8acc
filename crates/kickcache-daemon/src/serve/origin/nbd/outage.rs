//! Outages of a remote origin, and attempts to connect.

use std::time::{Duration, Instant};

/// The first pause between two attempts, and the longest pause.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// If the last outage ended this long ago, or longer, the next one looks for the server at once.
const WELL_AFTER: Duration = Duration::from_secs(60);

/// How soon the first attempt to connect is made in the next outage.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Pace {
    #[default]
    Fast,
    /// The outage begins with the pause that the previous outage had at its end, unless `since` is long ago.
    Cautious { pause: Duration, since: Instant },
}

impl Pace {
    pub(super) fn is_cautious(self) -> bool {
        self != Pace::Fast
    }
}

/// An outage, from the loss of a connection to the first answered job, or to a new connection while
/// no job waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outage {
    since: Instant,
    next_try: Instant,
    pause: Duration,
    /// Whether requests fail until the server is back.
    pub(super) is_over_limit: bool,
}

impl Outage {
    pub(super) fn begin(now: Instant, pace: Pace) -> Outage {
        let mut outage = Outage { since: now, next_try: now, pause: PAUSES.0, is_over_limit: false };
        match pace {
            Pace::Cautious { pause, since } if now.saturating_duration_since(since) < WELL_AFTER => {
                outage.pause = pause;
                outage.try_later(now);
            }
            Pace::Cautious { .. } | Pace::Fast => {}
        }
        outage
    }

    pub(super) fn pace_after(&self, now: Instant) -> Pace {
        Pace::Cautious { pause: self.pause, since: now }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next_try
    }

    pub(super) fn try_later(&mut self, now: Instant) {
        self.next_try = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSES.1);
    }

    /// Counts the time of the outage from now on.
    pub(super) fn begin_to_count(&mut self, now: Instant) {
        self.since = now;
    }

    pub(super) fn lasts(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// The time until requests fail; `None` if they fail already.
    pub(super) fn until_limit(&self, now: Instant, limit: Duration) -> Option<Duration> {
        (!self.is_over_limit).then(|| (self.since + limit).saturating_duration_since(now))
    }

    /// The time until the next attempt or the failure of requests.
    pub(super) fn wait(&self, now: Instant, limit: Duration) -> Duration {
        let next = self.next_try.saturating_duration_since(now);
        let end = (self.since + limit).saturating_duration_since(now);
        if self.is_over_limit { next } else { next.min(end) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_come_at_once_and_then_seldom() {
        let start = Instant::now();
        let mut outage = Outage::begin(start, Pace::Fast);
        let mut now = start;
        let mut pauses = Vec::new();
        for _ in 0..10 {
            assert!(outage.is_due(now));
            outage.try_later(now);
            assert!(!outage.is_due(now));
            pauses.push(outage.wait(now, Duration::from_secs(3600)).as_millis());
            now += outage.wait(now, Duration::from_secs(3600));
        }
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
    }

    #[test]
    fn reconnects_slow_down_with_each_loss() {
        let (mut now, mut pace) = (Instant::now(), Pace::Fast);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            let outage = Outage::begin(now, pace);
            pauses.push(outage.wait(now, Duration::from_secs(3600)).as_millis());
            now += Duration::from_millis(50);
            pace = outage.pace_after(now);
        }
        assert_eq!(pauses, [0, 50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert!(Outage::begin(now + WELL_AFTER, pace).is_due(now + WELL_AFTER));
    }

    #[test]
    fn the_limit_is_waited_for_too() {
        let start = Instant::now();
        let mut outage = Outage::begin(start, Pace::Fast);
        (0..10).for_each(|_| outage.try_later(start));
        assert_eq!(outage.wait(start, Duration::from_secs(2)), Duration::from_secs(2));
        outage.is_over_limit = true;
        assert_eq!(outage.wait(start, Duration::from_secs(2)), Duration::from_secs(5));
    }
}
