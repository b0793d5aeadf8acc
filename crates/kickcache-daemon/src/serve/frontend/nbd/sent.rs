//! How far sending got.

/// How far sending got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    /// Everything is on its way.
    All,
    /// The socket takes no more at the moment.
    Blocked,
    /// The client is gone.
    Broken,
}
