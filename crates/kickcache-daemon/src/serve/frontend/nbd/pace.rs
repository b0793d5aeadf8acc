//! The pace at which a client takes replies and sends writes.

use kickcache_engine::time::{Duration, Instant};

/// A client that moves this many bytes, or takes a whole reply with payload, within the limit is not slow.
const PROGRESS: u64 = 1 << 20;

/// The least time between two checks of clients while requests wait for memory.
pub(super) const LOOK: Duration = Duration::from_millis(1_000);

/// The time of the last check of clients; `None` while no request waits for memory of the loop.
#[derive(Debug, Default)]
pub(super) struct SlowClients {
    pub(super) looked_at: Option<Instant>,
}

impl SlowClients {
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.looked_at.map(|at| at.plus(LOOK))
    }
}

/// The progress of a client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Bytes received of payload, and the credit for replies.
    moved: u64,
    mark: u64,
    since: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Watch {
    Begin,
    /// The client counts as slow after this time, if it makes too little progress.
    GoOn(Duration),
}

impl Pace {
    pub(super) fn add_received(&mut self, bytes: usize) {
        self.moved += bytes as u64;
    }

    pub(super) fn add_reply(&mut self) {
        self.moved += PROGRESS;
    }

    /// Whether the progress was too small for too long; `sent` is the count of all bytes sent to the client.
    pub(super) fn is_slow(&mut self, now: Instant, sent: u64, watch: Watch) -> bool {
        let moved = self.moved + sent;
        match watch {
            Watch::GoOn(span) if moved - self.mark < PROGRESS => now >= self.since.plus(span),
            Watch::Begin | Watch::GoOn(_) => {
                (self.mark, self.since) = (moved, now);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_moves_few_bytes_is_slow() {
        let at = |seconds: u64| Instant::ZERO.plus(Duration::from_millis(seconds * 1000));
        let watch = Watch::GoOn(Duration::from_millis(30_000));
        let mut pace = Pace::default();
        assert!(!pace.is_slow(at(5), 7, Watch::Begin));
        assert!(!pace.is_slow(at(34), 8, watch) && pace.is_slow(at(35), 9, watch));
        pace.add_received(1 << 20);
        assert!(!pace.is_slow(at(36), 9, watch) && !pace.is_slow(at(65), 9, watch));
        pace.add_reply();
        assert!(!pace.is_slow(at(66), 9, watch) && pace.is_slow(at(96), 9, watch));
    }
}
