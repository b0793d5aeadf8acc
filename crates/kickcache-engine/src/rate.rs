//! Caps on bytes and requests a second, and their use.

use core::num::NonZeroU64;

use crate::time::{Duration, Instant};

/// At most this many a second; `None` is no cap.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct RateCap {
    /// Bytes a second.
    pub bytes: Option<NonZeroU64>,
    /// Requests a second.
    pub requests: Option<NonZeroU64>,
}

impl RateCap {
    /// Whether there is no cap.
    pub const fn is_off(&self) -> bool {
        self.bytes.is_none() && self.requests.is_none()
    }
}

/// The used part of a cap: a token bucket, stored as the time at which the used tokens are paid for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RateUse {
    bytes_paid: Instant,
    requests_paid: Instant,
}

impl RateUse {
    /// When more may be used; a full bucket has `burst`.
    pub fn ready_at(&self, burst: Duration) -> Instant {
        let paid = self.bytes_paid.max(self.requests_paid);
        Instant::from_nanos(paid.as_nanos().saturating_sub(burst.as_nanos()))
    }

    /// Uses tokens for a request of this many bytes, which may be more than a full bucket.
    pub fn take(&mut self, now: Instant, cap: &RateCap, bytes: u64) {
        if let Some(rate) = cap.bytes {
            self.bytes_paid = self.bytes_paid.max(now).plus(price(bytes, rate));
        }
        if let Some(rate) = cap.requests {
            self.requests_paid = self.requests_paid.max(now).plus(price(1, rate));
        }
    }
}

fn price(count: u64, rate: NonZeroU64) -> Duration {
    let nanos = u128::from(count) * 1_000_000_000 / u128::from(rate.get());
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BURST: Duration = Duration::from_millis(1_000);

    const fn cap(bytes: u64, requests: u64) -> RateCap {
        RateCap { bytes: NonZeroU64::new(bytes), requests: NonZeroU64::new(requests) }
    }

    /// The number of requests that pass within this many milliseconds.
    fn passed(used: &mut RateUse, from: u64, millis: u64, length: u64, cap: &RateCap) -> u64 {
        let mut count = 0;
        for now in (from..from + millis).map(|at| Instant::from_nanos(at * 1_000_000)) {
            while used.ready_at(BURST) <= now && count < 100_000 {
                used.take(now, cap, length);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn a_burst_passes_at_once_and_then_the_rate() {
        let mut used = RateUse::default();
        let requests = cap(0, 200);
        assert_eq!(passed(&mut used, 5_000, 1, 4096, &requests), 201);
        assert_eq!(passed(&mut used, 5_001, 10_000, 4096, &requests), 2_000);
        assert_eq!(passed(&mut used, 60_000, 1, 4096, &requests), 201, "the unused part is a burst again");
    }

    #[test]
    fn bytes_and_requests_count_apart() {
        let both = cap(1 << 20, 100);
        assert_eq!(passed(&mut RateUse::default(), 0, 11_000, 4096, &both), 1_200, "small ones: requests");
        assert_eq!(passed(&mut RateUse::default(), 0, 11_000, 1 << 20, &both), 12, "large ones: bytes");
    }

    #[test]
    fn without_a_cap_all_passes() {
        assert!(RateCap::default().is_off());
        assert_eq!(passed(&mut RateUse::default(), 0, 1, 1 << 20, &RateCap::default()), 100_000);
    }
}
