//! The stream of a client: a socket, shared by its two halves, and the TLS over it if it is in use.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::socket::{Socket, Wait};
use super::tls::Tls;

#[derive(Debug)]
pub(super) struct Stream {
    socket: Socket,
    tls: Option<Tls>,
}

impl Stream {
    pub(super) fn new(socket: Socket) -> Stream {
        Stream { socket, tls: None }
    }

    /// Sends and receives through TLS from now on.
    pub(super) fn secure(&mut self, tls: Tls) {
        self.tls = Some(tls);
    }

    /// Sends some of the bytes. Returns 0 if the call would have to wait, and may not: the caller must then pass the
    /// same bytes again.
    pub(super) fn send_some(&self, bytes: &[u8], wait: Wait) -> io::Result<usize> {
        match &self.tls {
            None => self.socket.send_some(bytes, wait),
            Some(tls) => tls.send_some(&self.socket, bytes, wait),
        }
    }

    pub(super) fn receive_some(&self, buffer: &mut [u8], wait: Wait) -> io::Result<Option<usize>> {
        match &self.tls {
            None => self.socket.receive_some(buffer, wait),
            Some(tls) => tls.receive_some(&self.socket, buffer, wait),
        }
    }

    pub(super) fn send_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = self.send_some(bytes, Wait::Yes)?;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    pub(super) fn receive_waiting(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(self.receive_some(buffer, Wait::Yes)?.unwrap_or(0))
    }

    pub(super) fn read_timeout(&self) -> io::Result<Option<Duration>> {
        self.socket.read_timeout()
    }

    pub(super) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.set_read_timeout(timeout)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
