//! A command that waits for its daemon.

use std::thread;

use anyhow::Context;
use kickcache_command::exit::Failure;
use kickcache_command::interrupt::{Interrupt, LOOK_EVERY};
use kickcache_daemon::control::client::{Client, ClientError};
use kickcache_daemon::control::report::Report;

const GOES_ON: &str = "interrupted; the daemon continues the operation, and its status shows the progress";

pub(super) struct DaemonWait {
    interrupt: Interrupt,
}

impl DaemonWait {
    /// # Errors
    /// If the system refuses.
    pub(super) fn new() -> Result<DaemonWait, Failure> {
        let interrupt = Interrupt::listen(GOES_ON).context("cannot catch signals")?;
        interrupt.end_hanging_process(|| ()).context("cannot start a thread")?;
        Ok(DaemonWait { interrupt })
    }

    /// Sends a request to the daemon, and calls `look` at intervals until the reply arrives.
    ///
    /// # Errors
    /// If the reply is an error, or a signal interrupts the wait.
    pub(super) fn answer<T: Send + 'static>(
        &self,
        ask: impl FnOnce() -> Result<T, ClientError> + Send + 'static,
        look: impl FnMut(),
    ) -> Result<T, Failure> {
        Ok(self.interrupt.wait_watching(ask, look)??)
    }

    /// The report of a daemon, which may be paused; `lost` makes the failure if the daemon gives none.
    ///
    /// # Errors
    /// The failure from `lost`; an error after a signal.
    pub(super) fn status(
        &self,
        client: &Client,
        lost: impl FnOnce(ClientError) -> Failure,
    ) -> Result<Report, Failure> {
        let client = client.waiting();
        self.interrupt.wait_watching(move || client.status(), || ())?.map_err(lost)
    }

    /// # Errors
    /// If a signal has arrived.
    pub(super) fn pause(&self) -> Result<(), Failure> {
        thread::sleep(LOOK_EVERY);
        Ok(self.interrupt.check()?)
    }
}
