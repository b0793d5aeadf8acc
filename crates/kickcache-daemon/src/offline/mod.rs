//! A cache device that nobody serves: read, verified, dumped, repaired, and freed of a volume.
//!
//! Recovery is the engine's own: what it would write is dropped by those that only look (`metadata`), and written by
//! the driver for those that change something ([`change`]).

mod bound_origin;
pub mod change;
pub mod check;
mod contents;
pub mod drain;
pub mod dump;
pub mod error;
pub mod known;
pub mod leave;
mod metadata;
mod offline_device;
pub mod older_copy;
pub mod outdated;
pub mod standing;
pub mod taken_in;
pub mod ublk;
mod write_back;

pub use self::bound_origin::Unbound;
pub use self::contents::{Contents, read};
pub use self::error::{EXTENTS_SHOWN, OfflineError};

#[cfg(test)]
mod tests;
