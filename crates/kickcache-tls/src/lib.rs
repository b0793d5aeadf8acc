//! TLS by a folder of certificates, as nbdkit and QEMU keep them.
//!
//! Rooms:
//! * `folder`: the files, and what is in them; `stamp`: whether they changed.
//! * [`server`]: what a server needs, with new files as they come; [`client`]: what a client needs.
//! * [`names`]: the names in a peer's certificate, and those that are allowed.
//! * `explanation`: why it failed, in words.
//!
//! Sockets are the callers': rustls turns bytes into bytes.

pub mod client;
mod error;
mod explanation;
mod folder;
pub mod names;
pub mod server;
mod stamp;

pub use error::TlsError;
pub use explanation::explain;
pub use rustls;

#[cfg(test)]
mod certificates;
