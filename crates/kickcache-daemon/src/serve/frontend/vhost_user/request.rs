//! A guest's request in flight in the engine.

use kickcache_vhost_user::GuestRequest;

/// A request in flight.
#[derive(Debug)]
pub(crate) struct VhostUserRequest {
    /// Whose it is, by index.
    pub(crate) port: usize,
    pub(crate) request: GuestRequest,
}
