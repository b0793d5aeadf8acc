//! The client's end of a recording.

use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::control::wire::RecordingTitle;
use crate::recording::parcel::Parcel;

/// A daemon that is silent for this long is taken for hung; it says once a second that it lives.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// A recording that runs, until this is dropped.
#[derive(Debug)]
pub struct RecordingClient {
    stream: UnixStream,
    title: RecordingTitle,
    came: Vec<u8>,
    /// For how long nothing came while it was waited for. A machine that stands still, both ends with it, is not silent.
    silent: Duration,
}

impl RecordingClient {
    /// A recording over a connection, of which more than the first reply has perhaps come.
    pub(super) fn new(stream: UnixStream, title: RecordingTitle, came: Vec<u8>) -> RecordingClient {
        RecordingClient { stream, title, came, silent: Duration::ZERO }
    }

    /// What is recorded.
    pub fn title(&self) -> &RecordingTitle {
        &self.title
    }

    /// The next parcel; `None` if none comes for so long.
    ///
    /// # Errors
    /// The daemon is gone, hangs, or sends what is no recording.
    pub fn next(&mut self, wait: Duration) -> io::Result<Option<Parcel>> {
        if let Some(parcel) = self.take()? {
            return Ok(Some(parcel));
        }
        self.stream.set_read_timeout(Some(wait))?;
        let mut bytes = [0; 64 << 10];
        let asked = Instant::now();
        match self.stream.read(&mut bytes) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
            Ok(count) => {
                self.came.extend_from_slice(&bytes[..count]);
                self.silent = Duration::ZERO;
            }
            Err(error) if is_nothing(error.kind()) => {
                self.silent += asked.elapsed().min(wait);
                if self.silent > SILENCE_MAX {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "it is silent"));
                }
            }
            Err(error) => return Err(error),
        }
        self.take()
    }

    /// Asks for the end; parcels come up to the last one.
    ///
    /// # Errors
    /// The daemon is gone.
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
    fn a_daemon_is_silent_while_it_is_waited_for_and_not_meanwhile() {
        let (stream, mut daemon) = UnixStream::pair().unwrap();
        let title = RecordingTitle { volume: "v".into(), volume_bytes: 4096, started_nanos: 0 };
        let mut client = RecordingClient::new(stream, title, Vec::new());
        client.silent = SILENCE_MAX.saturating_sub(2 * WAIT);
        assert!(client.next(WAIT).unwrap().is_none());
        // Whatever the clock does in between.
        std::thread::sleep(5 * WAIT);
        assert!(client.next(WAIT).unwrap().is_none());
        daemon.write_all(&[0]).unwrap();
        assert!(client.next(WAIT).unwrap().is_none());
        assert_eq!(client.silent, Duration::ZERO);
        client.silent = SILENCE_MAX;
        assert_eq!(client.next(WAIT).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
