//! How long a stop waits: for as long as it takes, unless somebody insists who was told for whom.

use kickcache_engine::time::{Duration, Instant};

/// How often the log says what a stop waits for.
const TELL_EVERY: Duration = Duration::from_millis(10_000);

/// The wait of a stop.
#[derive(Default)]
pub(crate) struct StopWait {
    /// When the log says what it waits for.
    tell: Option<Instant>,
    state: WaitState,
}

/// Whether it waits for as long as it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum WaitState {
    /// It does, and nobody was told for whom.
    #[default]
    Untold,
    /// It does, and the log says for whom: whoever insists knows what that means.
    Told,
    /// It does not.
    Ended,
}

impl StopWait {
    /// The stop begins.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.tell = Some(now.plus(TELL_EVERY));
    }

    /// When [`StopWait::poll`] has something.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.tell
    }

    /// Whether the log must say what the stop waits for, which the caller does.
    pub(crate) fn poll(&mut self, now: Instant) -> bool {
        if self.tell.is_none_or(|due| due > now) {
            return false;
        }
        self.tell = Some(now.plus(TELL_EVERY));
        self.state = WaitState::Told;
        true
    }

    /// Ends the wait if the log has said for whom it is; gives whether it is over.
    pub(crate) fn end(&mut self) -> bool {
        if self.state == WaitState::Told {
            self.state = WaitState::Ended;
        }
        self.is_ended()
    }

    /// Whether nobody is waited for any more.
    pub(crate) fn is_ended(&self) -> bool {
        self.state == WaitState::Ended
    }
}
