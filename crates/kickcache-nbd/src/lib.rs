//! NBD: the server's side of a connection without any I/O, and a small client.
//!
//! The serve loop feeds a [`Session`] with the bytes of a connection and carries out the [`Command`]s it gives back;
//! the session knows the protocol, the loop knows sockets, buffers, deadlines and limits on what is in flight.
//! The protocol is described in <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>.

pub mod client;
mod command;
mod export;
mod handshake;
mod option;
mod reply;
pub mod session;
mod transmission;
mod wire;

pub use command::{CloseReason, Command, CommandKind, Decoded};
pub use export::ExportInfo;
pub use reply::{NbdErrno, ReplyHead, StatusExtent};
pub use session::Session;
pub use wire::PAYLOAD_MAX;

#[cfg(test)]
#[path = "../../../fuzz/harness/replay.rs"]
mod corpus;
