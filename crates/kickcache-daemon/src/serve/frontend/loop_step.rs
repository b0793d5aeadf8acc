//! The next step after all output was sent.

/// The next step of the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LoopStep {
    /// Sent output made room for waiting clients, so the loop continues with their work.
    GoOn,
    /// No more work, until an event occurs.
    Sleep,
}
