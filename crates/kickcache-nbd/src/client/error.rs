//! What can go wrong at the client's end.

use std::io;

use thiserror::Error;

use crate::reply::NbdErrno;

/// What can go wrong at the client's end.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The socket failed, or the server closed it.
    #[error("the connection to the NBD server failed")]
    Io(#[from] io::Error),
    /// The server's bytes make no sense.
    #[error("the NBD server broke the protocol: {0}")]
    Protocol(String),
    /// The server turned the export down.
    #[error("the NBD server refused {option} (reply {reply:#x}): {text}")]
    Refused {
        /// What was asked for.
        option: &'static str,
        /// The protocol's reply type.
        reply: u32,
        /// What the server says about it.
        text: String,
    },
    /// A request failed.
    #[error("the NBD server answered {}: {}", .0.value(), .0.text())]
    Request(NbdErrno),
    /// The request cannot be sent.
    #[error("a request of {0} bytes is too long, at most 33554432 bytes of data and 4294967295 otherwise")]
    TooLong(u64),
    /// The cookie is that of a request in flight.
    #[error("the cookie {0} belongs to a request in flight: take another")]
    CookieInFlight(u64),
}
