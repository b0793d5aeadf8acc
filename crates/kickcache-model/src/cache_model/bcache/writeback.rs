//! The thread that copies dirty keys to the origin, in the order of their addresses.
//!
//! Functions in brackets are in `drivers/md/bcache/writeback.c`, Linux 6.6. Leaves out the order of writes
//! after reads that end in another order, and the lock that a scan holds against writes.

use std::collections::VecDeque;

use kickcache_engine::time::{Duration, Instant};

use crate::cache_model::bcache::buckets::{Buckets, DirtyKey};
use crate::cache_model::bcache::rate::{Fill, Rate};

/// Keys of one scan at most (`KEYBUF_NR`).
const SCAN_MAX: usize = 500;
/// Keys that are written without a pause, and bytes from which on none is added (`MAX_WRITEBACKS_IN_PASS`,
/// `MAX_WRITESIZE_IN_PASS`: 5000 sectors).
const PASS_KEYS_MAX: usize = 5;
const PASS_BYTES_MAX: u64 = 5000 * 512;
/// Keys in flight at most (`bch_cached_dev_writeback_init`: `in_flight`).
const IN_FLIGHT_MAX: usize = 64;
/// Pause after a scan of the whole origin (`writeback_delay`).
const REST: Duration = Duration::from_millis(30_000);

#[derive(Debug)]
pub(super) struct Writeback {
    rate: Rate,
    keys: VecDeque<DirtyKey>,
    in_flight: Vec<DirtyKey>,
    scanned_to: u64,
    has_scanned_all: bool,
    rests_until: Instant,
}

impl Writeback {
    pub(super) fn new() -> Writeback {
        Writeback {
            rate: Rate::new(),
            keys: VecDeque::new(),
            in_flight: Vec::new(),
            scanned_to: 0,
            has_scanned_all: false,
            rests_until: Instant::ZERO,
        }
    }

    pub(super) fn on_request(&mut self) {
        self.rate.on_request();
    }

    pub(super) fn update_rate(&mut self, now: Instant, fill: Fill) {
        self.rate.update(now, fill);
    }

    pub(super) fn is_in_flight(&self, block: u64) -> bool {
        self.in_flight.iter().any(|key| key.blocks().contains(&block))
    }

    /// When the thread has to run, unless a key ends before; `None` if only the end of a key makes it run, or no block
    /// is dirty.
    pub(super) fn poll_timeout(&self, buckets: &Buckets) -> Option<Instant> {
        if !self.keys.is_empty() {
            return self.has_room().then(|| self.rate.next());
        }
        (self.in_flight.is_empty() && buckets.dirty_bytes() > 0).then_some(self.rests_until)
    }

    fn has_room(&self) -> bool {
        self.in_flight.len() + PASS_KEYS_MAX <= IN_FLIGHT_MAX
    }

    /// The keys of the next pass (`read_dirty`); empty if none may be written now.
    pub(super) fn poll_pass(&mut self, now: Instant, buckets: &Buckets) -> Vec<DirtyKey> {
        if self.keys.is_empty() && !self.refill(now, buckets) {
            return Vec::new();
        }
        if self.rate.next() > now || !self.has_room() {
            return Vec::new();
        }
        let pass = self.take_pass(buckets);
        let bytes: u64 = pass.iter().map(|key| key.bytes()).sum();
        self.rate.on_written(now, bytes);
        self.in_flight.extend(&pass);
        pass
    }

    /// The keys of a pass; a key is left out if its blocks were written or dropped since the scan
    /// (`bch_keybuf_check_overlapping`).
    fn take_pass(&mut self, buckets: &Buckets) -> Vec<DirtyKey> {
        let (mut pass, mut bytes): (Vec<DirtyKey>, u64) = (Vec::new(), 0);
        while let Some(key) = self.keys.front().copied() {
            let follows = pass.last().is_none_or(|last| last.end() == key.first);
            if pass.len() == PASS_KEYS_MAX || bytes >= PASS_BYTES_MAX || !follows {
                break;
            }
            self.keys.pop_front();
            if buckets.is_current(key) {
                bytes += key.bytes();
                pass.push(key);
            }
        }
        pass
    }

    /// Scans for dirty keys; returns whether there are keys to write (`refill_dirty`,
    /// `bch_writeback_thread`).
    fn refill(&mut self, now: Instant, buckets: &Buckets) -> bool {
        if !self.in_flight.is_empty() {
            return false;
        }
        if std::mem::take(&mut self.has_scanned_all) {
            self.rests_until = now.plus(REST);
        }
        if now < self.rests_until || buckets.dirty_bytes() == 0 {
            return false;
        }
        if self.rests_until != Instant::ZERO {
            self.rests_until = Instant::ZERO;
            self.rate.reset(now);
        }
        let start = self.scanned_to;
        self.scan(buckets, start, u64::MAX);
        if self.keys.len() < SCAN_MAX {
            self.scan(buckets, 0, start);
            self.has_scanned_all = self.keys.len() < SCAN_MAX;
        }
        !self.keys.is_empty()
    }

    fn scan(&mut self, buckets: &Buckets, from: u64, end: u64) {
        self.scanned_to = from;
        while self.keys.len() < SCAN_MAX {
            let Some(key) = buckets.dirty_key(self.scanned_to).filter(|key| key.first < end) else { return };
            self.scanned_to = key.end();
            self.keys.push_back(key);
        }
    }

    pub(super) fn on_written(&mut self, key: DirtyKey) {
        let found = self.in_flight.iter().position(|known| *known == key);
        self.in_flight.swap_remove(found.expect("the key was in flight"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache_model::bcache::geometry::Geometry;
    use crate::cache_model::block_state::BlockState;

    #[test]
    fn pass_takes_five_keys_without_gaps_and_rests_after_all() {
        let mut buckets = Buckets::new(Geometry { bucket_bytes: 512 << 10, bucket_count: 20 }, 1 << 30);
        let blocks = [10_u64, 11, 12, 13, 14, 15, 40];
        blocks.into_iter().rev().for_each(|block| assert!(buckets.insert(0, block, BlockState::Dirty)));
        let mut writeback = Writeback::new();
        let mut at = Instant::ZERO;
        let mut firsts = Vec::new();
        for _ in 0..3 {
            let pass = writeback.poll_pass(at, &buckets);
            firsts.push(pass.iter().map(|key| key.first).collect::<Vec<_>>());
            for key in pass {
                writeback.on_written(key);
                buckets.set_clean(key);
            }
            at = writeback.rate.next();
        }
        assert_eq!(firsts, [vec![10, 11, 12, 13, 14], vec![15], vec![40]]);
        assert!(buckets.insert(0, 50, BlockState::Dirty));
        assert!(writeback.poll_pass(at, &buckets).is_empty());
        let rested = writeback.poll_timeout(&buckets).unwrap();
        assert_eq!(rested, at.plus(REST));
        assert_eq!(writeback.poll_pass(rested, &buckets).len(), 1);
    }
}
