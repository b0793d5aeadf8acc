//! A guest's request in flight in the engine.

use kickcache_vhost_user::GuestRequest;

/// A request in flight.
#[derive(Debug)]
pub(crate) struct VhostUserRequest {
    /// The index of the request's port.
    pub(crate) port: usize,
    pub(crate) request: GuestRequest,
}
