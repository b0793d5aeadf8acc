//! A daemon that root started continues as another user if one is configured. A small part, the monitor,
//! stays root. It opens and creates only files that the configuration names, opens the files below them for
//! reading, and removes only files that it created.
//!
//! The monitor is forked before there is any thread. Devices of the configuration are opened by their paths
//! only through [`access`].

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
