//! A signal or a closed output interrupts a command.
//!
//! A second signal does not cut the cleanup short: some senders (`timeout`) send each twice, and files would
//! be left behind.

use std::fmt;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::closed_output::OutputWatch;

/// Time between two checks for a signal.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

const GRACE: Duration = Duration::from_millis(500);
/// As [`Exit::Interrupted`](crate::exit::Exit::Interrupted).
const INTERRUPTED: i32 = 130;

/// Listens for SIGHUP, SIGINT and SIGTERM while it lives, and for the end of its output, which counts as
/// SIGHUP.
#[derive(Debug)]
pub struct Interrupt {
    state: Arc<Shared>,
    _output: OutputWatch,
    handle: Handle,
    listener: Option<JoinHandle<()>>,
    sentence: &'static str,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The first signal.
    signal: Option<u8>,
    group: Option<Pid>,
}

/// A signal arrived, or the output was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupted(&'static str);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Interrupted {}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, signal: i32) {
        let mut state = self.lock();
        let signal = u8::try_from(signal).expect("signals are small");
        state.signal.get_or_insert(signal);
        self.came.notify_all();
        let _ = state.group.map(|group| kill_process_group(group, Signal::TERM));
    }

    fn wait(&self) {
        let waited = self.came.wait_while(self.lock(), |state| state.signal.is_none());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Interrupt {
    /// # Errors
    /// If the system refuses.
    pub fn listen(sentence: &'static str) -> std::io::Result<Interrupt> {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        let (state, handle) = (Arc::<Shared>::default(), signals.handle());
        let (by_signal, by_output) = (Arc::clone(&state), Arc::clone(&state));
        let output = OutputWatch::start(move || by_output.handle(SIGHUP))?;
        let listen = move || signals.forever().for_each(|signal| by_signal.handle(signal));
        let listener = thread::Builder::new().name("signals".into()).spawn(listen)?;
        Ok(Interrupt { state, _output: output, handle, listener: Some(listener), sentence })
    }

    /// After this call, the process ends half a second after a signal, even if the command hangs: a stopped
    /// terminal blocks every write. `before_end` is called first.
    ///
    /// # Errors
    /// If the system has no thread.
    pub fn end_hanging_process(&self, before_end: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let shared = Arc::clone(&self.state);
        let end = move || {
            shared.wait();
            thread::sleep(GRACE);
            before_end();
            std::process::exit(INTERRUPTED);
        };
        thread::Builder::new().name("deadline".into()).spawn(end).map(drop)
    }

    /// The first signal; SIGHUP for the end of the output.
    pub fn signal(&self) -> Option<u8> {
        self.state.lock().signal
    }

    /// # Errors
    /// [`Interrupted`], once a signal has arrived.
    pub fn check(&self) -> anyhow::Result<()> {
        match self.signal() {
            Some(_) => Err(Interrupted(self.sentence).into()),
            None => Ok(()),
        }
    }

    /// Runs a task; after a signal, the task is abandoned in its own thread.
    ///
    /// # Errors
    /// The error of the task; [`Interrupted`], after a signal; if the task panics or there is no thread for
    /// it.
    pub fn wait_for<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        self.wait_watching(work, || ())?
    }

    /// As [`Interrupt::wait_for`]; calls `look` at intervals.
    ///
    /// # Errors
    /// [`Interrupted`], after a signal; if the task panics or there is no thread for it.
    pub fn wait_watching<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        mut look: impl FnMut(),
    ) -> anyhow::Result<T> {
        let (sender, receiver) = mpsc::channel();
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

    /// Sends SIGTERM to this process group at a signal, or at once after an earlier signal.
    pub fn watch(&self, group: Pid) {
        let mut state = self.state.lock();
        state.group = Some(group);
        if state.signal.is_some() {
            let _ = kill_process_group(group, Signal::TERM);
        }
    }

    /// Ends [`Interrupt::watch`]: the leader of the group has ended, and is about to be reaped.
    pub fn unwatch(&self) {
        self.state.lock().group = None;
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.handle.close();
        let _ = self.listener.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hanging_task_is_abandoned() {
        let interrupt = Interrupt::listen("it was interrupted").unwrap();
        assert_eq!(interrupt.wait_for(|| Ok(7)).unwrap(), 7);
        assert_eq!(interrupt.wait_for::<()>(|| anyhow::bail!("no")).unwrap_err().to_string(), "no");
        interrupt.state.lock().signal = Some(2);
        let (hold, hangs) = mpsc::channel::<()>();
        let error = interrupt.wait_for(move || Ok(hangs.recv()?)).unwrap_err();
        assert!(error.is::<Interrupted>() && error.to_string() == "it was interrupted");
        drop(hold);
    }
}
