//! A command that waits for its daemon, which goes on with what it was told if the command is interrupted.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use kickcache_daemon::control::client::ClientError;

use crate::cli::exit::{Exit, Failure};
use crate::interrupt::Interrupt;

/// Time between two looks at how far the daemon is.
const PAUSE: Duration = Duration::from_millis(100);

/// What is waited for.
pub(super) struct Awaited {
    interrupt: Interrupt,
}

impl Awaited {
    /// Listens for signals; `sentence` says what becomes of what the daemon was told.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn new(sentence: &'static str) -> Result<Awaited, Failure> {
        let interrupt = Interrupt::listen(sentence).context("cannot catch signals")?;
        Ok(Awaited { interrupt })
    }

    /// Asks the daemon, and looks again and again until it has answered, however long that takes.
    ///
    /// # Errors
    /// Of the answer, or a signal came.
    pub(super) fn answer<T: Send + 'static>(
        &self,
        ask: impl FnOnce() -> Result<T, ClientError> + Send + 'static,
        mut look: impl FnMut(),
    ) -> Result<T, Failure> {
        let (sender, answer) = mpsc::channel();
        // Nobody may be left to take it.
        let ask = move || drop(sender.send(ask()));
        thread::Builder::new().name("ask".into()).spawn(ask).context("cannot start a thread")?;
        loop {
            match answer.recv_timeout(PAUSE) {
                Ok(answered) => return Ok(answered?),
                Err(RecvTimeoutError::Timeout) => look(),
                Err(RecvTimeoutError::Disconnected) => return Err(anyhow!("nobody asked the daemon").into()),
            }
            self.check()?;
        }
    }

    /// A pause between two looks.
    ///
    /// # Errors
    /// A signal came.
    pub(super) fn pause(&self) -> Result<(), Failure> {
        thread::sleep(PAUSE);
        self.check()
    }

    fn check(&self) -> Result<(), Failure> {
        self.interrupt.check().map_err(|error| Failure { exit: Exit::Interrupted, error })
    }
}
