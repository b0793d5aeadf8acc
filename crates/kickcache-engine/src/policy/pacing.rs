//! The pace of writeback: none, alongside foreground work, or full speed.
//!
//! While a foreground read of the origin is queued or in flight, writeback below the high mark gets a turn only after a
//! number of foreground accesses.

use crate::config::WRITEBACK_BURST;
use crate::policy::load::work_of;
use crate::policy::throttle::SHORTAGE_MAX;
use crate::rate::{RateCap, RateUse};
use crate::time::{Duration, Instant};

/// While foreground reads wait: one less than the foreground accesses between the starts of two writebacks at the low
/// mark.
const TURN_LOW: u64 = 64;
const TURN_RECLAIM: u64 = 16;
const TURN_DRAIN: u64 = 4;
/// Work of a cache device that is behind, for clients, between two writebacks at the low mark, in times the work of a
/// writeback.
const CACHE_TURN_LOW: u64 = 64;

/// Limit of the rest that depends on the dirty share, in nanoseconds.
const REST_MAX: u64 = 1_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct CacheWork {
    /// The cache device has a backlog of work for clients.
    pub(crate) is_behind: bool,
    /// Work that ended so far.
    pub(crate) done: u64,
}

/// The input of a decision, while a volume has blocks to write back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct View {
    pub(crate) now: Instant,
    /// The volume's dirty and unflushed blocks in 1/1024 of the cache, as if it were alone; at least `high` if the
    /// volume has reached its high mark.
    pub(crate) dirty_share: u64,
    pub(crate) low: u64,
    pub(crate) high: u64,
    /// Foreground reads of the origin, queued or in flight.
    pub(crate) foreground_reads: usize,
    /// Foreground accesses to the origin that were queued so far.
    pub(crate) foreground_total: u64,
    pub(crate) cache: CacheWork,
    pub(crate) last_request: Instant,
    pub(crate) idle_after: Duration,
    /// The shortage of room for dirty blocks, in parts of [`SHORTAGE_MAX`].
    pub(crate) shortage: u64,
    pub(crate) wanted_by: WantedBy,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WantedBy {
    Nobody,
    /// Reclaim waits for the writeback of dirty blocks.
    Reclaim,
    Drain,
}

impl View {
    fn is_urgent(&self) -> bool {
        self.wanted_by != WantedBy::Nobody
    }

    /// The depth of writeback.
    fn depth(&self, depth_max: usize) -> usize {
        let more = (depth_max as u64 - 1) * self.shortage / SHORTAGE_MAX;
        usize::try_from(more).map_or(depth_max, |more| 1 + more)
    }

    fn span(&self) -> u64 {
        self.high.saturating_sub(self.low).max(1)
    }

    /// The distance of the dirty share to the high mark, at most the span between the marks.
    fn below_high(&self) -> u64 {
        self.high.saturating_sub(self.dirty_share).min(self.span())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WritebackPace {
    /// Nothing to do until the next event.
    Rest,
    /// Nothing to do before this time.
    RestUntil(Instant),
    /// Hits have precedence; decide again soon.
    GiveWay,
    /// Up to this many writebacks in flight.
    Run(usize),
}

/// A writeback that starts, or some that start together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Start {
    pub(crate) now: Instant,
    pub(crate) foreground_total: u64,
    /// Work that the cache device did for clients so far.
    pub(crate) cache_done: u64,
    pub(crate) bytes: u64,
    /// Reads of the cache device for the writebacks.
    pub(crate) reads: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pacing {
    /// `foreground_total` at the last writeback's start.
    turn: u64,
    /// Work that the cache device had done for clients at the last writeback's start.
    cache_done: u64,
    /// Work of the cache device for the last writeback.
    cache_work: u64,
    used: RateUse,
    /// The last start and the last end of a writeback, and the nanoseconds from the last start before that end.
    started: Instant,
    ended: Instant,
    took: u64,
}

impl Pacing {
    pub(crate) fn new() -> Pacing {
        Pacing::default()
    }

    pub(crate) fn on_start(&mut self, start: Start, cap: &RateCap) {
        let Start { foreground_total, cache_done, now, bytes, reads } = start;
        (self.turn, self.cache_done, self.started) = (foreground_total, cache_done, now);
        self.cache_work = work_of(reads, bytes);
        // A writeback beyond the cap is urgent, or the high mark is reached; it does not delay later writebacks.
        if self.used.ready_at(WRITEBACK_BURST) <= now {
            self.used.take(now, cap, bytes);
        }
    }

    pub(crate) fn on_end(&mut self, now: Instant) {
        (self.ended, self.took) = (now, now.since(self.started).as_nanos());
    }

    /// The end of the rest after a writeback between the marks.
    fn rested_at(&self, view: &View) -> Instant {
        let above_low = (view.span() - view.below_high()).max(1);
        let rest = self.took.saturating_mul(view.below_high()) / above_low;
        self.ended.plus(Duration::from_nanos(rest.min(REST_MAX)))
    }

    /// Drops the use so far, because the cap has changed.
    pub(crate) fn forget_use(&mut self) {
        self.used = RateUse::default();
    }

    pub(crate) fn choose(&self, view: &View, depth_max: usize) -> WritebackPace {
        if view.dirty_share >= view.high {
            return WritebackPace::Run(view.depth(depth_max));
        }
        let pace = self.choose_below_high(view, depth_max);
        let ready = self.used.ready_at(WRITEBACK_BURST);
        match pace {
            WritebackPace::Run(_) if !view.is_urgent() && view.now < ready => WritebackPace::RestUntil(ready),
            WritebackPace::Run(_) if !view.is_urgent() && !self.may_keep_hits_waiting(view) => {
                WritebackPace::GiveWay
            }
            WritebackPace::Run(_)
            | WritebackPace::Rest
            | WritebackPace::RestUntil(_)
            | WritebackPace::GiveWay => pace,
        }
    }

    fn choose_below_high(&self, view: &View, depth_max: usize) -> WritebackPace {
        if view.foreground_reads > 0 {
            return self.choose_beside_reads(view);
        }
        let idle_at = view.last_request.plus(view.idle_after);
        if view.wanted_by == WantedBy::Drain || view.now >= idle_at {
            return WritebackPace::Run(depth_max);
        }
        if view.wanted_by == WantedBy::Reclaim {
            return WritebackPace::Run(view.depth(depth_max));
        }
        if view.dirty_share <= view.low {
            return WritebackPace::RestUntil(idle_at);
        }
        let rested_at = self.rested_at(view);
        if view.now < rested_at {
            return WritebackPace::RestUntil(rested_at.min(idle_at));
        }
        WritebackPace::Run(1)
    }

    fn may_keep_hits_waiting(&self, view: &View) -> bool {
        let times = 1 + (CACHE_TURN_LOW - 1) * view.below_high() / view.span();
        !view.cache.is_behind || view.cache.done >= self.cache_done + times * self.cache_work
    }

    fn choose_beside_reads(&self, view: &View) -> WritebackPace {
        if view.dirty_share <= view.low && !view.is_urgent() {
            return WritebackPace::Rest;
        }
        let of_marks = 1 + TURN_LOW * view.below_high() / view.span();
        let turn = match view.wanted_by {
            WantedBy::Nobody => of_marks,
            WantedBy::Reclaim => {
                of_marks.min(1 + TURN_RECLAIM * (SHORTAGE_MAX - view.shortage) / SHORTAGE_MAX)
            }
            WantedBy::Drain => of_marks.min(TURN_DRAIN),
        };
        if view.foreground_total >= self.turn + turn { WritebackPace::Run(1) } else { WritebackPace::Rest }
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU64;

    use super::*;
    use crate::units::BLOCK_SIZE;

    fn view() -> View {
        View {
            now: Instant::from_nanos(0),
            dirty_share: 200,
            low: 100,
            high: 500,
            foreground_reads: 1,
            foreground_total: 0,
            cache: CacheWork::default(),
            last_request: Instant::from_nanos(0),
            idle_after: Duration::from_millis(500),
            shortage: 0,
            wanted_by: WantedBy::Nobody,
        }
    }

    #[test]
    fn yields_to_foreground_reads_between_the_marks() {
        let pacing = Pacing::new();
        assert_eq!(pacing.choose(&view(), 8), WritebackPace::Rest);
        assert_eq!(pacing.choose(&View { foreground_total: 49, ..view() }, 8), WritebackPace::Run(1));
        assert_eq!(pacing.choose(&View { foreground_total: 48, ..view() }, 8), WritebackPace::Rest);
        let full = |shortage| pacing.choose(&View { dirty_share: 500, shortage, ..view() }, 8);
        assert_eq!([0, SHORTAGE_MAX / 2, SHORTAGE_MAX].map(full), [1, 4, 8].map(WritebackPace::Run));
    }

    #[test]
    fn rests_get_shorter_up_to_the_high_mark() {
        let mut pacing = Pacing::new();
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        pacing.on_start(Start { now: at(0), ..Start::default() }, &RateCap::default());
        pacing.on_end(at(10));
        let view = View { foreground_reads: 0, now: at(11), last_request: at(11), ..view() };
        let rests = |dirty_share| match pacing.choose(&View { dirty_share, ..view }, 8) {
            WritebackPace::RestUntil(until) => until.since(at(10)).as_nanos(),
            pace @ (WritebackPace::Rest | WritebackPace::GiveWay | WritebackPace::Run(_)) => {
                panic!("{pace:?}")
            }
        };
        assert_eq!([110, 200, 300].map(rests), [390_000_000, 30_000_000, 10_000_000]);
        let shares = 101..460;
        assert!(shares.map(rests).collect::<alloc::vec::Vec<_>>().is_sorted_by(|one, next| one >= next));
        assert_eq!(pacing.choose(&View { dirty_share: 490, ..view }, 8), WritebackPace::Run(1));
    }

    #[test]
    fn reclaim_hurries_writeback_the_more_segments_are_missing() {
        let pacing = Pacing::new();
        let wanted = View { dirty_share: 50, wanted_by: WantedBy::Reclaim, ..view() };
        let starts = |shortage| {
            (0..100).find(|foreground_total| {
                let view = View { shortage, foreground_total: *foreground_total, ..wanted };
                pacing.choose(&view, 8) == WritebackPace::Run(1)
            })
        };
        assert_eq!([0, SHORTAGE_MAX / 2, SHORTAGE_MAX].map(starts), [Some(17), Some(9), Some(1)]);
        let alone = |shortage| pacing.choose(&View { foreground_reads: 0, shortage, ..wanted }, 8);
        assert_eq!([0, SHORTAGE_MAX].map(alone), [1, 8].map(WritebackPace::Run));
    }

    #[test]
    fn a_cap_holds_below_the_high_mark_unless_urgent() {
        let mut pacing = Pacing::new();
        let cap = RateCap { bytes: NonZeroU64::new(1 << 20), requests: None };
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let idle = View { now: at(10_000), foreground_reads: 0, ..view() };
        assert_eq!(pacing.choose(&idle, 8), WritebackPace::Run(8));
        pacing.on_start(Start { bytes: 256 << 10, now: at(10_000), ..Start::default() }, &cap);
        let rest = WritebackPace::RestUntil(at(10_150));
        assert_eq!(pacing.choose(&idle, 8), rest, "250 ms, and a burst of 100 ms");
        assert_eq!(pacing.choose(&View { wanted_by: WantedBy::Drain, ..idle }, 8), WritebackPace::Run(8));
        assert_eq!(pacing.choose(&View { dirty_share: 500, ..idle }, 8), WritebackPace::Run(1));
        pacing.on_start(Start { bytes: 256 << 10, now: at(10_100), ..Start::default() }, &cap);
        assert_eq!(pacing.choose(&idle, 8), rest, "what was urgent is not paid for later");
        assert_eq!(pacing.choose(&View { now: at(10_150), ..idle }, 8), WritebackPace::Run(8));
        pacing.forget_use();
        assert_eq!(pacing.choose(&idle, 8), WritebackPace::Run(8));
    }

    #[test]
    fn a_slow_cache_device_serves_hits_between_the_marks() {
        let at = |done| CacheWork { is_behind: true, done };
        let view = View { foreground_reads: 0, dirty_share: 300, cache: at(0), ..view() };
        let mut pacing = Pacing::new();
        assert_eq!(pacing.choose(&view, 8), WritebackPace::Run(1), "the first");
        let start = Start { bytes: 64 * BLOCK_SIZE, reads: 64, ..Start::default() };
        pacing.on_start(start, &RateCap { bytes: None, requests: None });
        let turn = 32 * work_of(64, 64 * BLOCK_SIZE);
        assert_eq!(pacing.choose(&View { cache: at(turn - 1), ..view }, 8), WritebackPace::GiveWay);
        assert_eq!(pacing.choose(&View { cache: at(turn), ..view }, 8), WritebackPace::Run(1));
        assert_eq!(pacing.choose(&View { cache: CacheWork::default(), ..view }, 8), WritebackPace::Run(1));
        assert_eq!(pacing.choose(&View { wanted_by: WantedBy::Drain, ..view }, 8), WritebackPace::Run(8));
        assert_eq!(pacing.choose(&View { dirty_share: 500, ..view }, 8), WritebackPace::Run(1));
    }

    #[test]
    fn drains_when_idle() {
        let quiet = View { foreground_reads: 0, dirty_share: 0, ..view() };
        let at = Instant::from_nanos(500_000_000);
        assert_eq!(Pacing::new().choose(&quiet, 8), WritebackPace::RestUntil(at));
        assert_eq!(Pacing::new().choose(&View { now: at, ..quiet }, 8), WritebackPace::Run(8));
    }
}
