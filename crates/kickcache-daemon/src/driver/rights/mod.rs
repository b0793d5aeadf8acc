//! A daemon that root started goes on as another user. A small part of it, the monitor, stays root, and opens what that user may
//! not: what is named in the configuration, and nothing else.
//!
//! The monitor is forked before there is any thread. It hears requests on a socket of its own, and answers with descriptors.
//! Everything that touches a device by its path goes through [`access`].

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
