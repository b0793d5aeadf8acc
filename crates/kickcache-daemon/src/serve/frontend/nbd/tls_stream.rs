//! A client's TLS: what came from the socket becomes what the client said, and what it is owed becomes what goes to the socket.
//!
//! Invariants:
//! - T-1: nothing that was decrypted stays here: it is with the caller when [`TlsStream::receive`] returns.
//! - T-2: more is encrypted when what was encrypted before is with the kernel, so that a client which does not read holds
//!   [`BATCH`] bytes at most.

use std::io::{self, ErrorKind, IoSlice, Read as _, Write};
use std::os::fd::{AsFd, BorrowedFd};

use kickcache_tls::names::PeerNames;
use kickcache_tls::rustls::{self, ServerConnection};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};

use crate::serve::frontend::nbd::input::{Arrival, Input, Received};
use crate::serve::frontend::nbd::sent::Sent;

/// Bytes taken from the socket at once.
const RECEIVE: usize = 128 << 10;
/// Bytes encrypted at once.
const BATCH: usize = 256 << 10;

/// A client's TLS.
pub(crate) struct TlsStream {
    connection: ServerConnection,
    /// What a receive brought; empty between two of them.
    encrypted: Vec<u8>,
    end: End,
}

/// Whether the client says more.
#[derive(Clone, PartialEq, Debug)]
enum End {
    Open,
    /// It said that it does not.
    Closed,
    Failed(rustls::Error),
}

impl TlsStream {
    pub(crate) fn new(mut connection: ServerConnection) -> TlsStream {
        connection.set_buffer_limit(Some(BATCH));
        TlsStream { connection, encrypted: vec![0; RECEIVE], end: End::Open }
    }

    /// Whether keys are still being agreed on.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// The names in the client's certificate, which was verified, if it has one.
    pub(crate) fn names(&self) -> PeerNames {
        let certificates = self.connection.peer_certificates().unwrap_or_default();
        certificates.first().map(PeerNames::of).unwrap_or_default()
    }

    /// Why it failed, if it did.
    pub(crate) fn failure(&self) -> Option<&rustls::Error> {
        match &self.end {
            End::Failed(error) => Some(error),
            End::Open | End::Closed => None,
        }
    }

    /// Whether the socket has not taken everything yet.
    pub(crate) fn owes(&self) -> bool {
        self.connection.wants_write()
    }

    /// Receives without blocking; what the client said goes to `first`, and the rest to `into`.
    pub(crate) fn receive(&mut self, socket: impl AsFd, first: &mut [u8], into: &mut Input) -> Arrival {
        if self.end != End::Open {
            return Arrival { taken: 0, received: Received::End };
        }
        // Plaintext is never longer, and one record may have come in part before.
        let room = (first.len() + into.room()).saturating_sub(RECORD_MAX);
        let wanted = RECEIVE.min(room);
        debug_assert!(wanted > 0, "there is room for what comes next whenever something is received");
        let count = match rustix::net::recv(socket, &mut self.encrypted[..wanted], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Arrival { taken: 0, received: Received::End },
            Ok((count, _)) => count,
            Err(Errno::AGAIN) => return Arrival { taken: 0, received: Received::Drained },
            Err(Errno::INTR) => return Arrival { taken: 0, received: Received::More },
            Err(_) => return Arrival { taken: 0, received: Received::End },
        };
        let taken = self.decrypt(count, first, into);
        let received = match self.end {
            // What it said before is looked at first.
            End::Closed => Received::More,
            End::Failed(_) => Received::End,
            End::Open if count < wanted => Received::Drained,
            End::Open => Received::More,
        };
        Arrival { taken, received }
    }

    /// Gives how many bytes went to `first`.
    fn decrypt(&mut self, count: usize, first: &mut [u8], into: &mut Input) -> usize {
        let encrypted = std::mem::take(&mut self.encrypted);
        let mut rest = &encrypted[..count];
        let mut taken = 0;
        while !rest.is_empty() && self.end == End::Open {
            // Out of memory it cannot fail, and `deliver` takes everything that would be in the way.
            let fed = self.connection.read_tls(&mut rest).unwrap_or(0);
            match self.connection.process_new_packets() {
                Ok(state) => {
                    taken += self.deliver(&mut first[taken..], into);
                    if state.peer_has_closed() || fed == 0 {
                        self.end = End::Closed;
                    }
                }
                Err(error) => self.end = End::Failed(error),
            }
        }
        self.encrypted = encrypted;
        taken
    }

    fn deliver(&mut self, first: &mut [u8], into: &mut Input) -> usize {
        let mut reader = self.connection.reader();
        let mut taken = 0;
        // "Would block" is the end of what was decrypted.
        while taken < first.len() {
            match reader.read(&mut first[taken..]) {
                Ok(0) | Err(_) => return taken,
                Ok(count) => taken += count,
            }
        }
        while into.take_from(&mut reader) > 0 {}
        taken
    }

    /// Sends what is encrypted, without blocking.
    pub(crate) fn flush(&mut self, socket: impl AsFd) -> Sent {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut SocketWriter(socket.as_fd())) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Sent::Blocked,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Sent::Broken,
            }
        }
        Sent::All
    }

    /// Encrypts the beginning of what is to be sent; gives how much of it.
    pub(crate) fn encrypt(&mut self, plain: &[IoSlice<'_>]) -> usize {
        debug_assert!(!self.connection.is_handshaking() && !self.connection.wants_write());
        self.connection.writer().write_vectored(plain).unwrap_or(0)
    }

    /// Says that nothing more comes, as far as the socket takes it.
    pub(crate) fn say_goodbye(&mut self, socket: impl AsFd) {
        self.connection.send_close_notify();
        let _ = self.flush(socket);
    }
}

/// Bytes of the longest record.
const RECORD_MAX: usize = 18 << 10;

/// A socket that is written to without blocking and without signals.
struct SocketWriter<'a>(BorrowedFd<'a>);

const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

impl Write for SocketWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, bytes, FLAGS)?)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::net::sendmsg(self.0, slices, &mut SendAncillaryBuffer::default(), FLAGS)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
