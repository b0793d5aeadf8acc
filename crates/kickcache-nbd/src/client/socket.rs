//! The socket under a client.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags, recv, send};

#[derive(Debug)]
pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Whether a call may sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    Yes,
    No,
}

impl Socket {
    /// Sends some of the bytes; returns 0 if the call would have to wait, and may not.
    pub(super) fn send_some(&self, bytes: &[u8], wait: Wait) -> io::Result<usize> {
        let flags = match wait {
            Wait::Yes => SendFlags::NOSIGNAL,
            Wait::No => SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        };
        self.none_if_would_wait(retry(|| send(self.as_fd(), bytes, flags)), wait)
            .map(|count| count.unwrap_or(0))
    }

    /// Receives some bytes; `None` if the call would have to wait, and may not.
    ///
    /// # Errors
    /// `UnexpectedEof` if the peer has closed the connection.
    pub(super) fn receive_some(&self, buffer: &mut [u8], wait: Wait) -> io::Result<Option<usize>> {
        let flags = match wait {
            Wait::Yes => RecvFlags::empty(),
            Wait::No => RecvFlags::DONTWAIT,
        };
        let received = retry(|| recv(self.as_fd(), &mut *buffer, flags).map(|(count, _)| count));
        let count = self.none_if_would_wait(received, wait)?;
        match count {
            Some(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
            count => Ok(count),
        }
    }

    fn none_if_would_wait(&self, result: io::Result<usize>, wait: Wait) -> io::Result<Option<usize>> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => match wait {
                Wait::No => Ok(None),
                Wait::Yes => Err(too_late(self.read_timeout()?.unwrap_or_default())),
            },
            other => other.map(Some),
        }
    }

    pub(super) fn read_timeout(&self) -> io::Result<Option<Duration>> {
        match self {
            Socket::Unix(socket) => socket.read_timeout(),
            Socket::Tcp(socket) => socket.read_timeout(),
        }
    }

    pub(super) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Unix(socket) => socket.set_read_timeout(timeout),
            Socket::Tcp(socket) => socket.set_read_timeout(timeout),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Unix(socket) => socket.as_fd(),
            Socket::Tcp(socket) => socket.as_fd(),
        }
    }
}

fn retry(mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

pub fn too_late(patience: Duration) -> io::Error {
    let what = format!("the server did not answer within {} s", patience.as_secs_f64());
    io::Error::new(io::ErrorKind::TimedOut, what)
}
