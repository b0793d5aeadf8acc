//! A socket during the handshake, which must be over in time as a whole: a server may send a byte now and then, for ever.

use std::io;
use std::time::{Duration, Instant};

use super::stream::Stream;

/// The end of the time that a handshake has, if it has one.
pub(super) struct TimeLimit {
    end: Option<Instant>,
    /// The read timeout of the socket outside of the handshake.
    usual: Option<Duration>,
}

impl TimeLimit {
    pub(super) fn begin(stream: &Stream, timeout: Option<Duration>) -> io::Result<TimeLimit> {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Ok(TimeLimit { end, usual: stream.read_timeout()? })
    }

    pub(super) fn over<'a>(&self, stream: &'a Stream) -> TimedStream<'a> {
        TimedStream { stream, end: self.end }
    }

    /// Restores the read timeout of the socket.
    pub(super) fn finish(self, stream: &Stream) -> io::Result<()> {
        stream.set_read_timeout(self.usual)
    }
}

pub(super) struct TimedStream<'a> {
    stream: &'a Stream,
    end: Option<Instant>,
}

impl TimedStream<'_> {
    pub(super) fn send_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.stream.send_all(bytes)
    }

    pub(super) fn receive_exact(&self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let count = self.receive_some(buffer)?;
            buffer = &mut buffer[count..];
        }
        Ok(())
    }

    pub(super) fn receive_some(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(end) = self.end {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the server did not end the handshake in time",
                ));
            }
            self.stream.set_read_timeout(Some(left))?;
        }
        self.stream.receive_waiting(buffer)
    }
}
