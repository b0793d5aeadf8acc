//! What the driver's thread and the thread of a remote origin hand to each other.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::job::OriginJob;
use crate::wakeup::Wakeup;

/// What comes back, in the order in which it happened.
#[derive(Debug)]
pub(super) enum Outcome {
    /// A job ended: with the bytes of a read, or an errno.
    Ended { token: u64, result: Result<Vec<u8>, i32> },
    /// The server was lost, and may have lost what it had not flushed.
    Restarted,
}

/// Both directions.
#[derive(Debug)]
pub(super) struct Exchange {
    jobs: Mutex<Orders>,
    /// Readable when there are jobs, or the end has come.
    pub(super) to_thread: Wakeup,
    outcomes: Mutex<VecDeque<Outcome>>,
    /// Readable when there are outcomes.
    pub(super) to_driver: Wakeup,
    /// Since when the server has been away, if it is.
    away: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct Orders {
    jobs: Vec<OriginJob>,
    has_ended: bool,
}

/// Whether the device is still there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Device {
    InUse,
    Gone,
}

impl Exchange {
    pub(super) fn new() -> io::Result<Exchange> {
        Ok(Exchange {
            jobs: Mutex::default(),
            to_thread: Wakeup::new()?,
            outcomes: Mutex::default(),
            to_driver: Wakeup::new()?,
            away: Mutex::default(),
        })
    }

    /// The server is away since a time, or is not.
    pub(super) fn note_away(&self, since: Option<Instant>) {
        *lock(&self.away) = since;
    }

    /// For how long the server has been away, if it is.
    pub(super) fn away(&self) -> Option<Duration> {
        lock(&self.away).map(|since| since.elapsed())
    }

    pub(super) fn give(&self, job: OriginJob) {
        lock(&self.jobs).jobs.push(job);
        self.to_thread.ring();
    }

    /// The device is gone, and nobody waits for its jobs.
    pub(super) fn end(&self) {
        lock(&self.jobs).has_ended = true;
        self.to_thread.ring();
    }

    /// Takes what was given since the last call.
    pub(super) fn take(&self, into: &mut Vec<OriginJob>) -> Device {
        self.to_thread.clear();
        let mut orders = lock(&self.jobs);
        into.append(&mut orders.jobs);
        if orders.has_ended { Device::Gone } else { Device::InUse }
    }

    pub(super) fn deliver(&self, outcomes: &mut Vec<Outcome>) {
        if !outcomes.is_empty() {
            lock(&self.outcomes).extend(outcomes.drain(..));
            self.to_driver.ring();
        }
    }

    /// Takes what was delivered since the last call.
    pub(super) fn collect(&self, into: &mut VecDeque<Outcome>) {
        self.to_driver.clear();
        into.append(&mut lock(&self.outcomes));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
