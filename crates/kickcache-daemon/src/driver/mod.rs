//! Access to devices: opening them, aligned memory, checksums, io_uring and its replacement.
//!
//! The `unsafe` code of the daemon is here and in the ublk front end.

mod adaptive_polling;
pub(crate) mod aligned_device;
mod backend;
pub mod budget;
pub mod buffers;
pub mod checksum;
pub mod clock;
mod common_memory;
pub mod device;
mod device_clock;
pub mod errno;
pub mod executor;
pub mod fault;
mod huge_pages;
pub mod inherited_sockets;
pub mod io_engine;
mod ioctl;
pub(crate) mod memory;
pub(crate) mod minimum_block;
pub(crate) mod null_device;
pub mod open_files;
mod operation;
pub mod payload_memory;
pub mod queued_device;
pub mod record_thread;
pub mod rights;
mod ring;
mod threads;
mod workers;

pub use backend::{Doorbells, Interest};
