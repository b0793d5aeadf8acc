//! The next step after all output was sent.

/// The next step of the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LoopStep {
    /// Waiting requests may continue, as output was sent or memory was released: the loop does not sleep.
    GoOn,
    /// No more work, until an event occurs.
    Sleep,
}
