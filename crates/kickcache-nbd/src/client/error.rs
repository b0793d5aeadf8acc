//! Errors at the client's end.

use std::io;

use kickcache_tls::TlsError;
use thiserror::Error;

use crate::reply::NbdErrno;
use crate::wire::rep;

#[derive(Debug, Error)]
pub enum ClientError {
    /// The socket failed, the server closed it, or the server took too long.
    #[error("the connection to the NBD server failed")]
    Io(#[source] io::Error),
    /// The TLS handshake failed, or the server's TLS data is invalid.
    #[error("TLS with the NBD server failed: {0}")]
    Tls(String),
    /// The server's bytes violate the protocol, or exceed a limit of this client.
    #[error("the NBD server broke the protocol: {0}")]
    Protocol(String),
    #[error("the NBD server refused {option} ({}){}{text}", reply_text(*reply), if text.is_empty() { "" } else { ": " })]
    Refused {
        option: &'static str,
        reply: u32,
        /// The server's explanation, with control characters escaped; may be empty.
        text: String,
    },
    #[error("the NBD server answered {}: {}", .0.value(), .0.text())]
    Request(NbdErrno),
    #[error("a request of {0} bytes is too long, at most 33554432 bytes of data and 4294967295 otherwise")]
    TooLong(u64),
    #[error("the cookie {0} belongs to a request in flight: take another")]
    CookieInFlight(u64),
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> ClientError {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<TlsFailure>()) {
            Some(TlsFailure(why)) => ClientError::Tls(why.clone()),
            None => ClientError::Io(error),
        }
    }
}

impl From<TlsError> for ClientError {
    fn from(error: TlsError) -> ClientError {
        ClientError::Tls(error.to_string())
    }
}

#[derive(Debug, Error)]
#[error("TLS failed: {0}")]
pub(super) struct TlsFailure(pub(super) String);

impl From<TlsFailure> for io::Error {
    fn from(failure: TlsFailure) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, failure)
    }
}

fn reply_text(reply: u32) -> String {
    match reply {
        rep::ERR_UNSUP => "it does not know the option".into(),
        rep::ERR_POLICY => "it does not permit it".into(),
        rep::ERR_INVALID => "it finds the request invalid".into(),
        rep::ERR_TLS_REQD => "it requires TLS".into(),
        rep::ERR_UNKNOWN => "unknown export".into(),
        reply => format!("reply {reply:#x}"),
    }
}
