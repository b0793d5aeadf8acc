//! A client's request in flight in the engine.

use kickcache_nbd::Command;

use crate::serve::frontend::nbd::key::ConnectionId;

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NbdRequest {
    pub(crate) connection: ConnectionId,
    pub(crate) command: Command,
    pub(crate) then: NextStep,
}

/// The step after the engine's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NextStep {
    /// The reply to the client.
    Reply,
    /// A flush: the engine's discard is never durable by itself.
    Flush,
}
