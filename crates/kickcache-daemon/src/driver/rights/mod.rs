//! A daemon that root started continues as another user. A small part of it, the monitor, stays root, and
//! opens only files that the configuration names and that this user may not open.
//!
//! The monitor is forked before there is any thread. It receives requests on a socket of its own, and answers
//! with descriptors. All accesses to a device by its path go through [`access`].

pub mod access;
pub mod account;
pub mod folders;
pub mod grant;
mod monitor;
pub mod separation;
pub mod trusted_path;
mod wire;

#[cfg(test)]
mod tests;
