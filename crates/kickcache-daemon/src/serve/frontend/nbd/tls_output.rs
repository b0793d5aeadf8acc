//! Bytes of TLS that wait for the socket to accept them.

use std::os::fd::AsFd;

use kickcache_tls::rustls::unbuffered::{EncodeError, EncryptError, InsufficientSizeError};
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::serve::frontend::nbd::send_progress::SendProgress;

#[derive(Default)]
pub(crate) struct TlsOutput {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

pub(crate) enum Unwritten {
    /// The record needs this many bytes of space.
    NoRoom(usize),
    /// The record can never be written: it was encoded before, or the connection's keys are used up.
    Never,
}

impl TlsOutput {
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(crate) fn reserve(&mut self, count: usize) {
        if self.bytes.len() < self.end + count {
            self.bytes.resize(self.end + count, 0);
        }
    }

    /// Lets `write` append bytes to the waiting bytes; `false` if `write` fails.
    pub(crate) fn append<U: Into<Unwritten>>(
        &mut self,
        mut write: impl FnMut(&mut [u8]) -> Result<usize, U>,
    ) -> bool {
        loop {
            match write(&mut self.bytes[self.end..]).map_err(Into::into) {
                Ok(count) => {
                    self.end += count;
                    return true;
                }
                Err(Unwritten::NoRoom(needed)) => self.reserve(needed),
                Err(Unwritten::Never) => return false,
            }
        }
    }

    /// Sends without blocking and without signals.
    pub(crate) fn send(&mut self, socket: impl AsFd) -> SendProgress {
        while !self.is_empty() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&socket, &self.bytes[self.start..self.end], flags) {
                Ok(count) => self.start += count,
                Err(Errno::AGAIN) => return SendProgress::Blocked,
                Err(Errno::INTR) => {}
                Err(_) => return SendProgress::Broken,
            }
        }
        (self.start, self.end) = (0, 0);
        SendProgress::All
    }
}

impl From<EncodeError> for Unwritten {
    fn from(error: EncodeError) -> Unwritten {
        match error {
            EncodeError::InsufficientSize(InsufficientSizeError { required_size }) => {
                Unwritten::NoRoom(required_size)
            }
            EncodeError::AlreadyEncoded => Unwritten::Never,
        }
    }
}

impl From<EncryptError> for Unwritten {
    fn from(error: EncryptError) -> Unwritten {
        match error {
            EncryptError::InsufficientSize(InsufficientSizeError { required_size }) => {
                Unwritten::NoRoom(required_size)
            }
            EncryptError::EncryptExhausted => Unwritten::Never,
        }
    }
}
