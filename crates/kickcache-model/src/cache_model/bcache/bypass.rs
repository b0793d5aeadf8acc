//! The accesses that bypass bcache: long streams, and shorter streams under congestion.
//!
//! Leaves out read-ahead and background flags, and the averages over a task's finished streams.

use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::ByteExtent;
use kickcache_random::Random;

use crate::device_model::ModelOperation;

const STREAMS: usize = 128;
/// An access continues a stream only if it begins less than this time after the stream's last access.
const STREAM_AGE: Duration = Duration::from_millis(5_000);
const CONGESTION_MAX: i64 = 1024;
const READ_THRESHOLD: Duration = Duration::from_micros(2_000);
const WRITE_THRESHOLD: Duration = Duration::from_micros(20_000);

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    next: u64,
    length: u64,
    used: Instant,
}

#[derive(Debug)]
pub(super) struct Bypass {
    cutoff: u64,
    streams: Vec<Stream>,
    congestion: i64,
    congested_at: Instant,
    random: Random,
}

impl Bypass {
    /// Streams of `cutoff` bytes or more bypass the cache; 0 is no cut-off.
    pub(super) fn new(cutoff: u64, seed: u64) -> Bypass {
        Bypass {
            cutoff,
            streams: vec![Stream { next: u64::MAX, ..Stream::default() }; STREAMS],
            congestion: 0,
            congested_at: Instant::ZERO,
            random: Random::new(seed),
        }
    }

    pub(super) fn on_latency(&mut self, now: Instant, latency: Duration, operation: ModelOperation) {
        let is_read = operation == ModelOperation::Read;
        let threshold = if is_read { READ_THRESHOLD } else { WRITE_THRESHOLD };
        if latency > threshold {
            let millis = i64::try_from(latency.as_nanos() / 1_000_000).unwrap_or(CONGESTION_MAX);
            self.congestion = (self.congestion - millis.max(1)).max(-CONGESTION_MAX);
            self.congested_at = now;
        } else if self.congestion < 0 {
            self.congestion += 1;
        }
    }

    /// The least length in bytes of a stream that bypasses the cache because the cache device is congested; `None` if
    /// it is not congested.
    fn congestion_limit(&mut self, now: Instant) -> Option<u64> {
        let since = i64::try_from(now.since(self.congested_at).as_nanos() / 1_000_000).unwrap_or(i64::MAX);
        let left = self.congestion.saturating_add(since);
        if self.congestion == 0 || left >= 0 {
            return None;
        }
        let height = u32::try_from(left + CONGESTION_MAX).unwrap_or(0);
        let (whole, part) = (height / 64, u64::from(height % 64));
        let sectors = (1u64 << whole) + ((1u64 << whole) * part / 64);
        let sectors = sectors.saturating_sub(u64::from((self.random.next_u64() >> 32).count_ones())).max(1);
        Some(sectors * 512)
    }

    pub(super) fn choose(&mut self, now: Instant, extent: ByteExtent) -> bool {
        let limit = self.congestion_limit(now);
        if limit.is_none() && self.cutoff == 0 {
            return false;
        }
        let run = self.observe(now, extent);
        (self.cutoff > 0 && run >= self.cutoff) || limit.is_some_and(|limit| run >= limit)
    }

    fn observe(&mut self, now: Instant, extent: ByteExtent) -> u64 {
        let is_next = |stream: &Stream| stream.next == extent.start && now.since(stream.used) < STREAM_AGE;
        let stream = match self.streams.iter().position(is_next) {
            Some(found) => &mut self.streams[found],
            None => {
                let oldest =
                    self.streams.iter_mut().min_by_key(|stream| stream.used).expect("there are streams");
                oldest.length = 0;
                oldest
            }
        };
        *stream = Stream { next: extent.end(), length: stream.length + extent.length, used: now };
        stream.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_streams_and_slow_devices_are_bypassed() {
        let mut bypass = Bypass::new(1 << 20, 1);
        let at = |number: u64| ByteExtent { start: number << 16, length: 1 << 16 };
        assert!((0..15).all(|number| !bypass.choose(Instant::ZERO, at(number))));
        assert!(bypass.choose(Instant::ZERO, at(15)));
        assert!(!bypass.choose(Instant::ZERO, at(1000)));
        (0..50)
            .for_each(|_| bypass.on_latency(Instant::ZERO, Duration::from_millis(40), ModelOperation::Read));
        assert!(bypass.choose(Instant::ZERO, at(2000)));
        let later = Instant::ZERO.plus(Duration::from_millis(2_000));
        assert!(!bypass.choose(later, at(3000)), "it is over after a second");
    }
}
