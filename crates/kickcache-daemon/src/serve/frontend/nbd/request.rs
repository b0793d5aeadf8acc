//! A client's request in flight in the engine.

use kickcache_nbd::Command;

use crate::serve::frontend::nbd::key::ConnectionId;

#[derive(Clone, Copy, Debug)]
pub(crate) struct NbdRequest {
    pub(crate) connection: ConnectionId,
    pub(crate) command: Command,
    pub(crate) then: NextStep,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NextStep {
    Reply,
    /// A flush, after a discard that is to be durable.
    Flush,
}
