//! TLS over a client's socket, shared by its two halves.
//!
//! Invariants:
//! - No half waits for the socket while it holds `connection`: a half that waits does not block the other
//!   one.
//! - Only the sender holds `outgoing`, only the receiver holds `incoming`.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kickcache_tls::explain;
use kickcache_tls::rustls::{self, ClientConnection};

use super::error::TlsFailure;
use super::socket::{Socket, Wait};

/// The most bytes that one call receives from the socket.
const RECEIVE: usize = 128 << 10;
/// The most of the caller's bytes that are encrypted at once.
const BATCH: usize = 128 << 10;

#[derive(Debug)]
pub(super) struct Tls {
    connection: Mutex<ClientConnection>,
    outgoing: Mutex<EncryptedOutput>,
    incoming: Mutex<Incoming>,
}

/// Encrypted bytes, until the socket has accepted all.
#[derive(Debug, Default)]
struct EncryptedOutput {
    bytes: Vec<u8>,
    sent: usize,
    /// The number of the caller's bytes that `bytes` contains.
    plain: usize,
}

/// Bytes that were received and not yet decrypted.
#[derive(Debug)]
struct Incoming {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Tls {
    pub(super) fn new(mut connection: ClientConnection) -> Tls {
        connection.set_buffer_limit(None);
        Tls {
            connection: Mutex::new(connection),
            outgoing: Mutex::default(),
            incoming: Mutex::new(Incoming { bytes: vec![0; RECEIVE], start: 0, end: 0 }),
        }
    }

    /// As [`super::stream::Stream::send_some`]: the caller's bytes count as sent once the socket has accepted all of
    /// their encrypted bytes.
    pub(super) fn send_some(&self, socket: &Socket, bytes: &[u8], wait: Wait) -> io::Result<usize> {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.bytes.is_empty() {
            let mut connection = lock(&self.connection);
            outgoing.plain = connection.writer().write(&bytes[..bytes.len().min(BATCH)])?;
            outgoing.bytes = encrypted(&mut connection)?;
        }
        while outgoing.sent < outgoing.bytes.len() {
            match socket.send_some(&outgoing.bytes[outgoing.sent..], wait)? {
                0 => return Ok(0),
                count => outgoing.sent += count,
            }
        }
        Ok(std::mem::take(&mut *outgoing).plain)
    }

    pub(super) fn receive_some(
        &self,
        socket: &Socket,
        buffer: &mut [u8],
        wait: Wait,
    ) -> io::Result<Option<usize>> {
        let mut incoming = lock(&self.incoming);
        loop {
            let count = self.decrypt(&mut incoming, buffer)?;
            if count > 0 {
                return Ok(Some(count));
            }
            let Some(count) = socket.receive_some(&mut incoming.bytes, wait)? else { return Ok(None) };
            (incoming.start, incoming.end) = (0, count);
        }
    }

    /// Fills the buffer as far as possible; if there is room left, all received bytes have been used, or the server has
    /// closed the connection.
    fn decrypt(&self, incoming: &mut Incoming, buffer: &mut [u8]) -> io::Result<usize> {
        let mut connection = lock(&self.connection);
        let mut filled = 0;
        while filled < buffer.len() {
            match connection.reader().read(&mut buffer[filled..]) {
                Ok(0) if filled > 0 => return Ok(filled),
                Ok(0) => {
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection"));
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                Err(_) if incoming.start == incoming.end => return Ok(filled),
                Err(_) => {
                    incoming.start +=
                        connection.read_tls(&mut &incoming.bytes[incoming.start..incoming.end])?;
                    connection.process_new_packets().map_err(failed)?;
                }
            }
        }
        Ok(filled)
    }
}

/// The encrypted bytes that a connection has ready for the socket.
pub(super) fn encrypted(connection: &mut ClientConnection) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut bytes)?;
    }
    Ok(bytes)
}

#[expect(clippy::needless_pass_by_value, reason = "errors arrive by value")]
pub(super) fn failed(error: rustls::Error) -> io::Error {
    TlsFailure(explain(&error)).into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
