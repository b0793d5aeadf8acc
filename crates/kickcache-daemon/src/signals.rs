//! Signals of a process that serves.
//!
//! SIGPIPE is ignored from the start of the program on, by Rust's runtime: a write to a closed pipe is an error.

use std::{io, thread};

use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::{Handle, Signals};

/// While this value lives, signals are caught; after its drop, they are ignored.
#[must_use = "signals are ignored when this is dropped"]
pub struct CaughtSignals(Handle);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meaning {
    Stop,
    Reload,
    Nothing,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// A clean stop; the signal may arrive again during the stop.
    Stop,
    Reload,
}

/// `Nothing` marks a signal that would end the process if it were not caught; signals of faults are not
/// caught.
const SIGNALS: [(i32, &str, Meaning); 14] = [
    (SIGTERM, "SIGTERM", Meaning::Stop),
    (SIGINT, "SIGINT", Meaning::Stop),
    (SIGQUIT, "SIGQUIT", Meaning::Stop),
    // The end of a terminal does not stop the daemon, since volumes are in use.
    (SIGHUP, "SIGHUP", Meaning::Reload),
    (SIGUSR1, "SIGUSR1", Meaning::Nothing),
    (SIGUSR2, "SIGUSR2", Meaning::Nothing),
    (SIGALRM, "SIGALRM", Meaning::Nothing),
    (SIGVTALRM, "SIGVTALRM", Meaning::Nothing),
    (SIGPROF, "SIGPROF", Meaning::Nothing),
    (SIGIO, "SIGIO", Meaning::Nothing),
    (libc::SIGSTKFLT, "SIGSTKFLT", Meaning::Nothing),
    (libc::SIGPWR, "SIGPWR", Meaning::Nothing),
    // The write that is too long for `ulimit -f` fails with EFBIG.
    (SIGXFSZ, "SIGXFSZ", Meaning::Nothing),
    // Sent when the CPU time of `ulimit -t` is used up; at the hard limit, SIGKILL follows.
    (SIGXCPU, "SIGXCPU", Meaning::Stop),
];

struct SignalEntry {
    name: String,
    meaning: Meaning,
}

/// Real-time signals are not in the table.
fn look_up(number: i32) -> SignalEntry {
    match SIGNALS.iter().find(|signal| signal.0 == number) {
        Some((_, name, meaning)) => SignalEntry { name: (*name).into(), meaning: *meaning },
        None => {
            let name = format!("SIGRTMIN+{}", number - libc::SIGRTMIN());
            SignalEntry { name, meaning: Meaning::Nothing }
        }
    }
}

/// Catches signals on a thread of its own; `obey` gets their requests, and must return soon.
///
/// # Errors
/// The error of the system if signals cannot be caught.
pub fn catch(obey: impl Fn(Wish) + Send + 'static) -> io::Result<CaughtSignals> {
    let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
    let mut signals = Signals::new(SIGNALS.map(|(number, ..)| number).into_iter().chain(real_time))?;
    let handle = signals.handle();
    let follow = move || {
        for number in signals.forever() {
            let SignalEntry { name, meaning } = look_up(number);
            match meaning {
                Meaning::Stop => {
                    tracing::info!(event = "signal_stop", "{name}: the daemon stops");
                    obey(Wish::Stop);
                }
                Meaning::Reload => obey(Wish::Reload),
                Meaning::Nothing => tell_ignored(&name),
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(follow)?;
    Ok(CaughtSignals(handle))
}

pub fn tell_ignored(name: &str) {
    tracing::info!(event = "signal_ignored", "{name} was received and is ignored");
}

impl Drop for CaughtSignals {
    fn drop(&mut self) {
        self.0.close();
    }
}
