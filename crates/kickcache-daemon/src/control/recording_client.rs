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
    heard: Instant,
}

impl RecordingClient {
    /// A recording over a connection, of which more than the first reply has perhaps come.
    pub(super) fn new(stream: UnixStream, title: RecordingTitle, came: Vec<u8>) -> RecordingClient {
        RecordingClient { stream, title, came, heard: Instant::now() }
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
        match self.stream.read(&mut bytes) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
            Ok(count) => {
                self.came.extend_from_slice(&bytes[..count]);
                self.heard = Instant::now();
            }
            Err(error) if is_nothing(error.kind()) => {
                if self.heard.elapsed() > SILENCE_MAX {
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
