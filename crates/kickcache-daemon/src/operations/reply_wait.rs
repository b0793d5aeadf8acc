//! A caller that waits for an answer, with a time limit.

use std::sync::mpsc::Sender;

use kickcache_engine::time::{Duration, Instant};

use crate::serve::error::ServeError;

/// The longest wait of a caller for a device: less than a client's wait for an answer.
const ANSWER_MAX: Duration = Duration::from_millis(8_000);

/// A caller that waits for a device, or none.
pub(crate) struct ReplyWait<T>(Option<PendingReply<T>>);

struct PendingReply<T> {
    answer: Sender<Result<T, ServeError>>,
    until: Instant,
}

impl<T> ReplyWait<T> {
    /// A wait without a caller.
    pub(crate) const fn nobody() -> ReplyWait<T> {
        ReplyWait(None)
    }

    /// Lets a caller wait from now on.
    pub(crate) fn wait(&mut self, now: Instant, answer: Sender<Result<T, ServeError>>) {
        self.0 = Some(PendingReply { answer, until: now.plus(ANSWER_MAX) });
    }

    /// Whether no client waits for an answer.
    pub(crate) fn is_nobody(&self) -> bool {
        self.0.is_none()
    }

    /// Answers the caller, unless it has been answered already.
    pub(crate) fn answer(&mut self, result: Result<T, ServeError>) {
        if let Some(waiting) = self.0.take() {
            // If the caller does not wait any more, the failed send is harmless.
            let _ = waiting.answer.send(result);
        }
    }

    /// The time at which the caller has waited for the limit.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.0.as_ref().map(|waiting| waiting.until)
    }

    /// Whether the caller has waited for the time limit.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.poll_timeout().is_some_and(|until| until <= now)
    }
}
