//! The figures of a volume that have to be compared with earlier reports.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::control::report::VolumeReport;

/// The least distance of two marks of writeback.
const MARK_EVERY: Duration = Duration::from_secs(900);
const MARK_COUNT: usize = 24;

#[derive(Clone, Copy, Debug)]
struct Counter {
    value: u64,
    /// The last time of a change; the first report does not count as one.
    changed: Option<Instant>,
}

#[derive(Clone, Debug)]
pub(super) struct VolumeHistory {
    first_seen: Instant,
    writeback: Counter,
    /// The last look that found no dirty block or new writeback; at first, the first look.
    progress: Instant,
    requests: Counter,
    held: Counter,
    healed: Counter,
    marks: VecDeque<(Instant, u64)>,
    pub(super) gain: Gain,
}

/// Whether the cache makes reads faster.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) enum Gain {
    /// The cache makes reads faster, the reads were too few for a comparison, or no report had recent requests yet.
    #[default]
    SomeOrUnknown,
    /// Reads from the cache take on average at least as long as reads that use the origin: the mean milliseconds of
    /// both.
    None { cache_ms: f64, origin_ms: f64 },
}

/// The least number of reads from the cache for a comparison, and of reads from the origin.
const COMPARED_MIN: u64 = 200;

impl Counter {
    fn see(&mut self, now: Instant, value: u64) {
        if value != self.value {
            *self = Counter { value, changed: Some(now) };
        }
    }

    fn changed_within(&self, now: Instant, span: Duration) -> bool {
        self.changed.is_some_and(|changed| now.duration_since(changed) < span)
    }
}

impl VolumeHistory {
    pub(super) fn new(now: Instant, volume: &VolumeReport) -> VolumeHistory {
        let counter = |value| Counter { value, changed: None };
        let counters = &volume.counters;
        VolumeHistory {
            first_seen: now,
            writeback: counter(counters.writeback_blocks),
            progress: now,
            requests: counter(counters.reads + counters.writes),
            held: counter(volume.held_requests),
            healed: counter(counters.healed_blocks),
            marks: VecDeque::new(),
            gain: Gain::default(),
        }
    }

    pub(super) fn see(&mut self, now: Instant, volume: &VolumeReport) {
        let counters = &volume.counters;
        if volume.dirty_bytes == 0 || counters.writeback_blocks != self.writeback.value {
            self.progress = now;
        }
        self.writeback.see(now, counters.writeback_blocks);
        self.requests.see(now, counters.reads + counters.writes);
        self.held.see(now, volume.held_requests);
        self.healed.see(now, counters.healed_blocks);
        if self.marks.back().is_none_or(|(at, _)| now.duration_since(*at) >= MARK_EVERY) {
            self.marks.push_back((now, counters.writeback_blocks));
            if self.marks.len() > MARK_COUNT + 1 {
                self.marks.pop_front();
            }
        }
        let recent = &volume.recent;
        // A sample for metrics has no recent requests.
        if recent.seconds > 0.0 {
            let (hits, misses) = (&recent.hits, &recent.misses);
            let is_known = hits.count.min(misses.count) >= COMPARED_MIN;
            self.gain = match is_known && hits.mean_ms >= misses.mean_ms {
                true => Gain::None { cache_ms: hits.mean_ms, origin_ms: misses.mean_ms },
                false => Gain::SomeOrUnknown,
            };
        }
    }

    /// For how long the volume has had dirty blocks while no block was written back, as far as the reports show.
    pub(super) fn without_progress(&self, now: Instant) -> Duration {
        now.duration_since(self.progress)
    }

    /// For how long the volume has had no reads and writes, as far as the reports show.
    pub(super) fn idle(&self, now: Instant) -> Duration {
        now.duration_since(self.requests.changed.unwrap_or(self.first_seen))
    }

    pub(super) fn held_within(&self, now: Instant, span: Duration) -> bool {
        self.held.changed_within(now, span)
    }

    pub(super) fn healed_within(&self, now: Instant, span: Duration) -> bool {
        self.healed.changed_within(now, span)
    }

    /// Blocks that were written back since the oldest mark, which is at least six hours old; `None` while there are
    /// too few marks.
    pub(super) fn written_back_in_six_hours(&self) -> Option<u64> {
        let first = self.marks.front().filter(|_| self.marks.len() > MARK_COUNT)?;
        Some(self.writeback.value.saturating_sub(first.1))
    }
}
