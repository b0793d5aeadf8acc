//! The ways a volume is served to its users.

pub mod nbd;
pub mod vhost_user;
