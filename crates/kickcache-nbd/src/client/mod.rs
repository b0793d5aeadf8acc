//! An NBD client that can have many requests in flight: for remote origins, tools, load generators and tests.
//!
//! A [`Client`] is a [`Sender`] and a [`Receiver`]. Used whole, it does one request at a time ([`Client::read_at`]);
//! split, its user matches replies to requests by their cookies.

mod coverage;
mod error;
mod fua;
mod handshake;
mod options;
mod pending;
mod receiver;
mod remote_export;
mod sender;
mod server_text;
mod socket;
mod stream;
mod timed_stream;
mod tls;
mod tls_handshake;
mod zeroes;

use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use kickcache_engine::request::Unmap;

pub use self::error::ClientError;
pub use self::fua::Fua;
pub use self::options::ConnectOptions;
pub use self::receiver::{Receiver, Reply};
pub use self::remote_export::RemoteExport;
pub use self::sender::Sender;
pub use self::socket::too_late;
pub use self::zeroes::Zeroes;
pub use super::reply::{NbdErrno, StatusExtent};

use self::handshake::negotiate;
use self::pending::Pending;
use self::socket::Socket;
use self::stream::Stream;
use super::wire::PAYLOAD_MAX;

#[derive(Debug)]
pub struct Halves {
    pub sender: Sender,
    pub receiver: Receiver,
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
    /// If the connection or the handshake fails.
    pub fn connect_unix(path: impl AsRef<Path>, options: &ConnectOptions) -> Result<Client, ClientError> {
        let socket = UnixStream::connect(path)?;
        socket.set_read_timeout(options.timeout)?;
        socket.set_write_timeout(options.timeout)?;
        Client::over(Socket::Unix(socket), options)
    }

    pub fn connect_tcp(address: impl ToSocketAddrs, options: &ConnectOptions) -> Result<Client, ClientError> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(options.timeout)?;
        socket.set_write_timeout(options.timeout)?;
        Client::over(Socket::Tcp(socket), options)
    }

    /// Starts on a connected socket, for example one half of a pair; after the handshake, its time-outs are as before.
    ///
    /// # Errors
    /// As [`Client::connect_unix`].
    pub fn from_unix(socket: UnixStream, options: &ConnectOptions) -> Result<Client, ClientError> {
        Client::over(Socket::Unix(socket), options)
    }

    pub fn from_tcp(socket: TcpStream, options: &ConnectOptions) -> Result<Client, ClientError> {
        Client::over(Socket::Tcp(socket), options)
    }

    fn over(socket: Socket, options: &ConnectOptions) -> Result<Client, ClientError> {
        let mut stream = Stream::new(socket);
        let export = negotiate(&mut stream, options)?;
        let stream = Arc::new(stream);
        let pending = Arc::new(Pending::default());
        let sender = Sender::new(Arc::clone(&stream), Arc::clone(&pending));
        let receiver = Receiver::new(stream, pending, export);
        Ok(Client { export, sender, receiver, cookie: 0 })
    }

    pub fn export(&self) -> RemoteExport {
        self.export
    }

    /// Splits the client into two halves; the connection closes when both are dropped.
    pub fn split(self) -> Halves {
        Halves { sender: self.sender, receiver: self.receiver }
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

    pub fn flush(&mut self) -> Result<(), ClientError> {
        let cookie = self.next_cookie();
        self.sender.send_flush(cookie)?;
        self.receiver.expect(cookie).map(|_| ())
    }

    /// Reports to the server that data is no longer needed; `length` may be up to 4 GiB - 1.
    ///
    /// # Errors
    /// If the connection or the request fails.
    pub fn trim(&mut self, offset: u64, length: u64) -> Result<(), ClientError> {
        let cookie = self.next_cookie();
        self.sender.send_trim(cookie, offset, length, Fua::No)?;
        self.receiver.expect(cookie).map(|_| ())
    }

    /// Stores zeroes, with permission to free their space; `length` may be up to 4 GiB - 1.
    ///
    /// # Errors
    /// If the connection or the request fails.
    pub fn write_zeroes(&mut self, offset: u64, length: u64) -> Result<(), ClientError> {
        let cookie = self.next_cookie();
        self.sender.send_write_zeroes(
            cookie,
            offset,
            length,
            Zeroes { fua: Fua::No, unmap: Unmap::Allow },
        )?;
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

    /// Requests the holes and zeroes of a range; the answer may cover less than the range.
    ///
    /// # Errors
    /// If the connection or the request fails, or base:allocation was not agreed on.
    pub fn block_status(&mut self, offset: u64, length: u64) -> Result<Vec<StatusExtent>, ClientError> {
        let cookie = self.next_cookie();
        self.sender.send_block_status(cookie, offset, length)?;
        Ok(self.receiver.expect(cookie)?.extents)
    }

    /// Sends a disconnect; the server closes the connection after it has answered all requests.
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

/// The most bytes of one request of [`Client::read_at`] and [`Client::write_at`].
const PIECE_BYTES: usize = 4 << 20;
const _: () = assert!(PIECE_BYTES as u64 <= PAYLOAD_MAX);

#[cfg(test)]
mod tests;
