//! Why a client is not read from.

/// Why a client is not read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stall {
    /// It has as much in flight as a connection may have, or takes no replies.
    Limit,
    /// Its command waits for memory.
    Memory,
}
