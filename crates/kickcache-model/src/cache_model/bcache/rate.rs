//! How fast bcache copies dirty data to the origin: a controller that aims to keep a tenth of the cache dirty.
//!
//! Functions in brackets are in `drivers/md/bcache/writeback.c`, Linux 6.6.

use kickcache_engine::time::{Duration, Instant};

const SECTOR: u64 = 512;
/// The least time between two updates (`writeback_rate_update_seconds`).
const UPDATE: Duration = Duration::from_millis(5_000);
/// The part of the cache, in percent, that the controller aims to keep dirty (`writeback_percent`).
const TARGET_PERCENT: u64 = 10;
/// `writeback_rate_p_term_inverse`
const PROPORTION: i64 = 40;
/// `writeback_rate_i_term_inverse`
const INTEGRAL: i64 = 10_000;
/// `writeback_rate_minimum`
const SECTORS_MIN: i64 = 8;
const SECTORS_MAX: i64 = 1_000_000_000;
/// How far the writer may be ahead of the rate, or behind it (`bch_next_delay`).
const AHEAD_MAX: Duration = Duration::from_millis(2_500);
const BEHIND_MAX: Duration = Duration::from_millis(2_000);
/// A writer that is later than this does not keep up with the rate (`__update_writeback_rate`).
const LATE_MAX: Duration = Duration::from_millis(1);
/// Updates with dirty blocks and without a request after which the rate is not limited
/// (`set_at_max_writeback_rate`).
const IDLE_UPDATES: u32 = 6;
/// Buckets in use, in percent, above which sparse dirty buckets raise the rate, and the weights of each step
/// (`BCH_WRITEBACK_FRAGMENT_THRESHOLD_LOW`, `_MID`, `_HIGH`; `writeback_rate_fp_term_low`, `_mid`, `_high`).
const FRAGMENT_STEPS: [(i64, i64); 3] = [(64, 1_000), (57, 10), (50, 1)];
/// Up to this many sectors of used buckets for each dirty sector, dirty buckets are not sparse.
const FRAGMENT_MIN: i64 = 3;

#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    pub(super) dirty_bytes: u64,
    pub(super) cache_bytes: u64,
    pub(super) used_buckets: u64,
    pub(super) bucket_bytes: u64,
    pub(super) in_use_percent: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    sectors_a_second: i64,
    integral: i64,
    updated: Instant,
    next: Instant,
    /// Updates with dirty blocks since the last request.
    idle_updates: u32,
}

impl Rate {
    pub(super) fn new() -> Rate {
        Rate {
            sectors_a_second: 1024,
            integral: 0,
            updated: Instant::ZERO,
            next: Instant::ZERO,
            idle_updates: 0,
        }
    }

    /// A client sent a request: an unlimited rate ends (`quit_max_writeback_rate`).
    pub(super) fn on_request(&mut self) {
        if self.idle_updates >= IDLE_UPDATES {
            self.sectors_a_second = 1;
        }
        self.idle_updates = 0;
    }

    pub(super) fn update(&mut self, now: Instant, fill: Fill) {
        if now.since(self.updated) < UPDATE {
            return;
        }
        self.updated = now;
        if fill.dirty_bytes == 0 {
            return;
        }
        self.idle_updates = self.idle_updates.saturating_add(1);
        if self.idle_updates >= IDLE_UPDATES {
            (self.sectors_a_second, self.integral) = (SECTORS_MAX, 0);
            return;
        }
        let error = sectors(fill.dirty_bytes) - sectors(fill.cache_bytes / 100 * TARGET_PERCENT);
        let keeps_up = now < self.next.plus(LATE_MAX);
        if (error < 0 && self.integral > 0) || (error > 0 && keeps_up) {
            self.integral += error * 5;
        }
        let proportional =
            fragmentation(fill).map_or(error / PROPORTION, |term| term.max(error / PROPORTION));
        self.sectors_a_second = (proportional + self.integral / INTEGRAL).clamp(SECTORS_MIN, SECTORS_MAX);
    }

    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Drops the backlog (`bch_ratelimit_reset`).
    pub(super) fn reset(&mut self, now: Instant) {
        self.next = now;
    }

    pub(super) fn on_written(&mut self, now: Instant, bytes: u64) {
        let rate = u64::try_from(self.sectors_a_second).unwrap_or(1).max(1);
        let time = Duration::from_nanos(bytes / SECTOR * 1_000_000_000 / rate);
        let earliest = now.as_nanos().saturating_sub(BEHIND_MAX.as_nanos());
        self.next = self.next.plus(time).min(now.plus(AHEAD_MAX)).max(Instant::from_nanos(earliest));
    }
}

fn sectors(bytes: u64) -> i64 {
    i64::try_from(bytes / SECTOR).unwrap_or(i64::MAX)
}

/// The proportional term of a cache with sparse dirty buckets; `None` if they are not sparse, or at least half of the
/// buckets are free (`__update_writeback_rate`).
fn fragmentation(fill: Fill) -> Option<i64> {
    let in_use = i64::try_from(fill.in_use_percent).unwrap_or(100);
    let (above, weight) = FRAGMENT_STEPS.into_iter().find(|(above, _)| in_use > *above)?;
    let used = i64::try_from(fill.used_buckets).unwrap_or(i64::MAX).max(1);
    let dirty = sectors(fill.dirty_bytes);
    let fragments = used.saturating_mul(sectors(fill.bucket_bytes)) / dirty.max(1);
    (fragments > FRAGMENT_MIN).then(|| dirty / used * weight * (in_use - above))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn fill(dirty_bytes: u64, in_use_percent: u64) -> Fill {
        let used_buckets = 2048 * in_use_percent / 100;
        Fill { dirty_bytes, cache_bytes: 1024 * MIB, used_buckets, bucket_bytes: MIB / 2, in_use_percent }
    }

    fn after_updates(rate: &mut Rate, fill: Fill, updates: std::ops::RangeInclusive<u64>) -> i64 {
        updates.for_each(|number| rate.update(Instant::from_nanos(number * 5_000_000_000), fill));
        rate.sectors_a_second
    }

    #[test]
    fn idle_cache_is_not_limited_until_a_request_arrives() {
        let mut rate = Rate::new();
        assert_eq!(after_updates(&mut rate, fill(MIB, 10), 1..=5), SECTORS_MIN);
        rate.on_request();
        assert_eq!(after_updates(&mut rate, fill(MIB, 10), 6..=10), SECTORS_MIN);
        assert_eq!(after_updates(&mut rate, fill(MIB, 10), 11..=11), SECTORS_MAX);
        rate.on_request();
        assert_eq!(rate.sectors_a_second, 1);
    }

    #[test]
    fn sparse_dirty_buckets_raise_the_rate() {
        let rate_at = |in_use| after_updates(&mut Rate::new(), fill(50 * MIB, in_use), 1..=1);
        assert_eq!(rate_at(50), SECTORS_MIN);
        assert_eq!(rate_at(65), 102_400 / 1_331 * 1_000);
    }

    #[test]
    fn late_writer_catches_up_for_two_seconds_at_most() {
        let mut rate = Rate::new();
        let now = Instant::from_nanos(60_000_000_000);
        rate.on_written(now, 1024 * SECTOR);
        assert_eq!(rate.next(), Instant::from_nanos(58_000_000_000));
        rate.on_written(now, 1024 * SECTOR);
        assert_eq!(rate.next(), Instant::from_nanos(59_000_000_000));
    }
}
