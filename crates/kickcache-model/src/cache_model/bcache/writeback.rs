//! How fast bcache copies dirty data to the origin: a controller that aims at a tenth of the cache.
//!
//! Leaves out the term for sparse buckets.

use kickcache_engine::time::{Duration, Instant};

const SECTOR: u64 = 512;
const UPDATE: Duration = Duration::from_millis(5_000);
/// The part of the cache that may stay dirty, in percent.
const TARGET_PERCENT: u64 = 10;
const PROPORTION: i64 = 40;
const INTEGRAL: i64 = 10_000;
const SECTORS_MIN: i64 = 8;
const SECTORS_MAX: i64 = 1_000_000_000;
const AHEAD: Duration = Duration::from_millis(2_500);

/// The controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    sectors_a_second: i64,
    integral: i64,
    updated: Instant,
    next: Instant,
}

impl Rate {
    pub(super) fn new() -> Rate {
        Rate { sectors_a_second: 1024, integral: 0, updated: Instant::ZERO, next: Instant::ZERO }
    }

    /// The clients are idle: nothing is to be waited for.
    pub(super) fn lift(&mut self) {
        self.sectors_a_second = SECTORS_MAX;
    }

    /// Aims anew, by the dirty bytes and those of the cache.
    pub(super) fn update(&mut self, now: Instant, dirty: u64, cache: u64) {
        if now.since(self.updated) < UPDATE {
            return;
        }
        self.updated = now;
        let sectors = |bytes: u64| i64::try_from(bytes / SECTOR).unwrap_or(i64::MAX);
        let error = sectors(dirty) - sectors(cache / 100 * TARGET_PERCENT);
        let keeps_up = now.plus(Duration::from_millis(1)) > self.next;
        if (error < 0 && self.integral > 0) || (error > 0 && keeps_up) {
            self.integral += error * 5;
        }
        let rate = error / PROPORTION + self.integral / INTEGRAL;
        self.sectors_a_second = rate.clamp(SECTORS_MIN, SECTORS_MAX);
    }

    pub(super) fn may_write(&self, now: Instant) -> bool {
        self.next <= now
    }

    pub(super) fn on_written(&mut self, now: Instant, bytes: u64) {
        let rate = u64::try_from(self.sectors_a_second).unwrap_or(1).max(1);
        let time = Duration::from_nanos(bytes / SECTOR * 1_000_000_000 / rate);
        self.next = self.next.max(now).plus(time).min(now.plus(AHEAD));
    }
}
