//! The journal of a bcache: at most one entry is in flight, the next one fills.
//!
//! A write flushes the device first and is durable when it ends (`journal_write_unlocked`: `REQ_PREFLUSH`, `REQ_FUA`).

use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::BLOCK_SIZE;

use crate::cache_model::bcache::geometry::KEY_BYTES;

/// Time from the first key of an entry until it is to be written, if no other entry is in flight
/// (`journal_delay_ms`).
const DELAY: Duration = Duration::from_millis(100);
/// Bytes of an entry without keys (`struct jset`).
const HEADER_BYTES: u64 = 240;
/// An entry of this many bytes or more is full (`JSET_BITS`, `PAGE_SECTORS`).
const ENTRY_BYTES_MAX: u64 = 32 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waiter {
    Flush(u32),
    /// Buckets with generations that were written before (`bch_prio_write`).
    Buckets,
}

#[derive(Debug, Default)]
pub(super) struct Journal {
    keys: u64,
    due: Option<Instant>,
    waiters: Vec<Waiter>,
    /// The waiters of the entry in flight.
    writing: Option<Vec<Waiter>>,
    position: u64,
}

impl Journal {
    pub(super) fn add(&mut self, now: Instant, keys: u64) {
        self.keys += keys;
        self.due.get_or_insert_with(|| now.plus(DELAY));
    }

    pub(super) fn wait(&mut self, waiter: Waiter) {
        self.waiters.push(waiter);
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.due.filter(|_| self.writing.is_none())
    }

    /// Begins to write the entry if that is due; returns its bytes (`journal_try_write`).
    pub(super) fn begin(&mut self, now: Instant) -> Option<u64> {
        let bytes = (HEADER_BYTES + self.keys * KEY_BYTES).next_multiple_of(BLOCK_SIZE);
        let is_due = self.due.is_some_and(|due| due <= now) || bytes >= ENTRY_BYTES_MAX;
        if self.writing.is_some() || (self.waiters.is_empty() && !is_due) {
            return None;
        }
        (self.keys, self.due) = (0, None);
        self.writing = Some(std::mem::take(&mut self.waiters));
        self.position += bytes;
        Some(bytes)
    }

    pub(super) fn end(&mut self) -> Vec<Waiter> {
        self.writing.take().expect("an entry was in flight")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_during_a_write_share_the_next_one() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut journal = Journal::default();
        journal.add(at(0), 1);
        assert_eq!(journal.begin(at(99)), None);
        assert_eq!(journal.begin(at(100)), Some(4096));
        [1, 2].into_iter().for_each(|id| journal.wait(Waiter::Flush(id)));
        assert_eq!(journal.begin(at(200)), None);
        assert_eq!(journal.end(), []);
        assert_eq!(journal.begin(at(200)), Some(4096));
        assert_eq!(journal.end(), [Waiter::Flush(1), Waiter::Flush(2)]);
        journal.add(at(300), 1_400);
        assert_eq!((journal.begin(at(300)), journal.position()), (Some(36_864), 45_056));
    }
}
