//! Recent latencies of a device: a histogram of about the last minute.

use alloc::boxed::Box;

use crate::time::Instant;

/// Nanoseconds after which a sample begins a new half.
const HALF: u64 = 30_000_000_000;
/// Buckets for each doubling, as a power of two.
const FINE: u32 = 2;
/// The first bucket begins at 2 to the power of this, in nanoseconds, and also has all shorter samples.
const FIRST: u32 = 10;
/// The last bucket also has all longer samples.
const BUCKETS: usize = 26 << FINE;
/// With fewer samples there is no result.
const SAMPLES_LEAST: u64 = 32;

type Counts = [u32; BUCKETS];

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Latencies {
    /// The samples from `since` on, and those of the half before.
    halves: [Box<Counts>; 2],
    since: Instant,
}

const fn bucket(nanos: u64) -> usize {
    let nanos = if nanos < 1 << FIRST { 1 << FIRST } else { nanos };
    let power = nanos.ilog2();
    let part = (nanos >> (power - FINE)) & ((1 << FINE) - 1);
    let bucket = ((power - FIRST) as usize) << FINE | part as usize;
    if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
}

/// The lower bound of a bucket.
const fn least(bucket: usize) -> u64 {
    let part = (bucket & ((1 << FINE) - 1)) as u64 | 1 << FINE;
    part << (bucket >> FINE) << (FIRST - FINE)
}

impl Latencies {
    pub(crate) fn new() -> Latencies {
        Latencies { halves: [Box::new([0; BUCKETS]), Box::new([0; BUCKETS])], since: Instant::ZERO }
    }

    #[inline(never)]
    pub(crate) fn add(&mut self, now: Instant, nanos: u64, requests: u32) {
        let age = now.since(self.since).as_nanos();
        if age >= HALF {
            self.halves.swap(0, 1);
            self.halves[0].fill(0);
            if age >= 2 * HALF {
                self.halves[1].fill(0);
            }
            self.since = now;
        }
        let count = &mut self.halves[0][bucket(nanos)];
        *count = count.saturating_add(requests);
    }

    /// The 99th percentile of the recorded samples in nanoseconds, rounded down to its bucket; `None` if fewer
    /// than [`SAMPLES_LEAST`] are recent.
    pub(crate) fn p99(&self, now: Instant) -> Option<u64> {
        let known = match now.since(self.since).as_nanos() / HALF {
            0 => &self.halves[..],
            1 => &self.halves[..1],
            _ => return None,
        };
        let count = |bucket: usize| known.iter().map(|half| u64::from(half[bucket])).sum::<u64>();
        let all: u64 = (0..BUCKETS).map(count).sum();
        if all < SAMPLES_LEAST {
            return None;
        }
        let mut slower = 0;
        let is_reached = |bucket: &usize| {
            slower += count(*bucket);
            slower * 100 >= all
        };
        (0..BUCKETS).rev().find(is_reached).map(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_bucket_takes_an_eighth_more_than_its_least() {
        for bucket_number in 0..BUCKETS - 1 {
            let from = least(bucket_number);
            assert_eq!(bucket(from), bucket_number);
            assert_eq!(bucket(from + from / 8), bucket_number, "{from}");
        }
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn one_slow_request_in_a_hundred_decides() {
        let mut latencies = Latencies::new();
        let now = Instant::from_nanos(5 * SECOND);
        (0..31).for_each(|_| latencies.add(now, 100_000, 1));
        assert_eq!(latencies.p99(now), None, "too few");
        (31..990).for_each(|_| latencies.add(now, 100_000, 1));
        assert!(latencies.p99(now).unwrap() <= 100_000);
        (0..10).for_each(|_| latencies.add(now, 8_000_000, 1));
        assert!((6_000_000..=8_000_000).contains(&latencies.p99(now).unwrap()));
    }

    #[test]
    fn times_older_than_a_minute_expire() {
        let mut latencies = Latencies::new();
        let at = |seconds| Instant::from_nanos(seconds * SECOND);
        (0..100).for_each(|_| latencies.add(at(30), 8_000_000, 1));
        (0..100).for_each(|_| latencies.add(at(60), 10_000, 1));
        assert!(latencies.p99(at(61)).unwrap() > 1_000_000);
        assert!(latencies.p99(at(91)).unwrap() <= 10_000);
        assert_eq!(latencies.p99(at(121)), None);
    }
}
