//! Determines when a cache is idle: no watched access was in flight for a second (`struct io_tracker`).

use kickcache_engine::time::{Duration, Instant};

const SECOND: Duration = Duration::from_millis(1000);

#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    under_way: u32,
    since: Instant,
}

impl Idle {
    pub(super) fn new() -> Idle {
        Idle { under_way: 0, since: Instant::ZERO }
    }

    pub(super) fn begin(&mut self) {
        self.under_way += 1;
    }

    pub(super) fn end(&mut self, now: Instant) {
        self.under_way -= 1;
        self.since = now;
    }

    /// An access ended that does not count while it is in flight.
    pub(super) fn disturb(&mut self, now: Instant) {
        self.since = now;
    }

    pub(super) fn is_idle(&self, now: Instant) -> bool {
        self.under_way == 0 && now.since(self.since) >= SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_idle_a_second_after_the_last_one_ended() {
        let at = |milliseconds: u64| Instant::from_nanos(milliseconds * 1_000_000);
        let mut idle = Idle::new();
        idle.begin();
        idle.begin();
        idle.end(at(100));
        assert!(!idle.is_idle(at(5_000)));
        idle.end(at(5_000));
        assert!(!idle.is_idle(at(5_999)) && idle.is_idle(at(6_000)));
        idle.disturb(at(6_000));
        assert!(!idle.is_idle(at(6_999)) && idle.is_idle(at(7_000)));
    }
}
