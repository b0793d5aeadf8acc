//! How far sending got.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SendProgress {
    /// All output was passed to the kernel.
    All,
    /// The socket takes no more at the moment.
    Blocked,
    /// The client disconnected, or the connection failed.
    Broken,
}
