//! Ctrl-C, or a terminal that is closed: the command that runs is ended with all that it started.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::judge::failure::RunFailure;

/// How long a command may take to end when it is asked to.
const END_MAX: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Listens for SIGHUP, SIGINT and SIGTERM while it lives.
#[derive(Debug)]
pub struct Interrupt {
    state: Arc<Mutex<State>>,
    handle: Handle,
    listener: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    /// The first signal that came.
    signal: Option<u8>,
    /// The process group of the command that runs.
    group: Option<Pid>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Interrupt {
    /// Starts to listen.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn listen() -> std::io::Result<Interrupt> {
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
        Ok(Interrupt { state, handle, listener: Some(listener) })
    }

    /// Fails once a signal came.
    ///
    /// # Errors
    /// The signal.
    pub(crate) fn check(&self) -> Result<(), RunFailure> {
        lock(&self.state).signal.map_or(Ok(()), |signal| Err(RunFailure::Interrupted(signal)))
    }

    /// From now on a signal ends the processes of this group; so does one that came before.
    pub(crate) fn watch(&self, group: Pid) {
        let mut state = lock(&self.state);
        state.group = Some(group);
        if state.signal.is_some() {
            let _ = kill_process_group(group, Signal::TERM);
        }
    }

    /// Whether a signal came.
    pub(crate) fn came(&self) -> bool {
        self.check().is_err()
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

/// Ends what is left of a group that was asked to end.
pub(crate) fn end_group(group: Pid) {
    let begun = Instant::now();
    while test_kill_process_group(group) != Err(Errno::SRCH) {
        if begun.elapsed() > END_MAX {
            let _ = kill_process_group(group, Signal::KILL);
            return;
        }
        thread::sleep(LOOK_EVERY);
    }
}
