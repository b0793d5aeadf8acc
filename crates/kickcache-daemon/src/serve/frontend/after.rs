//! What follows when everything was sent.

/// What the loop does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum After {
    /// What left made room for clients that wait: there is more to do.
    GoOn,
    /// Nothing more, until something happens.
    Sleep,
}
