//! The client's end of a recording.

use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::control::wire::RecordingTitle;
use crate::recording::parcel::Parcel;

/// The client's side of a recording, which ends when this value is dropped.
#[derive(Debug)]
pub struct RecordingClient {
    stream: UnixStream,
    title: RecordingTitle,
    came: Vec<u8>,
}

impl RecordingClient {
    /// A recording over a connection; `came` are the bytes received after the first reply.
    pub(super) fn new(stream: UnixStream, title: RecordingTitle, came: Vec<u8>) -> RecordingClient {
        RecordingClient { stream, title, came }
    }

    pub fn title(&self) -> &RecordingTitle {
        &self.title
    }

    /// The next parcel. Waits for at most `wait`; `None` if no parcel is complete then.
    ///
    /// # Errors
    /// The daemon has ended or closed the connection, the connection fails, or the daemon sends bytes that
    /// are no recording.
    pub fn next(&mut self, wait: Duration) -> io::Result<Option<Parcel>> {
        if let Some(parcel) = self.take()? {
            return Ok(Some(parcel));
        }
        self.stream.set_read_timeout(Some(wait))?;
        let mut bytes = [0; 64 << 10];
        match self.stream.read(&mut bytes) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
            Ok(count) => self.came.extend_from_slice(&bytes[..count]),
            Err(error) if is_nothing(error.kind()) => {}
            Err(error) => return Err(error),
        }
        self.take()
    }

    /// Requests the end; parcels follow up to the last one.
    ///
    /// # Errors
    /// If the socket cannot be shut down.
    pub fn finish(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    fn take(&mut self) -> io::Result<Option<Parcel>> {
        Parcel::take(&mut self.came).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

fn is_nothing(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const WAIT: Duration = Duration::from_millis(1);

    #[test]
    fn a_silent_daemon_is_waited_for_until_its_connection_closes() {
        let (stream, mut daemon) = UnixStream::pair().unwrap();
        let title = RecordingTitle { volume: "v".into(), volume_bytes: 4096, started_nanos: 0 };
        let mut client = RecordingClient::new(stream, title, Vec::new());
        for _ in 0..20 {
            assert!(client.next(WAIT).unwrap().is_none());
        }
        daemon.write_all(&[0]).unwrap();
        assert!(client.next(WAIT).unwrap().is_none());
        drop(daemon);
        assert_eq!(client.next(WAIT).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
