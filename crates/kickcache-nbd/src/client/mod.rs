//! A blocking NBD client that can have many requests in flight: for tools, load generators and tests.
//!
//! A [`Client`] is a [`Sender`] and a [`Receiver`]. Used whole, it does one request at a time ([`Client::read_at`]);
//! split, two threads or one poll loop drive the halves and match replies to requests by their cookies.

mod handshake;
mod receiver;
mod sender;
mod stream;

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

pub use super::reply::{NbdErrno, StatusExtent};
pub use receiver::{Receiver, Reply};
pub use sender::Sender;

use self::handshake::negotiate;
use self::sender::Pending;
use self::stream::Stream;
use super::wire::{PAYLOAD_MAX, export_flag};

/// What to ask the server for.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Name of the export; empty for the server's default.
    pub export: String,
    /// Ask for structured replies; without them a failed read is all the client learns.
    pub structured: bool,
    /// Ask for base:allocation, which block status requests need; implies structured replies.
    pub allocation: bool,
    /// Longest wait for any one read or write of the socket; `None` waits forever.
    pub timeout: Option<Duration>,
}

impl Default for ConnectOptions {
    fn default() -> ConnectOptions {
        ConnectOptions {
            export: String::new(),
            structured: false,
            allocation: false,
            timeout: Some(Duration::from_secs(30)),
        }
    }
}

/// What the server told about the export and the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteExport {
    /// Bytes.
    pub size: u64,
    /// The transmission flags of the protocol.
    pub flags: u16,
    /// Smallest, best and largest block in bytes, if the server said.
    pub block_sizes: Option<[u32; 3]>,
    /// Whether structured replies were agreed on.
    pub structured: bool,
    /// The number of base:allocation, if it was agreed on.
    pub allocation: Option<u32>,
}

impl RemoteExport {
    /// Whether writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.flags & export_flag::READ_ONLY != 0
    }

    /// Whether flush is supported.
    pub fn has_flush(&self) -> bool {
        self.flags & export_flag::FLUSH != 0
    }

    /// Whether trim is supported.
    pub fn has_trim(&self) -> bool {
        self.flags & export_flag::TRIM != 0
    }

    /// Whether several connections see one another's writes and flushes.
    pub fn has_multi_conn(&self) -> bool {
        self.flags & export_flag::MULTI_CONN != 0
    }
}

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

/// A connection in the transmission phase.
#[derive(Debug)]
pub struct Client {
    export: RemoteExport,
    sender: Sender,
    receiver: Receiver,
    cookie: u64,
}

impl Client {
    /// Connects to a unix socket.
    ///
    /// # Errors
    /// If there is no server, it is no NBD server, or it refuses the export.
    pub fn connect_unix(path: impl AsRef<Path>, options: &ConnectOptions) -> Result<Client, ClientError> {
        let socket = UnixStream::connect(path)?;
        socket.set_read_timeout(options.timeout)?;
        socket.set_write_timeout(options.timeout)?;
        Client::over(Stream::Unix(socket), options)
    }

    /// Connects to a TCP port.
    ///
    /// # Errors
    /// As [`Client::connect_unix`].
    pub fn connect_tcp(address: impl ToSocketAddrs, options: &ConnectOptions) -> Result<Client, ClientError> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(options.timeout)?;
        socket.set_write_timeout(options.timeout)?;
        Client::over(Stream::Tcp(socket), options)
    }

    /// Starts on a connected socket, for example one half of a pair; its time-outs stay as they are.
    ///
    /// # Errors
    /// As [`Client::connect_unix`].
    pub fn from_unix(socket: UnixStream, options: &ConnectOptions) -> Result<Client, ClientError> {
        Client::over(Stream::Unix(socket), options)
    }

    fn over(stream: Stream, options: &ConnectOptions) -> Result<Client, ClientError> {
        let export = negotiate(&stream, options)?;
        let stream = Arc::new(stream);
        let pending = Arc::new(Pending::default());
        let sender = Sender::new(Arc::clone(&stream), Arc::clone(&pending));
        let receiver = Receiver::new(stream, pending, export);
        Ok(Client { export, sender, receiver, cookie: 0 })
    }

    /// What the server told in the handshake.
    pub fn export(&self) -> RemoteExport {
        self.export
    }

    /// Takes the client apart; the connection closes when both halves are gone.
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }

    /// Reads into the whole of `buffer`, in as many requests as it needs.
    ///
    /// # Errors
    /// If the connection or the request fails.
    pub fn read_at(&mut self, mut offset: u64, buffer: &mut [u8]) -> Result<(), ClientError> {
        for piece in buffer.chunks_mut(PIECE_BYTES) {
            let cookie = self.next_cookie();
            let length = piece.len() as u64;
            self.sender.send_read(cookie, offset, length)?;
            piece.copy_from_slice(self.receiver.expect(cookie)?.data);
            offset += length;
        }
        Ok(())
    }

    /// Writes the whole of `data`, in as many requests as it needs.
    ///
    /// # Errors
    /// If the connection or the request fails.
    pub fn write_at(&mut self, mut offset: u64, data: &[u8]) -> Result<(), ClientError> {
        for piece in data.chunks(PIECE_BYTES) {
            let cookie = self.next_cookie();
            self.sender.send_write(cookie, offset, piece, Fua::No)?;
            self.receiver.expect(cookie)?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Makes all acknowledged writes durable.
    ///
    /// # Errors
    /// If the connection or the request fails.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        let cookie = self.next_cookie();
        self.sender.send_flush(cookie)?;
        self.receiver.expect(cookie).map(|_| ())
    }

    /// Gives data up; `length` may be up to 4 GiB - 1.
    ///
    /// # Errors
    /// If the connection or the request fails.
    pub fn trim(&mut self, offset: u64, length: u64) -> Result<(), ClientError> {
        let cookie = self.next_cookie();
        self.sender.send_trim(cookie, offset, length, Fua::No)?;
        self.receiver.expect(cookie).map(|_| ())
    }

    /// Stores zeroes; `length` may be up to 4 GiB - 1.
    ///
    /// # Errors
    /// If the connection or the request fails.
    pub fn write_zeroes(&mut self, offset: u64, length: u64) -> Result<(), ClientError> {
        let cookie = self.next_cookie();
        self.sender.send_write_zeroes(cookie, offset, length, Fua::No)?;
        self.receiver.expect(cookie).map(|_| ())
    }

    /// Brings data into the server's cache; `length` may be up to 4 GiB - 1.
    ///
    /// # Errors
    /// If the connection or the request fails.
    pub fn cache(&mut self, offset: u64, length: u64) -> Result<(), ClientError> {
        let cookie = self.next_cookie();
        self.sender.send_cache(cookie, offset, length)?;
        self.receiver.expect(cookie).map(|_| ())
    }

    /// Asks which parts are holes or zeroes; the answer may cover less than was asked for.
    ///
    /// # Errors
    /// If the connection or the request fails, or base:allocation was not agreed on.
    pub fn block_status(&mut self, offset: u64, length: u64) -> Result<Vec<StatusExtent>, ClientError> {
        let cookie = self.next_cookie();
        self.sender.send_block_status(cookie, offset, length)?;
        Ok(self.receiver.expect(cookie)?.extents)
    }

    /// Says good-bye; the server closes the connection once everything is answered.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn disconnect(mut self) -> Result<(), ClientError> {
        self.sender.send_disconnect()
    }

    fn next_cookie(&mut self) -> u64 {
        self.cookie += 1;
        self.cookie
    }
}

/// Bytes of one request of [`Client::read_at`] and [`Client::write_at`].
const PIECE_BYTES: usize = 4 << 20;
const _: () = assert!(PIECE_BYTES as u64 <= PAYLOAD_MAX);

/// Whether a request must be durable before its reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fua {
    /// A flush will do that.
    No,
    /// It must.
    Yes,
}

#[cfg(test)]
mod tests;
