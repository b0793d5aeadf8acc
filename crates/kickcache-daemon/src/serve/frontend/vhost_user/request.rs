//! A guest's request in flight in the engine.

use kickcache_vhost_user::GuestRequest;

#[derive(Debug)]
pub(crate) struct VhostUserRequest {
    /// The index of the request's port.
    pub(crate) port: usize,
    pub(crate) request: GuestRequest,
}
