//! A guest's request in flight in the engine.

use kickcache_vhost_user::GuestRequest;

/// A request in flight.
#[derive(Debug)]
pub(crate) struct VhostUserRequest {
    /// Its port, by index.
    pub(crate) port: usize,
    pub(crate) request: GuestRequest,
}
