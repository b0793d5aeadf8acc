//! The next step of the loop after output was sent.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LoopStep {
    /// Waiting requests may continue: the loop does not sleep.
    GoOn,
    /// No more work, until an event occurs.
    Sleep,
}
