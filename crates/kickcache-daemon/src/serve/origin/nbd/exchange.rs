//! The queues between the driver's thread and the thread of a remote origin.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kickcache_engine::samples::Sample;
use kickcache_nbd::client::ClientError;

use super::job::OriginJob;
use super::links::Links;
use super::outcome::Outcome;
use crate::driver::queued_device::ServerOutage;
use crate::wakeup::Wakeup;

/// The orders to the thread of an origin, and its results for the loop.
pub(super) struct Exchange {
    orders: Mutex<Orders>,
    /// Readable when there are orders, or at the end.
    pub(super) to_thread: Wakeup,
    outcomes: Mutex<VecDeque<Outcome>>,
    /// Readable when there are outcomes.
    pub(super) to_driver: Wakeup,
    away: Mutex<Option<KnownOutage>>,
}

struct KnownOutage {
    since: Instant,
    why: String,
    /// When requests fail because of the outage, unless it is over by then.
    fails_at: Instant,
}

#[derive(Default)]
struct Orders {
    orders: Vec<Order>,
    has_ended: bool,
}

pub(super) enum Order {
    Use(Links),
    Do(OriginJob),
    /// Samples of the expected contents of the next server.
    Expect(Vec<Sample>),
    GiveUp,
    Dialled(Result<Links, ClientError>),
}

/// Whether the driver still has the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Device {
    InUse,
    Gone,
}

impl Exchange {
    pub(super) fn new() -> io::Result<Exchange> {
        Ok(Exchange {
            orders: Mutex::default(),
            to_thread: Wakeup::new()?,
            outcomes: Mutex::default(),
            to_driver: Wakeup::new()?,
            away: Mutex::default(),
        })
    }

    /// Notes that the server is away from now on, and that requests fail after `limit`.
    pub(super) fn note_away(&self, why: String, limit: Duration) {
        let now = Instant::now();
        *lock(&self.away) = Some(KnownOutage { since: now, why, fails_at: now + limit });
    }

    /// If the server is away, sets the time until requests fail, counted from now.
    pub(super) fn note_limit(&self, limit: Duration) {
        if let Some(outage) = &mut *lock(&self.away) {
            outage.fails_at = Instant::now() + limit;
        }
    }

    pub(super) fn note_why(&self, why: &str) {
        if let Some(outage) = &mut *lock(&self.away) {
            outage.why = why.into();
        }
    }

    pub(super) fn note_back(&self) {
        *lock(&self.away) = None;
    }

    pub(super) fn away(&self) -> Option<ServerOutage> {
        lock(&self.away).as_ref().map(|KnownOutage { since, why, fails_at }| ServerOutage {
            span: since.elapsed(),
            why: why.clone(),
            fails_in: fails_at.saturating_duration_since(Instant::now()),
        })
    }

    pub(super) fn give(&self, order: Order) {
        lock(&self.orders).orders.push(order);
        self.to_thread.ring();
    }

    /// Notes that the device was dropped, so that its jobs are abandoned.
    pub(super) fn end(&self) {
        lock(&self.orders).has_ended = true;
        self.to_thread.ring();
    }

    pub(super) fn take(&self, into: &mut Vec<Order>) -> Device {
        self.to_thread.clear();
        let mut orders = lock(&self.orders);
        into.append(&mut orders.orders);
        if orders.has_ended { Device::Gone } else { Device::InUse }
    }

    pub(super) fn deliver(&self, outcomes: &mut Vec<Outcome>) {
        if !outcomes.is_empty() {
            lock(&self.outcomes).extend(outcomes.drain(..));
            self.to_driver.ring();
        }
    }

    pub(super) fn collect(&self, into: &mut VecDeque<Outcome>) {
        self.to_driver.clear();
        into.append(&mut lock(&self.outcomes));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
