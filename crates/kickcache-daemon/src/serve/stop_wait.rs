//! How long a stop waits: without limit, unless a user insists after the log named the reason.

use kickcache_engine::time::{Duration, Instant};

/// The interval of log messages about the reason.
const TELL_EVERY: Duration = Duration::from_millis(10_000);

#[derive(Default)]
pub(crate) struct StopWait {
    /// The time of the next log message; `None` before a stop.
    tell: Option<Instant>,
    state: WaitState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum WaitState {
    /// The log has not named the reason of the wait.
    #[default]
    Untold,
    /// The log has named the reason of the wait.
    Told,
    Ended,
}

impl StopWait {
    pub(crate) fn begin(&mut self, now: Instant) {
        self.tell = Some(now.plus(TELL_EVERY));
    }

    /// The time at which [`StopWait::poll`] returns `true`.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.tell
    }

    /// Whether the caller must log now why the stop waits.
    pub(crate) fn poll(&mut self, now: Instant) -> bool {
        if self.tell.is_none_or(|due| due > now) {
            return false;
        }
        self.tell = Some(now.plus(TELL_EVERY));
        self.state = WaitState::Told;
        true
    }

    /// Ends the wait if the log has named the reason; returns whether it has ended.
    pub(crate) fn end(&mut self) -> bool {
        if self.state == WaitState::Told {
            self.state = WaitState::Ended;
        }
        self.is_ended()
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.state == WaitState::Ended
    }
}
