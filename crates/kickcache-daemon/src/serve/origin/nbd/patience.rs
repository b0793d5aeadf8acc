//! The wait of a start for a server, with a limit.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::driver::clock::WatchedTime;
use crate::plan::nbd_uri::NbdUri;
use crate::serve::error::ServeError;
use crate::serve::stop_wish::StopWish;

/// The longest wait for one answer of a handshake; the time limit of the origin may be shorter.
pub(super) const PATIENCE_MAX: Duration = Duration::from_secs(10);
/// The time after which the log names an awaited server.
const TELL_AFTER: Duration = Duration::from_secs(3);
/// The longest total time, without gaps, of the wait of a start for one server.
const SILENT_MAX: Duration = Duration::from_secs(30);
/// The interval of checks for a stop request.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) struct ServerWait<'a> {
    pub(super) volume: &'a str,
    pub(super) uri: &'a NbdUri,
}

impl ServerWait<'_> {
    /// Sends a server a request on a thread of its own, which is abandoned after the limit or a stop request.
    ///
    /// # Errors
    /// [`ServeError::Volume`], [`ServeError::Stopped`] after a stop request, or [`ServeError::System`] without a thread.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        wish: &StopWish,
        ask: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> Result<T, ServeError> {
        let (sender, answer) = mpsc::channel();
        // The receiver may be dropped.
        let asking = move || drop(sender.send(ask()));
        let thread = thread::Builder::new().name("origin-ask".into()).spawn(asking);
        thread.map_err(ServeError::system("start a thread"))?;
        let mut time = WatchedTime::begin();
        let mut told = false;
        loop {
            match answer.recv_timeout(LOOK_EVERY) {
                Ok(answer) => return answer.map_err(|what| self.refuse(&what)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.refuse("the request failed")),
            }
            if wish.is_raised() {
                return Err(ServeError::Stopped);
            }
            let passed = time.look();
            if passed >= SILENT_MAX {
                let seconds = SILENT_MAX.as_secs();
                return Err(self.refuse(&format!(
                    "its server has not answered all requests for {seconds} s; see the server's log"
                )));
            }
            if !told && passed >= TELL_AFTER {
                told = true;
                self.tell();
            }
        }
    }

    fn refuse(&self, what: &str) -> ServeError {
        ServeError::Volume { name: self.volume.into(), what: format!("its origin {}: {what}", self.uri) }
    }

    fn tell(&self) {
        let (so_far, longest) = (TELL_AFTER.as_secs(), SILENT_MAX.as_secs());
        tracing::warn!(
            event = "start_waits",
            "the server of {}, the origin of {}, has not answered for {so_far} s: the start waits for it, {longest} s at most",
            self.uri,
            self.volume
        );
    }
}
