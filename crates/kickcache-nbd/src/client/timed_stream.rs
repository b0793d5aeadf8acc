//! A socket during the handshake, which must be over in time as a whole: a server may send a byte now and then, for ever.

use std::io;
use std::time::{Duration, Instant};

use super::stream::Stream;

/// A socket and the end of the time that it has.
pub(super) struct TimedStream<'a> {
    stream: &'a Stream,
    end: Option<Instant>,
    /// What is set outside of the handshake.
    usual: Option<Duration>,
}

impl<'a> TimedStream<'a> {
    pub(super) fn begin(stream: &'a Stream, timeout: Option<Duration>) -> io::Result<TimedStream<'a>> {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Ok(TimedStream { stream, end, usual: stream.read_timeout()? })
    }

    /// Sets the socket as it was.
    pub(super) fn finish(self) -> io::Result<()> {
        self.stream.set_read_timeout(self.usual)
    }

    pub(super) fn send_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.stream.send_all(bytes)
    }

    pub(super) fn receive_exact(&self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
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
            let count = self.stream.receive_waiting(buffer)?;
            buffer = &mut buffer[count..];
        }
        Ok(())
    }
}
