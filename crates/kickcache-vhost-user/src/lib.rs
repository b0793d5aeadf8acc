//! The vhost-user-blk export: a guest's virtio queues served straight from its memory.
//!
//! A front end, such as QEMU, hands over its guest's memory, and for each queue an eventfd that the guest kicks and an
//! eventfd that interrupts the guest. The crate does no I/O on volumes; its owner watches the descriptors.
//!
//! Modules:
//! * `device`, `front_end`: the device, and the messages of a front end; `message`, `socket`, `features`,
//!   `config_space`: the protocol.
//! * `vring`, `chain`, `request`: a queue, its descriptor chains, and the requests in them.
//! * `inflight`: the record of requests in flight that survives the daemon.
//! * `memory`, `guard`: the guest's memory, and faults in it.
//!
//! Invariants: no guest and no front end causes a panic, or reaches memory other than its own. `unsafe` is in `guard`
//! only. Start with [`Device`].
//!
//! Decisions:
//!
//! - **Payload is copied once, between guest memory and memory of the daemon.** Written data must match the checksum
//!   that was computed over it, so a write is copied before its checksum is computed. Read data is verified before it
//!   is copied to the guest: a guest that overwrites its own buffer must not look like a damaged cache device.
//! - **Descriptors, headers and ranges are read once**, into values of the daemon, and checked there.
//! - **An invalid request is answered with an error if its chain is sound and has a status byte; a queue with another
//!   chain, or with a broken ring, is stopped.**
//! - **Requests in flight are written down in memory that the front end keeps**, if it offers some (`inflight`): after
//!   a daemon was killed, the next one finishes them.
//! - **If the file of guest memory is cut short while the daemon uses it, only its guest loses the disk** (`guard`).

mod chain;
mod config_space;
mod device;
mod features;
mod front_end;
mod guard;
mod inflight;
mod memory;
mod message;
mod request;
mod socket;
#[cfg(test)]
mod tests;
mod vring;

pub use self::config_space::Disk;
pub use self::device::{Answer, Device, KickChange, Notice};
pub use self::features::QUEUE_COUNT_MAX;
pub use self::message::{Packet, ProtocolError, Reply};
pub use self::request::{GuestRequest, Outcome, RequestKind};
pub use self::socket::{Received, Socket};

// Messages are in the byte order of the machine, rings and requests in little-endian; here both are the same.
const _: () = assert!(cfg!(target_endian = "little"));

#[cfg(test)]
#[path = "../../../fuzz/harness/replay.rs"]
mod corpus;
