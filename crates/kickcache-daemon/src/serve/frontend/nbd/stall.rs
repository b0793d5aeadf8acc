//! Why a client is not read from.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stall {
    /// The client has as much in flight as a connection may have, or takes no replies.
    Limit,
    /// The client's last command waits for memory.
    Memory,
}
