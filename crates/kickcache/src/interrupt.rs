//! Ctrl-C, or a terminal that is closed: a measurement stops in order and cleans up; a command that it runs is ended with all
//! that it started.
//!
//! A second signal changes nothing: some senders (`timeout`) send each twice, and files would be left behind.

use std::fmt;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

/// How often a signal is looked for.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Listens for SIGHUP, SIGINT and SIGTERM while it lives.
#[derive(Debug)]
pub(crate) struct Interrupt {
    state: Arc<Mutex<State>>,
    handle: Handle,
    listener: Option<JoinHandle<()>>,
    /// What is said of it.
    sentence: &'static str,
}

#[derive(Debug, Default)]
struct State {
    /// The first signal that came.
    signal: Option<u8>,
    /// The process group of the command that runs.
    group: Option<Pid>,
}

/// A signal came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Interrupted(&'static str);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Interrupted {}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Interrupt {
    /// Starts to listen for the signals.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn listen(sentence: &'static str) -> std::io::Result<Interrupt> {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        let (state, handle) = (Arc::<Mutex<State>>::default(), signals.handle());
        let shared = Arc::clone(&state);
        let listen = move || {
            for signal in signals.forever() {
                let mut state = lock(&shared);
                let signal = u8::try_from(signal).expect("signals are small");
                state.signal.get_or_insert(signal);
                // It may have ended on its own.
                let _ = state.group.map(|group| kill_process_group(group, Signal::TERM));
            }
        };
        let listener = thread::Builder::new().name("signals".into()).spawn(listen)?;
        Ok(Interrupt { state, handle, listener: Some(listener), sentence })
    }

    /// The first signal that came, if any.
    pub(crate) fn signal(&self) -> Option<u8> {
        lock(&self.state).signal
    }

    /// Fails once a signal came.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        match self.signal() {
            Some(_) => Err(Interrupted(self.sentence).into()),
            None => Ok(()),
        }
    }

    /// Does something that may hang, such as asking a server; a signal leaves it behind in a thread of its own.
    ///
    /// # Errors
    /// What fails, or [`Interrupted`].
    pub(crate) fn wait_for<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        self.wait_watching(work, || ())?
    }

    /// The same, with a look now and then at how far it is; gives what the work gives, however it ended.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub(crate) fn wait_watching<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        mut look: impl FnMut(),
    ) -> anyhow::Result<T> {
        let (sender, receiver) = mpsc::channel();
        // Nobody may wait for it any more.
        let work = move || drop(sender.send(work()));
        thread::Builder::new().name("waited-for".into()).spawn(work).context("cannot start a thread")?;
        loop {
            match receiver.recv_timeout(LOOK_EVERY) {
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Timeout) => look(),
                Err(RecvTimeoutError::Disconnected) => {
                    anyhow::bail!("the thread that does it ended by a panic")
                }
            }
            self.check()?;
        }
    }

    /// From now on a signal ends the processes of this group; so does one that came before.
    pub(crate) fn watch(&self, group: Pid) {
        let mut state = lock(&self.state);
        state.group = Some(group);
        if state.signal.is_some() {
            let _ = kill_process_group(group, Signal::TERM);
        }
    }

    /// The leader of the group has ended, and is about to be reaped.
    pub(crate) fn unwatch(&self) {
        lock(&self.state).group = None;
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.handle.close();
        // It only waits for signals; a panic there would have been told.
        let _ = self.listener.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_left_behind() {
        let interrupt = Interrupt::listen("it was interrupted").unwrap();
        assert_eq!(interrupt.wait_for(|| Ok(7)).unwrap(), 7);
        assert_eq!(interrupt.wait_for::<()>(|| anyhow::bail!("no")).unwrap_err().to_string(), "no");
        lock(&interrupt.state).signal = Some(2);
        let (hold, hangs) = mpsc::channel::<()>();
        let error = interrupt.wait_for(move || Ok(hangs.recv()?)).unwrap_err();
        assert!(error.is::<Interrupted>() && error.to_string() == "it was interrupted");
        drop(hold);
    }
}
