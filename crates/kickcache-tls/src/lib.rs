//! TLS by a folder of certificates, as nbdkit and QEMU keep them.
//!
//! Modules:
//! * `folder`: the files and their contents; `stamp`: whether they changed.
//! * [`server`], [`client`]: the TLS configuration of each.
//! * [`names`]: the names in a peer's certificate, and the allowed names.
//! * `explanation`: the reasons of failures, in words; `pem`, `certificate`, `key_type`, `der`: the parts of files that
//!   they name.

mod certificate;
pub mod client;
mod der;
mod error;
mod explanation;
mod folder;
mod key_type;
pub mod names;
mod pem;
pub mod server;
mod stamp;

pub use error::TlsError;
pub use explanation::explain;
pub use rustls;

#[cfg(test)]
mod certificates;
#[cfg(test)]
mod messages;
