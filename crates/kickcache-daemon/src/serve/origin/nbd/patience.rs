//! How long a start waits for a server: it says for which, it has an end, and a stop that is asked for ends it at once.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::driver::clock::WatchedTime;
use crate::plan::nbd_uri::NbdUri;
use crate::serve::error::ServeError;
use crate::serve::stop_wish::StopWish;

/// How long one answer of a handshake may take.
pub(super) const PATIENCE_MAX: Duration = Duration::from_secs(10);
/// When the log says who is waited for.
const TELL_AFTER: Duration = Duration::from_secs(3);
/// How long a server may take for everything.
const SILENT_MAX: Duration = Duration::from_secs(30);
/// How often it is looked whether a stop is asked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The server of a volume.
pub(super) struct Waited<'a> {
    pub(super) volume: &'a str,
    pub(super) uri: &'a NbdUri,
}

impl Waited<'_> {
    /// Asks it something on a thread of its own, which is left behind if the answer does not come.
    ///
    /// # Errors
    /// [`ServeError::Volume`], or [`ServeError::Stopped`] if a stop was asked for.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        wish: &StopWish,
        ask: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> Result<T, ServeError> {
        let (sender, answer) = mpsc::channel();
        // Nobody listens any more to one that took too long.
        let asking = move || drop(sender.send(ask()));
        let thread = thread::Builder::new().name("origin-ask".into()).spawn(asking);
        thread.map_err(ServeError::system("start a thread"))?;
        let mut time = WatchedTime::begin();
        let mut told = false;
        loop {
            match answer.recv_timeout(LOOK_EVERY) {
                Ok(answer) => return answer.map_err(|what| self.refuse(&what)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.refuse("asking it failed")),
            }
            if wish.is_raised() {
                return Err(ServeError::Stopped);
            }
            let passed = time.look();
            if passed >= SILENT_MAX {
                let seconds = SILENT_MAX.as_secs();
                return Err(self.refuse(&format!(
                    "its server has not answered all that it was asked for {seconds} s; look what it says"
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
