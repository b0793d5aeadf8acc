//! The NBD protocol: the server's side of a connection without any I/O, and a small client.
//!
//! Modules:
//! * [`session`]: a connection; it turns bytes into [`Command`]s and results into replies.
//! * `handshake`, `option`, `export`: the negotiation; `transmission`, `command`, `reply`: requests and their replies.
//! * `tls`: whether clients may or must use TLS, and which exports they may use.
//! * `decoded_prefix`: the bytes that a step consumes from a stream; `wire`: the numbers of the protocol, and
//!   big-endian integers.
//! * [`client`]: a client.
//!
//! Invariants: the server's side does no I/O and reads no clock. No bytes of a peer cause a panic (`fuzz/` has
//! targets).
//!
//! Start with [`Session`]. The protocol: <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>.

pub mod client;
mod command;
mod decoded_prefix;
mod export;
mod handshake;
mod option;
mod reply;
pub mod session;
mod tls;
mod transmission;
mod wire;

pub use command::{CloseReason, Command, CommandKind, Decoded};
pub use decoded_prefix::DecodedPrefix;
pub use export::ExportInfo;
pub use reply::{NbdErrno, ReplyHead, StatusExtent};
pub use session::Session;
pub use tls::{Access, TlsPolicy};
pub use wire::PAYLOAD_MAX;

#[cfg(test)]
#[path = "../../../fuzz/harness/replay.rs"]
mod corpus;
