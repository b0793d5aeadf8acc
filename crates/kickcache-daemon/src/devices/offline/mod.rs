//! A cache device that no daemon serves.

mod bound_origin;
pub mod change;
pub mod check;
mod contents;
pub mod drain;
pub mod dump;
pub mod earlier_volumes;
pub mod error;
pub mod foreign_device;
pub mod format_check;
pub mod give_up;
mod metadata;
mod offline_device;
pub mod older_copy;
pub mod out_of_service;
pub mod replacement;
pub mod stale_blocks;
pub mod ublk;
mod write_back;

pub use self::bound_origin::Unbound;
pub use self::contents::{Contents, read};
pub use self::error::{EXTENTS_SHOWN, OfflineError};

#[cfg(test)]
mod tests;
